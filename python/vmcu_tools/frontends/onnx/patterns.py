# SPDX-License-Identifier: Apache-2.0
"""Normalisations that exporters write as single operators, put together again.

PyTorch writes LayerNorm as ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div before opset 17, always
writes RMSNorm and functional.normalize() out, and people write the same by hand. In int8 their
inner tensors, the variance above all, would lose everything; as one operator they lose nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from .attributes import attributes_of
from .node_writer import NodeWriter, remove_dead, replace_nodes

# Of damaged files, nodes may have fewer.
_OPERANDS = dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow"), 2)


@dataclass(frozen=True)
class _Match:
    """A normalisation of `source` along `axes`; `kind` is an operator."""

    kind: str
    source: str
    axes: tuple[int, ...]
    epsilon: float


class _Reader:
    """The tensors and nodes behind a graph's names."""

    def __init__(self, graph: onnx.GraphProto):
        self.graph = graph
        self.made = {name: node for node in graph.node for name in node.output if name}
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        values = [*graph.input, *graph.value_info, *graph.output]
        kinds = {value.name: value.type.tensor_type for value in values}
        self.shapes = {name: kind.shape for name, kind in kinds.items() if kind.HasField("shape")}
        self.uses = Counter(name for node in graph.node for name in node.input)
        self.uses.update(value.name for value in graph.output)

    def array(self, name: str) -> np.ndarray | None:
        if name in self.constants:
            return numpy_helper.to_array(self.constants[name])
        node = self.made.get(name)
        if node is None or node.op_type != "Constant":
            return None
        tensors = [a.t for a in node.attribute if a.name == "value"]
        return numpy_helper.to_array(tensors[0]) if tensors else None

    def number(self, name: str) -> float | None:
        array = self.array(name)
        return float(array.ravel()[0]) if array is not None and array.size == 1 else None

    def rank(self, name: str) -> int | None:
        return len(self.shapes[name].dim) if name in self.shapes else None

    def node(self, name: str, *ops: str) -> NodeProto | None:
        """The node that makes a value, if it is one of `ops`."""
        node = self.made.get(name)
        if node is None or node.op_type not in ops or node.domain:
            return None
        return node if len(node.input) >= _OPERANDS.get(node.op_type, 1) else None

    def with_constant(self, name: str, op: str) -> tuple[str, float] | None:
        """The operand and the scalar of a commutative operator."""
        node = self.node(name, op)
        for a, b in (node.input, reversed(node.input)) if node and len(node.input) == 2 else ():
            number = self.number(b)
            if number is not None:
                return a, number
        return None

    def reduced(self, name: str, *ops: str) -> tuple[str, tuple[int, ...]] | None:
        """The operand and the axes, counted from the end, of a reduction that keeps dimensions."""
        node = self.node(name, *ops)
        if node is None:
            return None
        given = attributes_of(node)
        axes = given.get("axes")
        if axes is None and len(node.input) > 1:
            array = self.array(node.input[1])
            axes = None if array is None else array.ravel().tolist()
        rank = self.rank(node.input[0]) or self.rank(name)
        if not axes or not given.get("keepdims", 1) or (rank is None and max(axes) >= 0):
            return None
        return node.input[0], tuple(sorted(a - (rank or 0) if a >= 0 else a for a in axes))

    def squared(self, name: str) -> str | None:
        """The base of x ** 2 or x * x."""
        node = self.node(name, "Pow", "Mul")
        if node is None:
            return None
        base, other = node.input
        same = other == base if node.op_type == "Mul" else self.number(other) == 2
        return base if same else None


def fuse_normalisations(graph: onnx.GraphProto) -> None:
    """Replaces each normalisation by LayerNormalization, SimplifiedLayerNormalization or
    LpNormalization, with gain and offset where they follow as constants. Unused nodes are left
    to the reader of the graph."""
    reader = _Reader(graph)
    replaced: dict[int, list[NodeProto]] = {}
    for node in graph.node:
        match = _match(reader, node)
        if match is None:
            continue
        end, gain, offset = _scaled(reader, node, match)
        replaced[id(end)] = _nodes(reader, match, end, gain, offset)
    if not replaced:
        return
    replace_nodes(graph, (new for n in graph.node for new in replaced.get(id(n), [n])))
    remove_dead(graph)


def _match(reader: _Reader, node: NodeProto) -> _Match | None:
    """Whether a node is the division at a normalisation's end."""
    if node.domain or node.op_type not in ("Div", "Mul") or len(node.input) != 2:
        return None
    if node.op_type == "Div":
        return _divided(reader, *node.input)
    for value, factor in (node.input, list(node.input)[::-1]):
        normalisation = _multiplied(reader, value, factor)
        if normalisation is not None:
            return normalisation
    return None


def _multiplied(reader: _Reader, value: str, factor: str) -> _Match | None:
    """value * factor as a normalisation, if the factor is an inverse."""
    power = reader.node(factor, "Pow")
    if power is not None and reader.number(power.input[1]) == -0.5:
        return _over_root(reader, value, power.input[0])
    inverse = reader.node(factor, "Reciprocal", "Div")
    if inverse is None or (inverse.op_type == "Div" and reader.number(inverse.input[0]) != 1):
        return None
    return _divided(reader, value, inverse.input[-1])


def _divided(reader: _Reader, value: str, divisor: str) -> _Match | None:
    """value / divisor as a normalisation."""
    length = _length(reader, divisor)
    if length is not None:
        base, axes = length
        one = base == value and len(axes) == 1
        return _Match("LpNormalization", value, axes, 0.0) if one else None
    root = reader.node(divisor, "Sqrt")
    return None if root is None else _over_root(reader, value, root.input[0])


def _over_root(reader: _Reader, value: str, total: str) -> _Match | None:
    """value / sqrt(total) as a normalisation, total being a mean square and an epsilon."""
    added = reader.with_constant(total, "Add")
    if added is None:
        return None
    variance, epsilon = added
    mean = reader.reduced(variance, "ReduceMean")
    if mean is None or reader.squared(mean[0]) != value:
        return None
    axes = mean[1]
    centred = reader.node(value, "Sub")
    if centred is not None and reader.reduced(centred.input[1], "ReduceMean") == (
        centred.input[0],
        axes,
    ):
        return _Match("LayerNormalization", centred.input[0], axes, epsilon)
    return _Match("SimplifiedLayerNormalization", value, axes, epsilon)


def _length(reader: _Reader, name: str) -> tuple[str, tuple[int, ...]] | None:
    """The vector and the axes of a Euclidean norm, which may be kept from being zero."""
    for _ in reader.graph.node:
        node = reader.node(name, "Expand", "Clip", "Max")
        if node is None:
            break
        name = node.input[0]
    root = reader.node(name, "Sqrt")
    if root is None:
        return reader.reduced(name, "ReduceL2")
    total = reader.reduced(root.input[0], "ReduceSum", "ReduceSumSquare")
    if total is None or reader.node(root.input[0], "ReduceSumSquare"):
        return total
    base = reader.squared(total[0])
    return None if base is None else (base, total[1])


def _scaled(
    reader: _Reader, node: NodeProto, match: _Match
) -> tuple[NodeProto, np.ndarray | None, np.ndarray | None]:
    """The last node of the normalisation, its gain and its offset, in the shape of the axes."""
    gain = offset = None
    if match.kind == "LpNormalization":
        return node, None, None
    follower, gain = _by_constant(reader, node, "Mul", match.axes)
    node = follower or node
    if match.kind == "LayerNormalization":
        follower, offset = _by_constant(reader, node, "Add", match.axes)
        node = follower or node
    return node, gain, offset


def _by_constant(
    reader: _Reader, node: NodeProto, op: str, axes: tuple[int, ...]
) -> tuple[NodeProto | None, np.ndarray | None]:
    """The only reader of a node, if it is `op` with a constant that changes along `axes` only."""
    name = node.output[0]
    readers = [n for n in reader.graph.node if name in n.input]
    alone = reader.uses[name] == 1 and len(readers) == 1
    if not alone or readers[0].op_type != op or readers[0].domain:
        return None, None
    other = next((i for i in readers[0].input if i != name), "")
    array = reader.array(other)
    if array is None:
        return None, None
    others = [d for a, d in enumerate(array.shape, -array.ndim) if a not in axes]
    if any(d != 1 for d in others):
        return None, None
    inner = [array.shape[a] if -a <= array.ndim else 1 for a in axes]
    return readers[0], array.reshape(inner)


def _nodes(
    reader: _Reader,
    match: _Match,
    end: NodeProto,
    gain: np.ndarray | None,
    offset: np.ndarray | None,
) -> list[NodeProto]:
    """The operator, between transpositions where its axes are not the last ones."""
    name, result = end.output[0], end.output[0]
    axes = match.axes
    if match.kind == "LpNormalization":
        title = end.name or name
        return [helper.make_node(match.kind, [match.source], [result], title, axis=axes[0], p=2)]
    last = tuple(range(-len(axes), 0))
    rank = reader.rank(match.source) or reader.rank(result)
    shape = _sizes(reader, match, rank)
    if shape is None or rank is None:
        return [end]
    inputs, constants = [match.source], NodeWriter(reader.graph, name)
    arrays = [np.ones(shape) if gain is None else gain, offset]
    for what, array in zip(("gain", "offset"), arrays, strict=True):
        if array is not None:
            full = np.broadcast_to(array, shape).astype(np.float32)
            inputs.append(constants.constant(what, full))

    def normalise(source: str, target: str) -> NodeProto:
        given = [source, *inputs[1:]]
        epsilon = match.epsilon
        title = end.name or name
        first = -len(axes)
        return helper.make_node(match.kind, given, [target], title, axis=first, epsilon=epsilon)

    if axes == last:
        return [normalise(match.source, result)]
    others = [a for a in range(rank) if a - rank not in axes]
    perm = [*others, *(a + rank for a in axes)]
    turned, normalised = f"{name}/turned", f"{name}/normalised"
    for side in (turned, normalised):
        sizes = [reader.shapes[match.source].dim[a].dim_value for a in perm]
        info = helper.make_tensor_value_info(side, onnx.TensorProto.FLOAT, sizes)
        reader.graph.value_info.append(info)
    back = [perm.index(a) for a in range(rank)]
    return [
        helper.make_node("Transpose", [match.source], [turned], f"{name}/turn", perm=perm),
        normalise(turned, normalised),
        helper.make_node("Transpose", [normalised], [result], f"{name}/back", perm=back),
    ]


def _sizes(reader: _Reader, match: _Match, rank: int | None) -> tuple[int, ...] | None:
    """Counts the elements along each axis."""
    if rank is None or match.source not in reader.shapes:
        return None
    dims = reader.shapes[match.source].dim
    sizes = tuple(dims[a + rank].dim_value for a in match.axes)
    return sizes if min(sizes) > 0 else None
