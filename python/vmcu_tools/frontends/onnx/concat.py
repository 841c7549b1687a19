# SPDX-License-Identifier: Apache-2.0
"""The import rule of Concat."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...graph import Op, Shape, Tensor
from ...ops.concat import Concat
from ...ops.pad import Pad
from ...ops.reshape import Reshape
from .. import constant_outputs, tables
from ..common import axis_of, require
from ..movement import file_index
from .context import Context, outputs, rule
from .deferred import until_scale
from .elementwise import plus_constant
from .file import FileNode
from .values import (
    Activation,
    Args,
    FileShape,
    Order,
    Pending,
    Real,
    Value,
    arrangement,
    channels_last,
    constant_of,
    explicit,
    is_image,
    result_of,
    simplify,
    tensor_axis,
    tensor_shape,
)


@rule("Concat", constraints="any axis; not all inputs constant")
def _concat(context: Context, node: FileNode, args: Args) -> Value:
    constants = [constant_of(arg) for arg in args]
    inputs = [context.activation(arg) for arg, c in zip(args, constants, strict=True) if c is None]
    require(len(inputs) > 0, "all of its inputs are constant", "fold them")
    rest = iter(inputs)
    shapes = [next(rest).shape if c is None else c.shape for c in constants]
    rank = len(inputs[0].shape)
    axis = axis_of(int(node.attributes["axis"]), rank)
    for shape in shapes:
        fits = [shape[:axis], shape[axis + 1 :]] == [shapes[0][:axis], shapes[0][axis + 1 :]]
        fits = fits and len(shape) == rank
        require(fits, f"cannot concatenate {list(shapes[0])} and {list(shape)} along axis {axis}")
    if len(inputs) < len(args):
        if len(inputs) > 1:
            return _among_several(context, node, args, constants, _whole(shapes, axis))
        return _with_constants(context, node, inputs[0], constants, axis)
    shape = _whole(shapes, axis)
    inputs, order, place = _joined(context, inputs, shape, axis)
    memory = list(inputs[0].tensor.shape)
    memory[place] = sum(x.tensor.shape[place] for x in inputs)
    return _pending(node, inputs, shape, order, place, (memory[0], memory[1], memory[2]))


def _whole(shapes: list[FileShape], axis: int) -> FileShape:
    return (*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1 :])


def _among_several(
    context: Context,
    node: FileNode,
    args: Args,
    constants: list[np.ndarray | None],
    shape: FileShape,
) -> Pending:
    """Constants among several activations: each becomes a tensor at the result's scale."""

    def resolve(scale: float, zero: int) -> Value:
        values: list[Value | None] = []
        for arg, real in zip(args, constants, strict=True):
            if real is None:
                values.append(arg)
                continue
            require(bool(np.isfinite(real).all()), "a constant is not a number")
            name = context.hidden_name(f"{node.outputs[0]}/constant")
            plain = file_index(real.shape).ravel()
            tensor = Tensor(name, tensor_shape(real.shape, plain), scale, zero)
            constant_outputs.write(context.builder, tensor, tables.quantised(real, tensor))
            values.append(Real(Activation(tensor, real.shape, simplify(real.shape, plain))))
        inner = replace(node, outputs=(context.fresh(node.outputs[0]),))
        return outputs(context, inner, values)[0]

    dtype = context.activation(next(a for a in args if constant_of(a) is None)).dtype
    return until_scale(node, 0, shape, dtype, None, resolve)


def _pending(
    node: FileNode, inputs: list[Activation], shape: FileShape, order: Order, place: int, to: Shape
) -> Pending:
    keeps = {(x.tensor.scale, x.tensor.zero_point) for x in inputs}

    def make(out: Tensor) -> Op:
        changed = tuple(
            None
            if (x.tensor.scale, x.tensor.zero_point) == (out.scale, out.zero_point)
            else tables.quantised(tables.real_values(x.tensor), out)
            for x in inputs
        )
        # One cache that begins empty is joined to itself alone.
        alone = len(changed) == 1 and changed[0] is None
        return Reshape() if alone else Concat(place, changed)

    form, tensors = (shape, explicit(shape, order).reshape(to)), tuple(x.tensor for x in inputs)
    kept = keeps.pop() if len(keeps) == 1 else None
    return result_of(node, inputs[0], tensors, make, form, keeps=kept, clamps=False)


def _joined(
    context: Context, inputs: list[Activation], shape: FileShape, axis: int
) -> tuple[list[Activation], Order, int]:
    """The inputs as a concatenation wants them, its order, and its axis in (H, W, C). Vectors may
    come from flattened images, each in its order; all others are brought into one."""
    vectors = axis == len(shape) - 1 and math.prod(shape) == shape[-1]
    flat = vectors and all(math.prod(x.tensor.shape) == x.tensor.shape[2] for x in inputs)
    if flat and any(x.order is not None for x in inputs):
        starts = np.cumsum([0, *(x.shape[axis] for x in inputs[:-1])])
        pairs = zip(inputs, starts, strict=True)
        parts = [explicit(x.shape, x.order) + start for x, start in pairs]
        return inputs, simplify(shape, np.concatenate(parts)), 2
    if len(shape) == 3 and axis > 0 and shape[0] == 1 and inputs[0].order is not None:
        place = {1: 2, 2: 0}[axis]
        return [context.image(x) for x in inputs], channels_last(shape).ravel(), place
    if len(shape) < 3 or (len(shape) < 5 and shape[0] == 1 and axis > 0):
        return [context.usual(x) for x in inputs], None, tensor_axis(axis, shape)
    # The axes before and behind the one that grows become one each.
    parts = [replace(x, tensor=context.arranged(x, _around(x.shape, axis))) for x in inputs]
    return parts, arrangement(shape, _around(shape, axis))[0], 1


def _around(shape: FileShape, axis: int) -> np.ndarray:
    return file_index(shape).reshape(math.prod(shape[:axis]), shape[axis], -1)


def _with_constants(
    context: Context,
    node: FileNode,
    x: Activation,
    constants: list[np.ndarray | None],
    axis: int,
) -> Pending:
    """One activation among constants, such as a class token: padded with zeros, to which then the
    constants are added."""
    at = next(place for place, c in enumerate(constants) if c is None)
    sizes = [x.shape[axis] if c is None else c.shape[axis] for c in constants]
    before, after = sum(sizes[:at]), sum(sizes[at + 1 :])
    shape = (*x.shape[:axis], sum(sizes), *x.shape[axis + 1 :])
    image = is_image(x.shape) and axis > 0
    laid = channels_last(x.shape) if image else _around(x.shape, axis)
    place = tensor_axis(axis, x.shape) if image else 1
    source = context.arranged(x, laid)
    amounts = [(0, 0)] * 3
    amounts[place] = (before, after)
    size = list(source.shape)
    size[place] += before + after
    padded = replace(source, name=f"{node.outputs[0]}/padded", shape=(size[0], size[1], size[2]))
    context.builder.spend(math.prod(size))
    op = Pad((amounts[0], amounts[1], amounts[2]), source.zero_point)
    context.builder.add_tensor(padded)
    context.builder.add_node(node.name, op, [source.name], padded.name)
    target = channels_last(shape) if image else _around(shape, axis)
    zeros = [np.zeros(x.shape, np.float32) if c is None else c for c in constants]
    real = np.concatenate(zeros, axis).ravel()[target]
    require(bool(np.isfinite(real).all()), "a constant is not a number")

    def make(out: Tensor) -> Op:
        return plus_constant(source, real, out)

    return result_of(node, x, (padded,), make, (shape, target))
