# SPDX-License-Identifier: Apache-2.0
"""Import rules for operators that work element by element.

Whatever is computed in float from one activation alone, however many operators it takes, becomes
one table; only operators on two activations become more than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...graph import Op, Tensor
from ...ops.add import Add
from ...ops.binary import Binary
from ...ops.requantize import Requantize
from ...quant import INT8_MAX, INT8_MIN
from .. import tables
from ..common import KEEP_QUANTISATION, fixed_sum, present, require
from ..movement import file_index
from .arithmetic import Operator, as_int8, binary_op, table_of_integers
from .channels import broadcast, by_element, narrowed, per_channel
from .context import Context, clamp, common_root, outputs, rule
from .curves import range_scale
from .file import FileNode
from .functions import UNARY
from .values import (
    Activation,
    Args,
    Constant,
    Curve,
    FloatInput,
    Pending,
    QuantConstant,
    Real,
    Value,
    channels_last,
    constant_of,
    laid_out,
    of_rank,
    result_of,
)


def curve(context: Context, value: Value | None) -> Curve:
    """A float value as a function of one activation."""
    if isinstance(value, Curve):
        return value
    if isinstance(value, Pending) and value.curve is not None:
        return value.curve
    x = context.activation(value)
    return Curve(x, tables.real_values(x.tensor))


def _real32(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, np.float32)


def one_curve(
    context: Context,
    args: Args,
    constants: list[np.ndarray | None],
    function: Callable[..., np.ndarray],
) -> Curve | None:
    """A function of values where it depends on one activation and scalars only. constants: those
    of the values that are, constant_of()."""
    sides: list[Curve | np.float32] = []
    for arg, constant in zip(args, constants, strict=True):
        if constant is not None and constant.size == 1:
            sides.append(_real32(constant).ravel()[0])
        elif isinstance(arg, (Real, Curve)) or (isinstance(arg, Pending) and arg.curve):
            sides.append(curve(context, arg))
        else:
            return None
    curves = [side for side in sides if isinstance(side, Curve)]
    rooted = common_root(context, curves) if curves else None
    if rooted is None:
        return None
    rest = iter(rooted)
    values = [next(rest).real if isinstance(side, Curve) else side for side in sides]
    rank = max(constant.ndim for constant in [np.zeros(()), *constants] if constant is not None)
    with np.errstate(all="ignore"):
        return Curve(of_rank(rooted[0].activation, rank), _real32(function(*values)))


_PARTIAL = "Acos", "Acosh", "Asin", "Atanh", "Log", "Sqrt"
_DEFINED = "all 256 input values in the domain; use Clip before it"


@rule(*UNARY, constraints=dict.fromkeys(_PARTIAL, _DEFINED))
def _unary(context: Context, node: FileNode, args: Args) -> Value:
    first = args[0]
    if node.op == "Abs" and isinstance(first, Pending) and first.terms is not None:
        return _distance(context, node, *first.terms)
    x = curve(context, first)
    with np.errstate(all="ignore"):
        return Curve(x.activation, _real32(UNARY[node.op](node, x.real)))


@rule("Relu")
def _relu(context: Context, node: FileNode, args: Args) -> Value:
    return _clamped(context, node, args[0], 0.0, np.inf)


@rule("Clip", constraints="constant minimum and maximum")
def _clip(context: Context, node: FileNode, args: Args) -> Value:
    least, most = context.constant(args, 1, "minimum"), context.constant(args, 2, "maximum")
    low = node.attributes.get("min", -np.inf) if least is None else float(least.ravel()[0])
    high = node.attributes.get("max", np.inf) if most is None else float(most.ravel()[0])
    if isinstance(args[0], Activation):
        return _clipped_bytes(node, args[0], low, high)
    return _clamped(context, node, args[0], low, high)


def _clipped_bytes(node: FileNode, x: Activation, low: float, high: float) -> Pending:
    """Imports the Clip that exporters of fake quantisation write between Q and DQ for a narrower
    range."""
    shift = 128 if x.dtype == "uint8" else 0
    least, most = (int(np.clip(bound - shift, INT8_MIN, INT8_MAX)) for bound in (low, high))
    require(least <= most, f"invalid clip range [{low}, {high}]")
    name = node.outputs[0]
    pending = clamp(x, name, node.name)
    op = Requantize(None, act_min=least, act_max=most)
    return replace(pending, make=lambda out: op)


def _clamped(
    context: Context, node: FileNode, value: Value | None, low: float, high: float
) -> Value:
    name = node.outputs[0]
    require(not isinstance(value, FloatInput), "an input is float", KEEP_QUANTISATION)
    if isinstance(value, Curve):
        return Curve(value.activation, _real32(np.clip(value.real, low, high)))
    if not isinstance(value, Pending):
        return clamp(context.activation(value), name, node.name, low, high)
    # The new bounds are themselves held within the old ones: Relu after Clip(-2, -1) yields 0.
    bounds = np.clip([value.low, value.high], low, high)
    curve = value.curve and replace(value.curve, real=_real32(np.clip(value.curve.real, low, high)))
    return replace(
        value,
        name=name,
        low=float(bounds[0]),
        high=float(bounds[1]),
        rebias=None,
        affine=None,
        terms=None,
        curve=curve,
    )


FLOAT: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    # In double, which gives the same float32 on every machine.
    "Pow": lambda x, y: np.power(np.float64(x), np.float64(y)).astype(np.float32),
    "Min": np.minimum,
    "Max": np.maximum,
    "PRelu": lambda x, slope: np.where(x >= 0, x, x * slope),
}


_CONSTANTS = "two inputs; constants are float, or int8 or uint8 with one scale"
_CONSTRAINTS = {
    **dict.fromkeys(FLOAT, _CONSTANTS),
    "Div": f"{_CONSTANTS}; the divisor must be constant and not zero, unless both inputs are "
    "functions of one int8 tensor",
    "Pow": "two inputs: functions of the same int8 tensor, or scalar constants",
    "PRelu": f"{_CONSTANTS}; not a constant input with slopes that are not constant",
}


@rule(*FLOAT, constraints=_CONSTRAINTS)
def _binary(context: Context, node: FileNode, args: Args) -> Value:
    require(len(args) == 2, f"{len(args)} inputs instead of two", "chain it two by two")
    constants = [constant_of(arg) for arg in args]
    for value, constant in ((args[0], constants[1]), (args[1], constants[0])):
        if node.op != "Add" or constant is None or not isinstance(value, Pending):
            continue
        if value.rebias is not None and _is_bias(constant, value):
            return value.rebias(constant, node.outputs[0])
    one = one_curve(context, args, constants, FLOAT[node.op])
    if one is not None:
        one = replace(one, integers=table_of_integers(context, node, args))
    combined = one or _folded(node, args, constants)
    if combined is not None:
        return combined
    left, right = args
    if isinstance(left, (Constant, QuantConstant)):
        return _with_constant(context, node, context.activation(right), left, True)
    if isinstance(right, (Constant, QuantConstant)):
        return _with_constant(context, node, context.activation(left), right, False)
    return _pair(context, node, context.activation(left), context.activation(right))


def _is_bias(constant: np.ndarray, value: Pending) -> bool:
    """Whether a constant is one number, or one for each of a value's last axis."""
    fits = constant.ndim <= len(value.shape)
    return fits and (
        constant.size == 1 or constant.shape[-1:] == (constant.size,) == value.shape[-1:]
    )


def _folded(node: FileNode, args: Args, constants: list[np.ndarray | None]) -> Pending | None:
    """A factor or an offset of each channel behind a convolution, as part of its weights: the
    rest of batch normalisation in PyTorch's training with fake quantisation."""
    swapped = constants[0] is not None
    value, constant = (args[1], constants[0]) if swapped else (args[0], constants[1])
    if not isinstance(value, Pending) or value.affine is None or constant is None:
        return None
    count, rank = value.shape[1], len(value.shape)
    channels = np.broadcast_shapes(constant.shape, (1,) * rank) == (1, count, *[1] * (rank - 2))
    single = constant.size == 1 and constant.ndim <= rank
    if not (channels or single) or (swapped and node.op in ("Sub", "Div")):
        return None
    numbers = np.broadcast_to(constant.ravel(), count).astype(np.float64)
    ones, zeros = np.ones(count), np.zeros(count)
    if node.op in ("Add", "Sub"):
        return value.affine(ones, numbers if node.op == "Add" else -numbers, node.outputs[0])
    if node.op not in ("Mul", "Div") or not numbers.all():
        return None
    return value.affine(numbers if node.op == "Mul" else 1 / numbers, zeros, node.outputs[0])


def _laid(shape: tuple[int, ...], guide: Activation) -> np.ndarray:
    """Returns the memory order of a result of a shape: as the operand that has that shape, if
    one has."""
    if guide.shape == shape:
        return laid_out(guide)
    usual = channels_last(shape) if len(shape) == 4 and shape[0] == 1 else file_index(shape)
    return usual if usual.ndim == 3 else usual.reshape(shape[0], -1, shape[-1])


def _operand(context: Context, x: Activation, index: np.ndarray, laid: np.ndarray) -> Tensor:
    """An operand as the result's layout wants it, repeated axes left out."""
    return context.arranged(x, narrowed(index.ravel()[laid]))


def _pair(context: Context, node: FileNode, a: Activation, b: Activation) -> Pending:
    shape, index_a, index_b = broadcast(a.shape, b.shape)
    laid = _laid(shape, a if a.shape == shape else b)
    first, second = _operand(context, a, index_a, laid), _operand(context, b, index_b, laid)
    same = first.shape == second.shape == laid.shape
    operator = Operator.of(node, a)

    def make(out: Tensor) -> Op:
        operand = second.scale, second.zero_point
        if node.op == "Add" and same:
            exact = operator.sum(first, operand, out)
            total = exact or fixed_sum(first.scale, second.scale, out.scale)
            return Add(total)
        return binary_op(operator, first, operand, out)

    natural = _natural(node.op, first, second)
    terms = (a, b) if node.op == "Sub" else None
    form = shape, laid
    return result_of(node, a, (first, second), make, form, natural=natural, terms=terms)


def _natural(op: str, a: Tensor, b: Tensor) -> tuple[float, int] | None:
    """Scale and zero point that hold all results of an operator on two activations."""
    (low, high), (least, most) = (tables.real_values(x)[[0, -1]].tolist() for x in (a, b))
    if op == "Sub":
        return range_scale(low - most, high - least)
    return range_scale(min(low, least), max(high, most)) if op in ("Min", "Max") else None


def _distance(context: Context, node: FileNode, a: Activation, b: Activation) -> Pending:
    """|a - b|: the greater one of both differences, at the result's scale."""
    sides = [Real(a), Real(b)]

    def difference(first: Value, second: Value) -> Value:
        inner = replace(node, op="Sub", outputs=(context.fresh(node.outputs[0]),))
        return outputs(context, inner, [first, second])[0]

    def resolve(scale: float, zero: int) -> Value:
        parts = []
        for value in (difference(*sides), difference(*reversed(sides))):
            name = context.hidden_name(node.outputs[0])
            parts.append(Real(context.quantise(value, scale, zero, name, a.dtype)))
        inner = replace(node, op="Max", outputs=(context.fresh(node.outputs[0]),))
        return outputs(context, inner, parts)[0]

    pending = _pair(context, replace(node, op="Sub"), a, b)
    scale, _ = present(pending.natural, "the input is not a difference")
    # As far on the one side of zero as the difference is on both.
    return replace(pending, resolve=resolve, natural=(scale, INT8_MIN), terms=None)


def _with_constant(
    context: Context, node: FileNode, x: Activation, real: Constant | QuantConstant, swapped: bool
) -> Pending:
    shape, places, _ = broadcast(x.shape, real.real().shape)
    if shape != x.shape:
        # The constant is the larger one: x is repeated.
        inner = replace(node, outputs=(f"{node.outputs[0]}/repeated",))
        x = context.activation(context.moved(inner, x, places))
    # In a QOperator, ONNX Runtime adds and multiplies integers.
    integers = node.qoperator and isinstance(real, QuantConstant)
    scaled = None if integers else per_channel(node, x, real.real(), swapped)
    if scaled is not None:
        return scaled
    constant = as_int8(real)
    shape, _, constant_index = broadcast(x.shape, constant.ints.shape)
    index = constant_index.ravel()[laid_out(x)]
    values = constant.ints.ravel()[narrowed(index)]
    scale, zero = float(np.float32(constant.scale[0])), int(constant.zero_point[0])
    require(math.isfinite(scale) and scale > 0, f"the scale of its constant is {scale}")
    operator = Operator.of(node, x, swapped)

    def make(out: Tensor) -> Op:
        operand, ints = (scale, zero), values
        if node.op in ("Min", "Max"):
            # Both are monotone: the constant's byte is that of the result.
            operand = out.scale, out.zero_point
            ints = tables.quantised(real.real().ravel()[narrowed(index)], out)
        op = binary_op(operator, x.tensor, operand, out)
        return replace(op, constant=ints, constant_zero=operand[1])

    plain = result_of(node, x, (x.tensor,), make, (shape, laid_out(x)))
    if isinstance(real, QuantConstant) or node.op in ("Min", "Max"):
        return plain
    lost = float(np.abs(real.real() - constant.real()).max(initial=0.0))
    if node.op in ("Mul", "PRelu"):
        lost *= max(INT8_MAX - x.tensor.zero_point, x.tensor.zero_point - INT8_MIN) * x.tensor.scale

    def resolve(out_scale: float, out_zero: int) -> Value:
        if node.op != "Div" and lost <= _LOST_MOST * out_scale:
            return plain
        return by_element(context, node, x, real.real().ravel()[index], swapped, _pair)

    return replace(plain, resolve=resolve)


# The largest error of an int8 constant, of an output's step.
_LOST_MOST = 0.25


def plus_constant(x: Tensor, real: np.ndarray, out: Tensor) -> Binary:
    """x plus real float32 values as they lie in memory, which are quantised at the sum's scale."""
    factors = vars(fixed_sum(x.scale, out.scale, out.scale))
    return Binary(
        "sum", **factors, constant=tables.quantised(real, out), constant_zero=out.zero_point
    )
