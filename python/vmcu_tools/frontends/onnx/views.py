# SPDX-License-Identifier: Apache-2.0
"""Import rules for operators that only regroup or rename elements."""

from __future__ import annotations

from dataclasses import replace

import onnx

from ..common import UnsupportedError, require
from . import values
from .context import Context, rule
from .evaluation import inferred, operands_checked
from .file import FileNode


def file_shape(value: values.Value | None) -> values.FileShape:
    """The shape that the file gives to an activation, float input or constant."""
    if isinstance(value, values.Constant):
        return value.array.shape
    if isinstance(value, (values.Curve, values.Real, values.Rescaled)):
        value = value.activation
    if isinstance(value, (values.QuantConstant, values.BlockedConstant)):
        return value.ints.shape
    if isinstance(value, (values.Activation, values.FloatInput, values.Indices, values.Pending)):
        return value.shape
    raise UnsupportedError("the input is not an activation")


def shapes_of(context: Context, node: FileNode, args: values.Args) -> list[values.FileShape]:
    """The shapes of an operator's outputs, from onnx's own shape inference."""
    pairs = list(zip(node.inputs, args, strict=True))
    arrays = {name: arg.array for name, arg in pairs if isinstance(arg, values.Constant)}
    inputs = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, file_shape(arg))
        for name, arg in pairs
        if name and name not in arrays
    ]
    with operands_checked():
        model = inferred(node.proto, inputs, arrays, context.model.opset)
    shapes = []
    for value in model.graph.output:
        shape = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        known = value.type.tensor_type.HasField("shape") and min(shape, default=1) > 0
        reason = f"the result has an unknown size or none: shape {list(shape)}"
        require(known, reason, "fix all sizes")
        shapes.append(shape)
    return shapes


@rule("Identity", "Dropout")
def _identity(context: Context, node: FileNode, args: values.Args) -> values.Value:
    return values.operand(args[0])


_REGROUPS = {
    "Reshape": "constant shape",
    "Flatten": "fixed shape",
    "Squeeze": "constant axes",
    "Unsqueeze": "constant axes",
}


@rule(*_REGROUPS, constraints=_REGROUPS)
def _regrouped(context: Context, node: FileNode, args: values.Args) -> values.Value:
    value = args[0]
    context.constant(args, 1, "shape or axes")
    (to,) = shapes_of(context, node, args)
    if isinstance(value, values.QuantConstant):
        single = value.scale.size == value.zero_point.size == 1
        require(single, "cannot reshape a constant that is quantised per channel")
        return replace(value, ints=value.ints.reshape(to), axis=0)
    return context.reshape(value, node, to)


@rule("Transpose", constraints="one index for each axis")
def _transpose(context: Context, node: FileNode, args: values.Args) -> values.Value:
    value = args[0]
    shape = file_shape(value)
    perm = node.ints("perm", list(range(len(shape)))[::-1])
    require(sorted(perm) == list(range(len(shape))), f"invalid permutation {perm}")
    if isinstance(value, (values.QuantConstant, values.BlockedConstant)):
        return value.transpose(perm)
    if not isinstance(value, values.FloatInput):
        value = context.activation(value)
    to, order = values.transpose_order(shape, value.order, perm)
    return context.view(value, node, to, order)
