# SPDX-License-Identifier: Apache-2.0
"""Einsum and products with a constant stack of matrices as operators that int8 has."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import NodeProto, numpy_helper

from ..frontends.onnx.attributes import attributes_of
from ..frontends.onnx.node_writer import NodeWriter

Shapes = dict[str, list[int]]
# More axes of a batch are joined to one.
_BATCH_AXES = 2


def einsum(graph: onnx.GraphProto, node: NodeProto, shapes: Shapes) -> list[NodeProto] | None:
    """Transpositions, matrix products and sums. None: a form that is left as it is."""
    equation = attributes_of(node)["equation"].decode().replace(" ", "")
    terms, result = _terms(equation, [shapes.get(name, []) for name in node.input])
    sizes: dict[str, int] = {}
    for term, name in zip(terms, node.input, strict=True):
        shape = shapes.get(name, [])
        if len(set(term)) != len(term) or len(term) != len(shape) or min(shape, default=1) < 1:
            return None
        if any(
            sizes.setdefault(axis, size) != size for axis, size in zip(term, shape, strict=True)
        ):
            return None
    if len(set(result)) != len(result) or not sizes.keys() >= {*result}:
        return None
    steps = _Steps(NodeWriter(graph, node.output[0]), sizes)
    constants = {tensor.name for tensor in graph.initializer}
    operands = list(zip(node.input, terms, strict=True))
    value, term = operands[0]
    for place, (other, axes) in enumerate(operands[1:], 2):
        kept = {*result}.union(*terms[place:])
        pair = ((other, axes), (value, term))
        pair = pair if value in constants else pair[::-1]
        value, term = steps.product(*pair[0], *pair[1], kept)
    value = steps.ordered(*steps.summed(value, term, {*result}), result)
    steps.writer.add("Identity", [value], node.output[0])
    return steps.writer.nodes


def _terms(equation: str, shapes: Sequence[Sequence[int]]) -> tuple[list[str], str]:
    """A letter for each axis of each operand and of the result; an ellipsis has letters of its
    own."""
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    free = [c for c in string.ascii_letters if c not in equation]
    widest = 0
    for place, (term, shape) in enumerate(zip(terms, shapes, strict=False)):
        if "..." in term:
            count = max(len(shape) - len(term) + 3, 0)
            widest = max(widest, count)
            terms[place] = term.replace("...", "".join(free[:count][::-1]))
    rest = "".join(free[:widest][::-1])
    if not arrow:
        letters = "".join(terms)
        single = sorted(c for c in {*letters} - {*rest} if letters.count(c) == 1)
        return terms, rest + "".join(single)
    return terms, result.replace("...", rest)


class _Steps:
    """Writes nodes for tensors whose axes have letters."""

    def __init__(self, writer: NodeWriter, sizes: dict[str, int]):
        self.writer, self.sizes = writer, sizes

    def product(self, x: str, left: str, y: str, right: str, kept: set[str]) -> tuple[str, str]:
        """The product of two tensors over the axes that nobody reads behind it, and its axes."""
        x, left = self.summed(x, left, kept | {*right})
        y, right = self.summed(y, right, kept | {*left})
        both = [axis for axis in left if axis in right]
        batch = "".join(axis for axis in both if axis in kept)
        inner = "".join(axis for axis in both if axis not in kept)
        rows = "".join(axis for axis in left if axis not in both)
        columns = "".join(axis for axis in right if axis not in both)
        x, y = (
            self.ordered(x, left, batch + rows + inner),
            self.ordered(y, right, batch + inner + columns),
        )
        if not inner:
            x = self.shaped(x, [*batch, *rows], [*batch, *rows, *[""] * len(columns)])
            y = self.shaped(y, [*batch, *columns], [*batch, *[""] * len(rows), *columns])
            return self.writer.add("Mul", [x, y]), batch + rows + columns
        first = [*batch] if len(batch) <= _BATCH_AXES else [batch]
        # One matrix is multiplied with any number of axes of rows.
        middle = [rows] if batch or not rows else [*rows]
        x = self.shaped(x, [*batch, *rows, *inner], [*first, *middle, inner])
        y = self.shaped(y, [*batch, *inner, *columns], [*first, inner, columns])
        made = self.writer.add("MatMul", [x, y])
        axes = [*batch, *rows, *columns]
        return self.shaped(made, [*first, *middle, columns], axes), "".join(axes)

    def summed(self, x: str, term: str, kept: set[str]) -> tuple[str, str]:
        axes = [place for place, axis in enumerate(term) if axis not in kept]
        if axes:
            x = self.writer.add("ReduceSum", [x, self.writer.ints(*axes)], keepdims=0)
        return x, "".join(axis for axis in term if axis in kept)

    def ordered(self, x: str, term: str, order: str) -> str:
        if term == order:
            return x
        return self.writer.add("Transpose", [x], perm=[term.index(axis) for axis in order])

    def shaped(self, x: str, before: Sequence[str], after: Sequence[str]) -> str:
        """Axes of several letters are joined, those of none have one element."""
        sizes = [math.prod(self.sizes[axis] for axis in axes) for axes in after]
        if [*before] == [*after]:
            return x
        return self.writer.add("Reshape", [x, self.writer.ints(*sizes)])


def stack_product(graph: onnx.GraphProto, node: NodeProto) -> list[NodeProto] | None:
    """A product with a constant matrix for each head as one product for each, joined. None: a
    product of another kind."""
    weights = next((t for t in graph.initializer if t.name == node.input[1]), None)
    stacked = [a for a, size in enumerate(weights.dims[:-2]) if size > 1] if weights else []
    if weights is None or len(stacked) != 1:
        return None
    steps, axis = NodeWriter(graph, node.output[0]), stacked[0] - len(weights.dims)
    parts = []
    for place, matrix in enumerate(np.moveaxis(numpy_helper.to_array(weights), axis, 0)):
        rows = steps.slice(node.input[0], axis, place, place + 1)
        matrix = matrix.reshape(matrix.shape[-2:])
        parts.append(steps.add("MatMul", [rows, steps.constant(f"matrix{place}", matrix)]))
    steps.add("Concat", parts, node.output[0], axis=axis)
    return steps.nodes
