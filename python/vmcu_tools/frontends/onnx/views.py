# SPDX-License-Identifier: Apache-2.0
"""Import rules for operators that only regroup or rename elements."""

from __future__ import annotations

import math
from dataclasses import replace

from ..common import UnsupportedError, present, require
from .context import Context, rule
from .file import FileNode
from .values import (
    Activation,
    Args,
    BlockedConstant,
    FileShape,
    FloatInput,
    Indices,
    Pending,
    QuantConstant,
    Real,
    Value,
    operand,
    transpose_order,
)


def file_shape(value: Value | None) -> FileShape:
    """The shape that the file gives to an activation, float input or quantised constant."""
    if isinstance(value, Real):
        value = value.activation
    if isinstance(value, (QuantConstant, BlockedConstant)):
        return value.ints.shape
    if isinstance(value, (Activation, FloatInput, Indices, Pending)):
        return value.shape
    raise UnsupportedError("the input is not an activation")


@rule("Identity", "Dropout")
def _identity(context: Context, node: FileNode, args: Args) -> Value:
    return operand(args[0])


@rule("Reshape", constraints="constant shape")
def _reshape(context: Context, node: FileNode, args: Args) -> Value:
    shape = file_shape(args[0])
    wanted = present(context.constant(args, 1, "shape"), "the shape is missing")
    to = [int(d) for d in wanted.ravel()]
    if not node.attributes.get("allowzero"):
        to = [shape[i] if d == 0 and i < len(shape) else d for i, d in enumerate(to)]
    require(to.count(-1) <= 1 and all(d > 0 or d == -1 for d in to), f"invalid shape {to}")
    if -1 in to:
        known = math.prod(d for d in to if d != -1)
        to[to.index(-1)] = math.prod(shape) // known
    return _regroup(context, node, args[0], tuple(to))


@rule("Flatten")
def _flatten(context: Context, node: FileNode, args: Args) -> Value:
    shape = file_shape(args[0])
    axis = node.attributes.get("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    to = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    return _regroup(context, node, args[0], to)


def _axes(context: Context, node: FileNode, args: Args) -> list[int] | None:
    """Axes as an attribute (to opset 12) or an input; None if absent."""
    if "axes" in node.attributes:
        return node.ints("axes", [])
    axes = context.constant(args, 1, "axes")
    return None if axes is None else [int(a) for a in axes.ravel()]


@rule("Squeeze", constraints="constant axes")
def _squeeze(context: Context, node: FileNode, args: Args) -> Value:
    shape = file_shape(args[0])
    axes = _axes(context, node, args)
    if axes is None:
        axes = [i for i, d in enumerate(shape) if d == 1]
    dropped = {a % len(shape) for a in axes}
    require(
        all(shape[a] == 1 for a in dropped), f"cannot remove axes {axes} from shape {list(shape)}"
    )
    to = tuple(d for i, d in enumerate(shape) if i not in dropped)
    return _regroup(context, node, args[0], to)


@rule("Unsqueeze", constraints="constant axes")
def _unsqueeze(context: Context, node: FileNode, args: Args) -> Value:
    shape = file_shape(args[0])
    axes = present(_axes(context, node, args), "the axes are missing")
    rank = len(shape) + len(axes)
    added = {a % rank for a in axes if -rank <= a < rank}
    require(len(added) == len(axes), f"cannot insert axes {axes} into shape {list(shape)}")
    sizes = iter(shape)
    to = tuple(1 if i in added else next(sizes) for i in range(rank))
    return _regroup(context, node, args[0], to)


def _regroup(context: Context, node: FileNode, value: Value | None, to: FileShape) -> Value:
    if isinstance(value, QuantConstant):
        single = value.scale.size == value.zero_point.size == 1
        require(single, "cannot reshape a constant that is quantised per channel")
        return replace(value, ints=value.ints.reshape(to), axis=0)
    return context.reshape(value, node, to)


@rule("Transpose", constraints="one index for each axis")
def _transpose(context: Context, node: FileNode, args: Args) -> Value:
    value = args[0]
    shape = file_shape(value)
    perm = node.ints("perm", list(range(len(shape)))[::-1])
    require(sorted(perm) == list(range(len(shape))), f"invalid permutation {perm}")
    if isinstance(value, (QuantConstant, BlockedConstant)):
        return value.transpose(perm)
    if not isinstance(value, FloatInput):
        value = context.activation(value)
    to, order = transpose_order(shape, value.order, perm)
    return context.view(value, node, to, order)
