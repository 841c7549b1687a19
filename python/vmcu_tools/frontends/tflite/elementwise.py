# SPDX-License-Identifier: Apache-2.0
"""Import rules for TensorFlow Lite operators that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tflite

from ...graph import Tensor
from ...ops.add import Add
from ...ops.binary import Binary
from ...ops.lookup import Lookup
from ...quant import fixed_point_quotient
from .. import tables
from ..common import KEEP_QUANTISATION, check_scale, fixed_point, fixed_sum, require
from ..movement import file_index
from . import tables as tflite_tables
from .arrays import limit
from .file import FileOp
from .ops import FOLD_CONSTANT, Importer, limits_of, rule
from .shapes import as_image, broadcast, spread


@dataclass(frozen=True, eq=False)
class _Operand:
    """One side of a binary operator: an activation, or int8 constants (H, W, C)."""

    scale: float
    zero_point: int
    tensor: Tensor | None
    constant: np.ndarray | None

    @property
    def shape(self) -> tuple[int, ...]:
        known = self.constant if self.tensor is None else self.tensor
        assert known is not None
        return known.shape


def _operand(importer: Importer, op: FileOp, place: int, to: tuple[int, ...]) -> _Operand:
    """Input `place`, which the operator repeats to the file shape `to`."""
    index = op.inputs[place]
    file_shape = importer.shape(index)
    repeated = spread(file_shape, to)
    shape = as_image(repeated, to)
    in_front = (1,) * (len(to) - len(file_shape)) + file_shape
    if not importer.is_constant(index):
        x = importer.activation(index)
        name = f"{x.name}/{op.op.lower()}{op.outputs[0]}"
        places = np.broadcast_to(file_index(in_front), repeated)
        x = importer.arranged(x, places, shape, name)
        return _Operand(x.scale, x.zero_point, x, None)
    constant = importer.constant(op, place, ("INT8",), "constants")
    one = len(constant.scales) == len(constant.zero_points) == 1
    require(one, "the constants have no scale, or several", KEEP_QUANTISATION)
    check_scale(float(constant.scales[0]), "the constants")
    values = np.broadcast_to(constant.values.reshape(in_front), repeated).reshape(shape)
    return _Operand(float(constant.scales[0]), int(constant.zero_points[0]), None, values)


def _operands(importer: Importer, op: FileOp) -> tuple[_Operand, _Operand, bool]:
    """Both operands, the activation first, and whether that meant to swap them."""
    require(len(op.inputs) == 2, f"{len(op.inputs)} inputs instead of two")
    to = broadcast(importer.shape(op.inputs[0]), importer.shape(op.inputs[1]))
    limit(math.prod(to))
    a, b = (_operand(importer, op, place, to) for place in (0, 1))
    require(a.tensor is not None or b.tensor is not None, "both inputs are constant", FOLD_CONSTANT)
    return (a, b, False) if a.tensor is not None else (b, a, True)


def _emit(importer: Importer, op: FileOp, first: _Operand, second: _Operand, **fields: Any) -> None:
    """The operator on an activation and an activation or constant; fields: those of Binary."""
    inputs = [operand.tensor for operand in (first, second) if operand.tensor is not None]
    height, width, channels = np.broadcast_shapes(first.shape, second.shape)
    zero = second.zero_point if second.tensor is None else 0
    kind = Binary(constant=second.constant, constant_zero=zero, **fields)
    importer.emit_as(op, kind, inputs, (height, width, channels))


_CONSTANTS = "two inputs; constants are int8 with one scale"


@rule("ADD", constraints=_CONSTANTS)
def _add(importer: Importer, op: FileOp) -> None:
    a, b, _ = _operands(importer, op)
    out = importer.activation(op.outputs[0])
    limits = limits_of(op.options(tflite.AddOptions).FusedActivationFunction(), out)
    total = fixed_sum(a.scale, b.scale, out.scale)
    if b.tensor is not None and a.tensor is not None and a.tensor.shape == b.tensor.shape:
        importer.emit_as(op, Add(total, **limits), [a.tensor, b.tensor], a.tensor.shape)
        return
    _emit(importer, op, a, b, kind="sum", **vars(total), **limits)


@rule("SUB", constraints=_CONSTANTS)
def _sub(importer: Importer, op: FileOp) -> None:
    """TensorFlow Lite, micro/kernels/sub_common.cc: the constants of an addition."""
    a, b, swapped = _operands(importer, op)
    out = importer.activation(op.outputs[0])
    limits = limits_of(op.options(tflite.SubOptions).FusedActivationFunction(), out)
    factors = vars(fixed_sum(a.scale, b.scale, out.scale))
    _emit(importer, op, a, b, kind="reversed" if swapped else "difference", **factors, **limits)


@rule("SQUARED_DIFFERENCE", constraints=_CONSTANTS)
def _squared_difference(importer: Importer, op: FileOp) -> None:
    """TensorFlow Lite, micro/kernels/squared_difference.cc."""
    a, b, _ = _operands(importer, op)
    out = importer.activation(op.outputs[0])
    shift = 7
    twice = 2.0 * max(np.float64(a.scale), np.float64(b.scale))
    product = np.float32(1 << (2 * shift)) * np.float32(out.scale)
    _emit(
        importer,
        op,
        a,
        b,
        kind="squared",
        a=fixed_point(np.float64(a.scale) / twice, 0),
        b=fixed_point(np.float64(b.scale) / twice, 0),
        out=fixed_point(twice * twice / np.float64(product), 0),
        left_shift=shift,
    )


@rule("MUL", constraints=_CONSTANTS)
def _mul(importer: Importer, op: FileOp) -> None:
    """TensorFlow Lite, micro/kernels/mul_common.cc."""
    a, b, swapped = _operands(importer, op)
    out = importer.activation(op.outputs[0])
    first, second = (b, a) if swapped else (a, b)
    factor = np.float64(first.scale) * np.float64(second.scale) / np.float64(out.scale)
    limits = limits_of(op.options(tflite.MulOptions).FusedActivationFunction(), out)
    _emit(importer, op, a, b, kind="product", out=fixed_point(factor), **limits)


@rule(
    "DIV",
    constraints=f"{_CONSTANTS}; a constant dividend must be a scalar; scales that TensorFlow Lite "
    "can compute",
)
def _div(importer: Importer, op: FileOp) -> None:
    """TensorFlow Lite, micro/kernels/div.cc. Its last shift is undefined beyond 31 bits."""
    a, b, swapped = _operands(importer, op)
    out = importer.activation(op.outputs[0])
    first, second = (b, a) if swapped else (a, b)
    product = np.float64(second.scale) * np.float64(out.scale)
    factor = fixed_point(np.float64(first.scale) / product, 22)
    limits = limits_of(op.options(tflite.DivOptions).FusedActivationFunction(), out)
    least, most = _magnitudes(first)[0], _magnitudes(second)[1]
    # The dividend is shifted left as far as it goes, the divisor is 1 .. 2 times a power of two.
    shift = 31 - least.bit_length() + most.bit_length() - 1 - int(factor.shift[0])
    require(
        shift <= 31,
        "TensorFlow Lite cannot compute quotients as small as this one's scales allow",
        "multiply by a reciprocal, or bring the divisor's largest value nearer to one",
    )
    if swapped:
        assert a.tensor is not None and b.constant is not None
        require(
            b.constant.size == 1,
            "the divided constants differ from element to element",
            "multiply instead",
        )
        q = np.int64(b.constant.ravel()[0]) - b.zero_point
        divisors = tables.BYTES - a.zero_point
        values = fixed_point_quotient(q + 0 * divisors, divisors, factor.multiplier, factor.shift)
        table = np.clip(values + out.zero_point, limits["act_min"], limits["act_max"])
        importer.emit_as(op, Lookup(table.astype(np.int8)), [a.tensor], a.tensor.shape)
        return
    _emit(importer, op, a, b, kind="quotient", out=factor, **limits)


def _magnitudes(operand: _Operand) -> tuple[int, int]:
    """The least and the largest magnitude that an operand can have, in steps."""
    values = tables.BYTES if operand.constant is None else operand.constant.astype(np.int64)
    magnitudes = np.abs(values - operand.zero_point)
    return int(magnitudes.min()), int(magnitudes.max())


@rule(
    "MINIMUM",
    "MAXIMUM",
    constraints=f"{_CONSTANTS}; same scale and zero point for inputs and output",
)
def _extreme(importer: Importer, op: FileOp) -> None:
    """TensorFlow Lite compares q without regard to scales."""
    a, b, _ = _operands(importer, op)
    out = importer.activation(op.outputs[0])
    same = {(t.scale, t.zero_point) for t in (a, b, out)}
    require(len(same) == 1, "the inputs and output have different scales", KEEP_QUANTISATION)
    _emit(importer, op, a, b, kind=op.op.lower())


@rule("PRELU", constraints=f"{_CONSTANTS}; not a constant input with slopes that are not constant")
def _prelu(importer: Importer, op: FileOp) -> None:
    """TensorFlow Lite, micro/kernels/prelu_common.cc."""
    a, b, swapped = _operands(importer, op)
    require(not swapped, "the slopes are not constant and the input is")
    out = importer.activation(op.outputs[0])
    identity = np.float64(a.scale) / np.float64(out.scale)
    slope = np.float64(a.scale) * np.float64(b.scale) / np.float64(out.scale)
    _emit(importer, op, a, b, kind="prelu", a=fixed_point(identity), out=fixed_point(slope))


def _lookup(importer: Importer, op: FileOp, table: Callable[[Tensor, Tensor], np.ndarray]) -> None:
    x, out = importer.activation(op.inputs[0]), importer.activation(op.outputs[0])
    importer.emit(op, Lookup(table(x, out)), [x], x.shape)


@rule("LOGISTIC", constraints="output scale 1/256, zero point -128")
def _logistic(importer: Importer, op: FileOp) -> None:
    _lookup(importer, op, tables.logistic)


@rule("TANH", constraints="output scale 1/128, zero point 0")
def _tanh(importer: Importer, op: FileOp) -> None:
    _lookup(importer, op, tables.tanh)


@rule("HARD_SWISH")
def _hard_swish(importer: Importer, op: FileOp) -> None:
    _lookup(importer, op, tables.hard_swish)


@rule("ABS")
def _abs(importer: Importer, op: FileOp) -> None:
    _lookup(importer, op, tables.absolute)


@rule("LEAKY_RELU", constraints="finite alpha")
def _leaky_relu(importer: Importer, op: FileOp) -> None:
    alpha = float(op.options(tflite.LeakyReluOptions).Alpha())
    require(bool(np.isfinite(alpha)), f"unsupported slope {alpha}")
    _lookup(importer, op, lambda x, out: tables.leaky_relu(x, out, alpha))


_TABLES = {
    "ELU": tflite_tables.from_real(tflite_tables.elu),
    "EXP": tflite_tables.from_real(tables.in_double(np.exp)),
    "LOG": tflite_tables.logarithm,
    "RSQRT": tflite_tables.inverse_roots,
    "SQRT": tflite_tables.root,
}


@rule(*_TABLES)
def _table(importer: Importer, op: FileOp) -> None:
    _lookup(importer, op, _TABLES[op.op])


@rule("GELU")
def _gelu(importer: Importer, op: FileOp) -> None:
    by_tanh = op.options(tflite.GeluOptions).Approximate()
    function = tflite_tables.gelu_by_tanh if by_tanh else tflite_tables.gelu
    _lookup(importer, op, tflite_tables.from_real(function))
