# SPDX-License-Identifier: Apache-2.0
"""Runs an ONNX graph of one call in PyTorch, over sequences of calls, so that it can be trained.

Nodes between a state's input and its output run call by call. All other nodes run once for all
calls. Each node is written as for one call; torch.vmap adds the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F  # noqa: N812 (PyTorch's name for it)
from onnx import helper, numpy_helper
from torch import Tensor

Values = dict[str, Any]


def _conv(
    op: Callable[..., Tensor], x: Tensor, w: Tensor, b: Tensor | None = None, **given: Any
) -> Tensor:
    """Conv or ConvTranspose of as many axes as the weights have, padded equally at both ends."""
    axes = w.ndim - 2
    pads = given.pop("pads", [0] * 2 * axes)
    names = {"strides": "stride", "dilations": "dilation", "group": "groups"}
    return op(x, w, b, padding=pads[:axes], **{names.get(k, k): v for k, v in given.items()})


def _affine(
    x: Tensor, gain: Tensor, offset: Tensor, mean: Tensor, var: Tensor, epsilon: float = 1e-5
) -> Tensor:
    """BatchNormalization with fixed statistics."""
    factor = gain / (var + epsilon) ** 0.5
    return (x - mean[:, None, None]) * factor[:, None, None] + offset[:, None, None]


def _gru_step(gates: Tensor, hidden: Tensor, h: Tensor) -> Tensor:
    z, r, n = gates.chunk(3, -1)
    hz, hr, hn = hidden.chunk(3, -1)
    z = torch.sigmoid(z + hz)
    return z * h + (1 - z) * torch.tanh(n + torch.sigmoid(r + hr) * hn)


def _gru(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor, _: None = None, h: Tensor | None = None, **__: Any
) -> tuple[Tensor, Tensor]:
    """x: (steps, batch, inputs); Y (steps, sides, batch, units) and its last states."""
    sides, ends, units = [], [], r.shape[2]
    for side in range(len(w)):
        given = x @ w[side].T + b[side, : 3 * units]
        now = x.new_zeros(x.shape[1], units) if h is None else h[side]
        made = []
        for gates in given.flip(0) if side else given:
            now = _gru_step(gates, now @ r[side].T + b[side, 3 * units :], now)
            made.append(now)
        sides.append(torch.stack(made[::-1] if side else made))
        ends.append(now)
    return torch.stack(sides, 1), torch.stack(ends)


def _lstm(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor, _: None, h: Tensor, c: Tensor, **__: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """x: (steps, batch, inputs); Y (steps, 1, batch, units) and its last states."""
    now, cell, made = h[0], c[0], []
    bias = b[0].view(2, -1).sum(0)
    for gates in x @ w[0].T + bias:
        i, o, f, n = (gates + now @ r[0].T).chunk(4, -1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(n)
        now = torch.sigmoid(o) * torch.tanh(cell)
        made.append(now[None])
    return torch.stack(made), now[None], cell[None]


def _pad(x: Tensor, pads: Sequence[int], mode: str = "constant") -> Tensor:
    """Axes that are padded are at the end, as PyTorch requires for `reflect`."""
    axes = len(pads) // 2
    pairs = [(pads[axis], pads[axis + axes]) for axis in range(axes)]
    while pairs and not any(pairs[0]):
        pairs.pop(0)
    return F.pad(x, [n for pair in reversed(pairs) for n in pair], mode)


def _gather(x: Tensor, places: Any, axis: int) -> Tensor:
    at = torch.tensor(places)
    return x.index_select(axis, at.flatten()).unflatten(axis, at.shape)


OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": torch.add,
    "BatchNormalization": _affine,
    "Concat": lambda *xs, axis: torch.cat(xs, axis),
    "Conv": lambda x, w, *b, **given: _conv((F.conv1d, F.conv2d)[w.ndim - 3], x, w, *b, **given),
    "ConvTranspose": lambda *xs, **given: _conv(F.conv_transpose2d, *xs, **given),
    "GRU": _gru,
    "Gather": _gather,
    "Identity": lambda x: x,
    "LSTM": _lstm,
    "LayerNormalization": lambda x, g, b, axis, epsilon: F.layer_norm(
        x, x.shape[axis:], g, b, epsilon
    ),
    "MatMul": torch.matmul,
    "Mul": torch.mul,
    "PRelu": lambda x, slope: torch.where(x >= 0, x, slope * x),
    "Pad": _pad,
    "Pow": torch.pow,
    "ReduceMean": lambda x, axes, keepdims: x.mean(axes, keepdim=bool(keepdims)),
    "Relu": torch.relu,
    "Reshape": lambda x, to: x.reshape([n or x.shape[axis] for axis, n in enumerate(to)]),
    "Sigmoid": torch.sigmoid,
    "Slice": lambda x, start, end, axis: x.narrow(axis[0], start[0], end[0] - start[0]),
    "Split": lambda x, sizes, axis: x.split(sizes, axis),
    "Sqrt": lambda x: torch.sqrt(x + 1e-12),  # whose slope at 0 is finite
    "Squeeze": lambda x, axes: x.squeeze(axes[0]),
    "Sub": torch.sub,
    "Tanh": torch.tanh,
    "Transpose": lambda x, perm: x.permute(perm),
    "Unsqueeze": lambda x, axes: x.unsqueeze(axes[0]),
}


@dataclass(frozen=True)
class Node:
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    @staticmethod
    def of(node: onnx.NodeProto) -> Node:
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        words = {k: v.decode() if isinstance(v, bytes) else v for k, v in given.items()}
        return Node(node.op_type, tuple(node.input), tuple(node.output), words)

    def run(self, values: Values) -> Values:
        made = OPERATORS[self.op](*(values[name] for name in self.inputs), **self.attributes)
        results = [made] if isinstance(made, Tensor) else made
        return {name: one for name, one in zip(self.outputs, results, strict=True) if name}


@dataclass(frozen=True)
class Piece:
    """Nodes in order. If they have `states`, output by input, they run call by call."""

    nodes: tuple[Node, ...]
    states: Mapping[str, str]

    @property
    def made(self) -> set[str]:
        return {name for node in self.nodes for name in node.outputs}

    @property
    def read(self) -> set[str]:
        """What other nodes make, and the model's input."""
        names = {name for node in self.nodes for name in node.inputs if name}
        return names - self.made - set(self.states)


def pieces(nodes: Sequence[Node], states: Mapping[str, str]) -> list[Piece]:
    """The nodes of a graph, each in one piece, in an order in which they can run."""
    loops: list[tuple[set[int], dict[str, str]]] = []
    for state, end in states.items():
        inside, names = _behind(nodes, {state}) & _ahead(nodes, {end}), {state: end}
        for other in [one for one in loops if one[0] & inside]:
            loops.remove(other)
            inside, names = inside | other[0], names | other[1]
        loops.append((inside, names))
    found = [Piece(tuple(nodes[n] for n in sorted(inside)), names) for inside, names in loops]
    looped = set().union(*(inside for inside, _ in loops))
    found += [Piece((node,), {}) for n, node in enumerate(nodes) if n not in looped]
    return _in_order(found)


def _behind(nodes: Sequence[Node], names: set[str]) -> set[int]:
    """Nodes that depend on a tensor; the nodes are in topological order."""
    found = set()
    for n, node in enumerate(nodes):
        if names & set(node.inputs):
            names = names | set(node.outputs)
            found.add(n)
    return found


def _ahead(nodes: Sequence[Node], names: set[str]) -> set[int]:
    """Nodes that a tensor depends on."""
    found = set()
    for n in reversed(range(len(nodes))):
        if names & set(nodes[n].outputs):
            names = names | set(nodes[n].inputs)
            found.add(n)
    return found


def _in_order(found: Iterable[Piece]) -> list[Piece]:
    left, order = list(found), []
    while left:
        waiting = set().union(*(piece.made for piece in left))
        ready = [piece for piece in left if not piece.read & waiting]
        left = [piece for piece in left if piece.read & waiting]
        order += ready
    return order


class Unrolled(torch.nn.Module):
    """A model over sequences; `learned` of its constants are parameters.

    states: output by input. Raises KeyError if an operator is not in OPERATORS.
    """

    def __init__(self, model: onnx.ModelProto, states: Mapping[str, str], learned: Sequence[str]):
        super().__init__()
        self.shapes = {
            one.name: [d.dim_value for d in one.type.tensor_type.shape.dim]
            for one in model.graph.input
        }
        self.input, self.output = model.graph.input[0].name, model.graph.output[0].name
        self.pieces = pieces([Node.of(node) for node in model.graph.node], states)
        self.constants: Values = {"": None}
        for one in model.graph.initializer:
            array = numpy_helper.to_array(one)
            whole = array.dtype == np.int64
            self.constants[one.name] = array.tolist() if whole else torch.tensor(array)
        self.learned = torch.nn.ParameterList(
            torch.nn.Parameter(self.constants[name]) for name in learned
        )
        self.constants |= dict(zip(learned, self.learned, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        """x: (calls, batch, *the shape of the input). Returns the first output of each call."""
        values: Values = {self.input: x}
        for piece in self.pieces:
            read = {name: values[name] for name in piece.read if name in values}
            values |= self._loop(piece, read) if piece.states else self._once(piece, read)
        return values[self.output]

    def _once(self, piece: Piece, read: Values) -> Values:
        calls = next(iter(read.values())).shape[:2]
        flat = {name: value.flatten(0, 1) for name, value in read.items()}
        found = torch.vmap(lambda given: self._run(piece, given))(flat)
        return {name: value.unflatten(0, calls) for name, value in found.items()}

    def _loop(self, piece: Piece, read: Values) -> Values:
        """States begin with zeros."""

        def over_calls(given: Values) -> Values:
            now = {name: torch.zeros(self.shapes[name]) for name in piece.states}
            found: dict[str, list[Tensor]] = {name: [] for name in piece.made if name}
            for call in zip(*given.values(), strict=True):
                values = self._run(piece, now | dict(zip(given, call, strict=True)))
                now = {name: values[end] for name, end in piece.states.items()}
                for name, value in values.items():
                    found[name].append(value)
            return {name: torch.stack(made) for name, made in found.items()}

        return torch.vmap(over_calls, in_dims=1, out_dims=1)(read)

    def _run(self, piece: Piece, given: Values) -> Values:
        """One call: what the nodes make, by name."""
        values, found = self.constants | given, Values()
        for node in piece.nodes:
            made = node.run(values)
            values |= made
            found |= made
        return found
