# SPDX-License-Identifier: Apache-2.0
"""Float results that nobody quantises at once.

onnxruntime's quantiser leaves many operators in float, ReduceMean and HardSwish among them. A
Reshape or a Concat behind one gives the same bytes whether it comes before quantisation or after:
here the result is quantised first, as soon as the scale is known. A mean of a function's values has
no such scale; there the function gets one of its own, from its 256 values, and where that is too
coarse for the mean, what it rounds away becomes a second tensor with a mean of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper

from ...graph import Op
from ...quant import INT8_MIN
from .. import tables
from ..common import require
from ..movement import file_index
from .context import RULES, Context
from .file import FileNode
from .values import (
    Activation,
    Constant,
    Curve,
    FileShape,
    FloatInput,
    Pending,
    Real,
    Value,
    tensor_shape,
)

# Operators of which each output element is one of the inputs', or lies between some of them.
_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")
_COMMUTES = (*_VIEWS, "Slice", "Split", "Gather", "GatherND", "Expand", "Tile", "Concat", "Pad")
_COMMUTES += ("DepthToSpace", "SpaceToDepth", "Resize", "MaxPool", "GlobalMaxPool")
_COMMUTES += ("ReduceMax",)
_LAYERS = ("Conv", "Gemm", "MatMul")
_MEANS = ("ReduceMean", "ReduceSum", "AveragePool", "GlobalAveragePool")


def is_float(value: Value | None) -> bool:
    """Whether a value has no scale yet."""
    return isinstance(value, Curve) or (isinstance(value, Pending) and value.keeps is None)


def _waits(value: Value | None) -> bool:
    """Whether a value has no scale yet, be it the model's input."""
    return is_float(value) or isinstance(value, FloatInput)


def own_scale(value: Value) -> tuple[float, int] | None:
    """Scale and zero point that hold all values of a float result, if its bounds are known."""
    if isinstance(value, Curve):
        finite = value.real[abs(value.real) < 1e30]
        if not finite.size:
            return None
        low, high = min(float(finite.min()), 0.0), max(float(finite.max()), 0.0)
        scale = (high - low) / 255 or 1.0
        return scale, round(-128 - low / scale)
    return value.natural if isinstance(value, Pending) else None


def with_own_scale(context: Context, value: Value) -> Value:
    """A float value as an int8 tensor of its own scale; any other as it is."""
    own = own_scale(value) if is_float(value) else None
    if own is None:
        return value
    source = value.activation.tensor.name if isinstance(value, Curve) else value.name
    dtype = _dtype(value)
    name = context.fresh(f"{source}/function" if isinstance(value, Curve) else source)
    context.hidden.add(name)
    return Real(context.quantise(value, *own, name, dtype))


def apply(context: Context, node: FileNode, args: list[Value | None]) -> list[Value] | None:
    """The results of an operator on float values; None where its own rule can take them."""
    if node.op in _MEANS and args and isinstance(args[0], Curve):
        return [_mean(context, node, args)]
    if node.op in _LAYERS and args and isinstance(args[0], Pending) and is_float(args[0]):
        # Between a mean and a layer, PyTorch's fake quantisation leaves the scale as it is.
        rest = [with_own_scale(context, args[0]), *args[1:]]
        return [RULES[node.op](context, node, rest)]
    views = node.op in _VIEWS and isinstance(args[0], FloatInput)
    if node.op not in _COMMUTES or views or not any(_waits(arg) for arg in args):
        return None
    shapes = _shapes(context, node, args)
    return [_result(context, node, args, place, shape) for place, shape in enumerate(shapes)]


def _mean(context: Context, node: FileNode, args: list[Value | None]) -> Pending:
    shape = _shapes(context, node, args)[0]
    values = args[0].activation.shape
    count = math.prod(values) // math.prod(shape)
    own = own_scale(args[0])
    require(own is not None, "its input is not a number for any value")

    def resolve(scale: float, zero: int) -> Value:
        value = with_own_scale(context, args[0])
        whole = _reduced(context, node, value, args)
        share = count if node.op == "ReduceSum" else 1
        if own[0] * share <= scale * max(1.0, math.sqrt(count) / 3):
            # Errors of half a step each, of which the mean is small.
            return whole
        rest = with_own_scale(context, _rest(args[0], value.activation))
        parts = [whole, _reduced(context, node, rest, args)]
        dtype, zeros = value.activation.dtype, (zero, 0)
        sides = [
            Real(context.quantise(part, scale, z, context.fresh(node.outputs[0]), dtype))
            for part, z in zip(parts, zeros, strict=True)
        ]
        context.hidden.update(side.activation.tensor.name for side in sides)
        outputs = (context.fresh(node.outputs[0]),)
        return RULES["Add"](context, replace(node, op="Add", outputs=outputs), sides)

    natural = own if node.op != "ReduceSum" else None
    return _pending(node, 0, shape, args[0].activation.dtype, natural, resolve)


def _reduced(context: Context, node: FileNode, value: Value, args: list[Value | None]) -> Value:
    inner = replace(node, outputs=(context.fresh(node.outputs[0]),))
    return RULES[node.op](context, inner, [value, *args[1:]])


def _rest(curve: Curve, rounded: Activation) -> Curve:
    """What a function's values lose when they become an int8 tensor."""
    table = tables.quantised(curve.real, rounded.tensor)
    kept = tables.real_values(rounded.tensor)[table.astype(np.int64) - INT8_MIN]
    return Curve(curve.activation, curve.real - kept)


def _pending(
    node: FileNode,
    place: int,
    shape: FileShape,
    dtype: str,
    natural: tuple[float, int] | None,
    resolve: Callable[[float, int], Value],
) -> Pending:
    """The output number `place` of a node, which is made when its scale is known."""

    def never(*_: object) -> Op:
        raise AssertionError("a deferred operator is resolved before it is made")

    memory = tensor_shape(shape, file_index(shape).ravel())
    fields = {"memory": memory, "natural": natural, "resolve": resolve}
    return Pending(node.outputs[place], node.name, shape, None, (), never, dtype, **fields)


def _result(
    context: Context, node: FileNode, args: list[Value | None], place: int, shape: FileShape
) -> Pending:
    def resolve(scale: float, zero: int) -> Value:
        quantised = [_quantised(context, arg, scale, zero) for arg in args]
        name = context.fresh(node.outputs[place])
        outputs = tuple(name if i == place else out for i, out in enumerate(node.outputs))
        inner = replace(node, outputs=outputs)
        results = RULES[node.op](context, inner, quantised)
        return results[place] if isinstance(results, list) else results

    floats = [arg for arg in args if _waits(arg)]
    first = floats[0]
    dtype = _dtype(first)
    natural = own_scale(first) if len(floats) == 1 and node.op != "Concat" else None
    return _pending(node, place, shape, dtype, natural, resolve)


def _quantised(context: Context, arg: Value | None, scale: float, zero: int) -> Value | None:
    """An operand at the result's scale; those that have a scale already keep it."""
    if not _waits(arg):
        return arg
    source = arg.activation.tensor.name if isinstance(arg, Curve) else arg.name
    name, dtype = context.fresh(f"{source}/early"), _dtype(arg)
    context.hidden.add(name)
    return Real(context.quantise(arg, scale, zero, name, dtype))


def _dtype(value: Value) -> str:
    """What a float result's tensor counts as; a float input has not been told yet."""
    if isinstance(value, Curve):
        return value.activation.dtype
    return value.dtype if isinstance(value, Pending) else "int8"


def _shapes(context: Context, node: FileNode, args: list[Value | None]) -> list[FileShape]:
    """The shapes of an operator's outputs, from onnx's own shape inference."""
    inputs, constants = [], []
    for name, arg in zip(node.inputs, args, strict=True):
        if isinstance(arg, Constant):
            constants.append(onnx.numpy_helper.from_array(arg.array, name))
        elif arg is not None:
            shape = _shape(arg)
            inputs.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
    outputs = [onnx.ValueInfoProto(name=name) for name in node.outputs]
    graph = helper.make_graph([node.proto], "shapes", inputs, outputs, constants)
    opset = helper.make_opsetid("", context.model.opset)
    inferred = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[opset]), data_prop=True
    )
    shapes = []
    for value in inferred.graph.output:
        shape = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        known = value.type.tensor_type.HasField("shape") and min(shape, default=1) > 0
        require(known, "the shape of its result is not known", "Fix all sizes.")
        shapes.append(shape)
    return shapes


def _shape(value: Value) -> FileShape:
    if isinstance(value, (Curve, Real)):
        return value.activation.shape
    require(isinstance(value, (Activation, FloatInput, Pending)), "it reads no activation")
    return value.shape
