# SPDX-License-Identifier: Apache-2.0
"""Float results that nobody quantises at once.

onnxruntime's quantiser leaves many operators in float, ReduceMean and HardSwish among them. A
Reshape or a Concat behind one gives the same bytes whether it comes before quantisation or after:
here the result is quantised first, as soon as the scale is known. A mean of a function's values is
a layer of its own, see means.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeGuard

from ...graph import Op, Tensor
from ...ops.rounding import rounding_steps
from ...quant import INT8_MAX, INT8_MIN
from ..common import naming, require
from ..movement import file_index
from .context import QUANTISE_ALL, Context, outputs
from .curves import range_scale
from .file import FileNode
from .logic import FUNCTIONS
from .means import mean_of_function
from .values import (
    Args,
    Curve,
    FileShape,
    FloatInput,
    Pending,
    Real,
    Value,
    constant_of,
    tensor_shape,
)
from .views import shapes_of

# Operators of which each output element is one of the inputs', or lies between some of them.
_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")
COMMUTES: tuple[str, ...] = (*_VIEWS, "Slice", "Split", "Gather", "GatherND", "Expand", "Tile")
COMMUTES += ("Concat", "Pad", "DepthToSpace", "SpaceToDepth", "Resize", "MaxPool", "GlobalMaxPool")
COMMUTES += ("ReduceMax",)
_LAYERS = ("Conv", "Gemm", "MatMul")
# Functions that rules tabulate; Relu and Clip bound a result that has no scale yet.
_FUNCTIONS = FUNCTIONS - {"Relu", "Clip"}
# Of the layer's output, by the rounding of its input.
_STEPS_MOST = 2
_MEANS = ("ReduceMean", "ReduceSum", "AveragePool", "GlobalAveragePool")


def is_float(value: Value | None) -> TypeGuard[Curve | Pending]:
    """Whether a value has no scale yet."""
    return isinstance(value, Curve) or (isinstance(value, Pending) and value.keeps is None)


def _waits(value: Value | None) -> TypeGuard[Curve | Pending | FloatInput]:
    """Whether a value has no scale yet, be it the model's input."""
    return is_float(value) or isinstance(value, FloatInput)


def own_scale(value: Value) -> tuple[float, int] | None:
    """Scale and zero point that hold all values of a float result, if its bounds are known."""
    if isinstance(value, Curve):
        finite = value.real[abs(value.real) < 1e30]
        if not finite.size:
            return None
        return range_scale(float(finite.min()), float(finite.max()))
    return value.natural if isinstance(value, Pending) else None


def with_own_scale(context: Context, value: Value) -> Value:
    """A float value as an int8 tensor of its own scale; any other as it is."""
    if not is_float(value):
        return value
    own = own_scale(value)
    return value if own is None else _at_scale(context, value, *own)


def _at_scale(context: Context, value: Curve | Pending, scale: float, zero: int) -> Real:
    """A float value as an int8 tensor of a scale that nobody gave it."""
    function = isinstance(value, Curve)
    name = context.hidden_name(f"{_source(value)}/function" if function else _source(value))
    return Real(context.quantise(value, scale, zero, name, _dtype(value)))


def _source(value: Curve | Pending | FloatInput) -> str:
    return value.activation.tensor.name if isinstance(value, Curve) else value.name


def apply(context: Context, node: FileNode, args: Args) -> list[Value] | None:
    """The results of an operator on float values; None where its own rule can take them."""
    first = args[0] if args else None
    if node.op in _MEANS and isinstance(first, Curve):
        return [mean_of_function(context, node, first, args, own_scale(first))]
    if node.op in _FUNCTIONS and (rounded := _rounded(context, node, args)) is not None:
        return outputs(context, node, rounded)
    if node.op in _LAYERS and isinstance(first, Pending) and first.keeps is None:
        return _layer(context, node, first, args)
    views = node.op in _VIEWS and isinstance(first, FloatInput)
    if node.op not in COMMUTES or views or not any(_waits(arg) for arg in args):
        return None
    shapes = shapes_of(context, node, args)
    return [_result(context, node, args, place, shape) for place, shape in enumerate(shapes)]


def _rounded(context: Context, node: FileNode, args: Args) -> Args | None:
    """The operands of a function of one float result, with that as an int8 tensor of a scale that
    holds all of it; None where there is no such result or its rule takes it as it is."""
    values = [arg for arg in args if arg is not None and not _is_scalar(arg)]
    first = values[0] if values else None
    if not isinstance(first, Pending) or any(value is not first for value in values):
        return None
    taken = first.affine or first.rebias or (node.op == "Abs" and first.terms is not None)
    if taken or first.keeps is not None or first.natural is None:
        return None
    real = _at_scale(context, first, *first.natural)
    context.rounded.add(real.activation.tensor.name)
    return [real if arg is first else arg for arg in args]


def _is_scalar(value: Value) -> bool:
    constant = constant_of(value)
    return constant is not None and constant.size == 1


def _layer(context: Context, node: FileNode, first: Pending, args: Args) -> list[Value]:
    """Between a mean and a layer, PyTorch's fake quantisation leaves the scale as it is."""
    rounded = with_own_scale(context, first)

    def bounded(pending: Pending) -> Pending:
        def make(out: Tensor) -> Op:
            op = pending.make(out)
            steps = rounding_steps(op)
            reason = f"'{first.name}', a float result, rounded to int8 would cost it {steps} steps"
            require(steps <= _STEPS_MOST, reason, QUANTISE_ALL)
            return op

        return replace(pending, make=make, rebias=None, affine=None)

    values = outputs(context, node, [rounded, *args[1:]])
    return [bounded(one) if isinstance(one, Pending) else one for one in values]


def until_scale(
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

    def resolved(scale: float, zero: int) -> Value:
        with naming(node.name, node.op):
            return resolve(scale, zero)

    return Pending(
        node.outputs[place],
        node.name,
        shape,
        None,
        (),
        never,
        dtype,
        memory=tensor_shape(shape, file_index(shape).ravel()),
        natural=natural,
        resolve=resolved,
    )


def _result(context: Context, node: FileNode, args: Args, place: int, shape: FileShape) -> Pending:
    def resolve(scale: float, zero: int) -> Value:
        if node.op == "Resize" and node.attributes.get("mode", b"nearest") != b"nearest":
            # Clamping to int8 ahead of an interpolation differs from clamping behind it.
            reason = "it interpolates a float result outside of the output's range"
            require(_is_within(args[0], scale, zero), reason, QUANTISE_ALL)
        quantised = [_quantised(context, arg, scale, zero) for arg in args]
        name = context.fresh(node.outputs[place])
        names = tuple(name if i == place else out for i, out in enumerate(node.outputs))
        return outputs(context, replace(node, outputs=names), quantised)[place]

    floats = [arg for arg in args if _waits(arg)]
    first = floats[0]
    dtype = _dtype(first)
    natural = own_scale(first) if len(floats) == 1 and node.op != "Concat" else None
    return until_scale(node, place, shape, dtype, natural, resolve)


def _is_within(value: Value | None, scale: float, zero: int) -> bool:
    """Whether int8 of a scale holds all of a value, as far as its range is known."""
    own = own_scale(value) if is_float(value) else None
    if own is None:
        return not is_float(value)
    low, high = ((q - own[1]) * own[0] / scale + zero for q in (INT8_MIN, INT8_MAX))
    return low >= INT8_MIN - 1 and high <= INT8_MAX + 1


def _quantised(context: Context, arg: Value | None, scale: float, zero: int) -> Value | None:
    """An operand at the result's scale; those that have a scale already keep it."""
    if not _waits(arg):
        return arg
    name = context.hidden_name(f"{_source(arg)}/early")
    return Real(context.quantise(arg, scale, zero, name, _dtype(arg)))


def _dtype(value: Curve | Pending | FloatInput) -> str:
    """Returns the type of a float result's tensor; a float input has not been told yet."""
    if isinstance(value, Curve):
        return value.activation.dtype
    return value.dtype if isinstance(value, Pending) else "int8"
