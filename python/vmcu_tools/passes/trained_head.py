# SPDX-License-Identifier: Apache-2.0
"""A graph whose last dense layers are trained on the device, with each call that has a label.

The weights of these layers become an input and an output at one address. Behind the scores come
their softmax, its error against the label, and a step of gradient descent for each layer. The last
layer gets further classes, whose weights start at zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import Problem, UserError
from ..frontends.softmax import tflite_table
from ..graph import Graph, Node, Op, Port, Shape, State, Tensor, Window
from ..ops.concat import Concat
from ..ops.conv2d import Conv2D
from ..ops.fully_connected import FullyConnected
from ..ops.softmax import Softmax
from ..ops.trainable import MOST_BIAS, most_weight, packed
from ..ops.trained_dense import TrainedDense
from ..ops.training import LOST_BITS, MOST_CLASSES, ClassError, DenseGradient, DenseUpdate
from ..ops.wide import SoftmaxInt16
from ..quant import FixedPoint, FloatScale
from ..training import Training
from .rewrite import free_name, swept

# The largest weight of the file is so many times smaller than the largest one of training.
HEADROOM = 4
# Of scores at least, so that their softmax can be as good as certain.
LEAST_SCORE_SCALE = 1 / 16
# Of errors, and of the probabilities before.
ERROR_SCALE, SHARE_SCALE, SHARE_ZERO = 2.0**-15, 2.0**-16, -(2**15)
# With larger factors of errors, a step could exceed int32.
MOST_WEIGHT_STEP, MOST_BIAS_STEP = 2.0**7, 2.0**15
MOST_TAPS = 16_000
LABEL = "label"
DENSE_END = "end the model with a dense layer and, if you like, a Softmax"
ONE_LAYER = "train one layer: --layers 1"


@dataclass(frozen=True, eq=False)
class TrainedHead:
    """`graph`: inputs of the file, then the label, then weights of each trained layer; outputs: the
    scores, then weights of each trained layer. weights: their first values, int8 (H, 1, C)."""

    graph: Graph
    weights: tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class _Dense:
    """A dense layer in real numbers: weights (outputs, taps), biases (outputs,). factors: of
    the node's sums, (outputs,) or (1,). first: the first trained output; constant: the op of those
    in front of it, whose weights stay as they are."""

    node: Node
    x: Tensor
    out: Tensor
    weights: np.ndarray
    biases: np.ndarray
    factors: np.ndarray
    first: int = 0
    constant: Op | None = None

    @property
    def scale(self) -> float:
        """Of int16 weights."""
        most = most_weight(self.weights.shape[1])
        return float(HEADROOM * max(np.abs(self.weights).max(), 1e-6) / most)

    @property
    def sum_scale(self) -> float:
        """Of sums and biases."""
        return self.x.scale * self.scale

    @property
    def packed(self) -> np.ndarray:
        """The tensor of the trained outputs' weights."""
        biases = np.clip(np.rint(self.biases / self.sum_scale), -MOST_BIAS, MOST_BIAS)
        return packed(np.rint(self.weights / self.scale)[self.first :], biases[self.first :])

    @property
    def op(self) -> TrainedDense:
        """The trained outputs."""
        low, high = self.node.op.act_min, self.node.op.act_max
        requant = FixedPoint.of(np.float64(self.sum_scale / self.out.scale))
        return TrainedDense(requant, act_min=low, act_max=high)


def trained_head(graph: Graph, training: Training) -> TrainedHead:
    """The graph that trains its last layers. Raises UserError if it cannot."""
    if graph.state.names or len(graph.outputs) != 1:
        what = "keeps state" if graph.state.names else f"has {len(graph.outputs)} outputs"
        reason = f"the model {what}; only a classifier of one output can be trained"
        raise _refused(graph, reason, DENSE_END)
    last = graph.producer(graph.outputs[0].tensor)
    nodes = graph.nodes
    if last is not None and isinstance(last.op, Softmax):
        nodes = tuple(node for node in nodes if node is not last)
        last = graph.producer(last.inputs[0])
    layers = [_dense(graph, last)]
    for _ in range(training.layers - 1):
        layers.insert(0, _dense(graph, graph.producer(layers[0].x.name), layers[0].node))
    layers[-1] = _classified(graph, layers[-1], training)
    return _Maker(replace(graph, nodes=nodes), tuple(layers), training.rate).run()


def _dense(graph: Graph, node: Node | None, behind: Node | None = None) -> _Dense:
    """A node as a dense layer whose values nobody else reads. `behind`: the trained layer that
    reads it. Raises UserError for another node."""
    remedy = DENSE_END if behind is None else ONE_LAYER
    if node is None:
        what = "the output is an input" if behind is None else "it reads an input"
        raise _refused(graph, f"{what}: there is no layer to train", remedy, behind)
    x, out = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    found = _parameters(node.op, x)
    if found is None or out.shape[:2] != (1, 1):
        which = "last" if behind is None else "second last"
        raise _refused(graph, f"the {which} layer is no dense layer", remedy, node)
    if behind is not None and len(graph.consumers(out.name)) > 1:
        raise _refused(graph, "several layers read the output of the layer", remedy, node)
    if x.bytes > MOST_TAPS:
        reason = f"the layer has {x.bytes} inputs; training supports up to {MOST_TAPS}"
        raise _refused(graph, reason, "reduce them by a pooling layer", node)
    weights, bias, factors = found
    scales = factors * out.scale / x.scale
    return _Dense(node, x, out, weights * scales[:, None], bias * (scales * x.scale), factors)


def _parameters(op: Any, x: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Weights (outputs, taps), biases and factors of sums of a layer of all of `x`, float64; None
    for another layer."""
    whole = isinstance(op, Conv2D) and op.window == Window(x.shape[:2]) and op.groups == 1
    if not whole and not isinstance(op, FullyConnected):
        return None
    weights = op.weights.reshape(len(op.weights), -1).astype(np.float64)
    return weights, op.bias.astype(np.float64), _factors(op.requant)


def _factors(requant: object) -> np.ndarray:
    """Factors of sums, float64 (channels,) or (1,)."""
    if isinstance(requant, FloatScale):
        return np.ravel(requant.scale).astype(np.float64)
    assert isinstance(requant, FixedPoint)
    return np.ravel(requant.multiplier * 2.0 ** (requant.shift.astype(np.float64) - 31))


def _classified(graph: Graph, layer: _Dense, training: Training) -> _Dense:
    """The last layer with so many classes, and a scale that its scores can be trained in."""
    known = len(layer.weights)
    count = known if training.classes is None else training.classes
    if not known <= count <= MOST_CLASSES:
        reason = f"the model has {known} classes; training supports up to {MOST_CLASSES}"
        reason += f", not {count}"
        remedy = f"choose --classes from {known} to {MOST_CLASSES}"
        if known > MOST_CLASSES:
            remedy = f"use a model of at most {MOST_CLASSES} classes"
        raise _refused(graph, reason, remedy, layer.node)
    more = count - known
    if training.new_only and (not more or training.layers > 1):
        what = "several layers" if more else "no new class"
        reason = f"{what} and --new-only exclude each other"
        remedy = f"leave out --new-only, or give --classes {known + 1}, and --layers 1"
        raise _refused(graph, reason, remedy, layer.node)
    out = replace(layer.out, shape=(1, 1, count))
    if out.scale < LEAST_SCORE_SCALE:
        out = replace(out, scale=LEAST_SCORE_SCALE, zero_point=0)
    # A fused activation would cut scores, and their errors would be wrong.
    op: Any = layer.node.op
    factors = layer.factors * (layer.out.scale / out.scale)
    op = replace(op, act_min=-128, act_max=127, requant=FixedPoint.of(factors))
    return replace(
        layer,
        node=replace(layer.node, op=op),
        out=out,
        weights=np.pad(layer.weights, ((0, more), (0, 0))),
        biases=np.pad(layer.biases, (0, more)),
        first=known if training.new_only else 0,
        constant=op if training.new_only else None,
    )


def _refused(graph: Graph, reason: str, remedy: str, node: Node | None = None) -> UserError:
    who = (node.name, node.kind) if node is not None else ("", "")
    return UserError(Problem(reason, remedy, graph.origin, *who))


class _Maker:
    def __init__(self, graph: Graph, layers: tuple[_Dense, ...], rate: float):
        self.graph, self.layers, self.rate = graph, layers, rate
        self.tensors = {**graph.tensors, **{one.out.name: one.out for one in layers}}

    def run(self) -> TrainedHead:
        label = self._tensor(LABEL, (1, 1, 1))
        heads = [self._tensor(f"{one.node.name} weights", one.packed.shape) for one in self.layers]
        trained = {
            one.out.name: self._trained(one, head)
            for one, head in zip(self.layers, heads, strict=True)
        }
        lists = [trained.get(node.outputs[0], [node]) for node in self.graph.nodes]
        nodes = [node for some in lists for node in some]
        errors = self._errors(nodes, label, heads)
        nexts = [self._tensor(f"{name} updated", self.tensors[name].shape) for name in heads]
        # From the last layer to the first, each behind what reads its weights.
        for index in reversed(range(len(self.layers))):
            one = self.layers[index]
            ins = heads[index], errors[index], one.x.name
            nodes.append(Node(f"{one.node.name} step", self._step(one), ins, (nexts[index],)))
        scores = self.layers[-1].out
        shown = replace(self.graph.outputs[0], tensor=scores.name, file_shape=(1, scores.bytes))
        graph = replace(
            self.graph,
            tensors=self.tensors,
            nodes=tuple(nodes),
            inputs=(*self.graph.inputs, *map(self._port, (label, *heads))),
            outputs=(replace(shown, layout="nhwc"), *map(self._port, nexts)),
            state=State(updates=tuple(zip(heads, nexts, strict=True))),
        )
        return TrainedHead(swept(graph), tuple(one.packed for one in self.layers))

    def _trained(self, layer: _Dense, head: str) -> list[Node]:
        """A layer with the weights of outputs in a tensor: of all, or of those behind the ones that
        are constant."""
        name, x, out = layer.node.name, layer.x.name, layer.out
        if layer.constant is None:
            return [Node(name, layer.op, (x, head), (out.name,))]
        sizes = layer.first, out.bytes - layer.first
        parts = [
            self._tensor(f"{out.name} {which}", (1, 1, size), out.scale, out.zero_point)
            for which, size in zip(("constant", "trained"), sizes, strict=True)
        ]
        return [
            Node(name, layer.constant, (x,), (parts[0],)),
            Node(f"{name} trained", layer.op, (x, head), (parts[1],)),
            Node(f"{name} joined", Concat(2, (None, None)), (*parts,), (out.name,)),
        ]

    def _errors(self, nodes: list[Node], label: str, heads: list[str]) -> list[str]:
        """By layer the tensor of its errors, from nodes that are added."""
        last = self.layers[-1]
        size = (1, 1, 2 * last.out.bytes)
        share = self._tensor(f"{last.out.name} shares", size, SHARE_SCALE, SHARE_ZERO)
        op: Op = SoftmaxInt16(tflite_table(last.out.scale, 1.0))
        nodes.append(Node(f"{last.node.name} softmax", op, (last.out.name,), (share,)))
        found = [self._tensor(f"{last.out.name} errors", size, ERROR_SCALE)]
        nodes.append(Node(f"{last.node.name} error", ClassError(), (share, label), (found[0],)))
        for index in reversed(range(len(self.layers) - 1)):
            one, above = self.layers[index : index + 2]
            size = (1, 1, 2 * one.out.bytes)
            errors = self._tensor(f"{one.out.name} errors", size, ERROR_SCALE)
            factor = FixedPoint.of(np.float64(above.scale * 2.0**LOST_BITS))
            op = DenseGradient(factor, one.node.op.act_min, one.node.op.act_max)
            ins = found[0], heads[index + 1], one.out.name
            nodes.append(Node(f"{one.node.name} error", op, ins, (errors,)))
            found.insert(0, errors)
        return found

    def _step(self, layer: _Dense) -> DenseUpdate:
        weight = self.rate * ERROR_SCALE * layer.x.scale / layer.scale
        bias = self.rate * ERROR_SCALE / layer.sum_scale
        if max(weight / MOST_WEIGHT_STEP, bias / MOST_BIAS_STEP) >= 1:
            reason = f"a step with --learning-rate {self.rate:g} is too large for its weights"
            raise _refused(self.graph, reason, "choose a smaller --learning-rate", layer.node)
        most = most_weight(layer.weights.shape[1])
        factors = FixedPoint.of(np.float64(weight)), FixedPoint.of(np.float64(bias))
        return DenseUpdate(*factors, most, layer.first)

    def _port(self, name: str) -> Port:
        return Port(name, name, (self.tensors[name].bytes,), "int8")

    def _tensor(self, name: str, shape: Shape, scale: float = 1.0, zero: int = 0) -> str:
        """Adds a tensor; its name."""
        name = free_name(replace(self.graph, tensors=self.tensors), name)
        self.tensors[name] = Tensor(name, shape, scale, zero)
        return name
