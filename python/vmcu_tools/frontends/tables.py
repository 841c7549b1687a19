# SPDX-License-Identifier: Apache-2.0
"""Functions of one value as tables of 256 entries, to the bit as each runtime computes them.

Every function takes the quantisation of its input and output and returns int8 (256,), the result
for q = -128 .. 127.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .. import quant
from ..graph import Tensor
from .common import KEEP_QUANTISATION, fixed_point, require
from .softmax import exp_on_negative_values

BYTES = np.arange(quant.INT8_MIN, quant.INT8_MAX + 1, dtype=np.int64)

Function = Callable[[np.ndarray], np.ndarray]

_Q4 = 4
_INT16_MIN, _INT16_MAX = -(2**15), 2**15 - 1


def in_double(function: Function) -> Function:
    """A float32 function as good C libraries compute it: the nearest float32, mostly."""

    def apply(x: np.ndarray) -> np.ndarray:
        return np.asarray(function(np.asarray(x, np.float64))).astype(np.float32)

    return apply


def as_table(values: np.ndarray) -> np.ndarray:
    clipped: np.ndarray = np.clip(values, quant.INT8_MIN, quant.INT8_MAX).astype(np.int8)
    return clipped


def real_values(x: Tensor) -> np.ndarray:
    """float32 (256,): the real value of each byte."""
    return (BYTES - x.zero_point).astype(np.float32) * np.float32(x.scale)


def quantised(real: np.ndarray, out: Tensor) -> np.ndarray:
    """Real values in the scale of a tensor, rounded half to even as QuantizeLinear does."""
    require(not np.isnan(real).any(), "the result is not a number for some inputs")
    with np.errstate(all="ignore"):
        q = np.asarray(real, np.float32) / np.float32(out.scale)
    limited = np.clip(np.rint(q), -(2.0**20), 2.0**20)
    return as_table(limited.astype(np.int64) + out.zero_point)


def _in_q4(x: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The input in Q4.27, and where it lies beyond that, as -1, 0 or 1.

    TensorFlow Lite, micro/kernels/logistic_common.cc and tanh.cc.
    """
    multiplier, shift = quant.quantize_multiplier(float(np.float64(x.scale)) * (1 << (31 - _Q4)))
    require(0 <= shift <= 31, f"unsupported input scale {x.scale}", KEEP_QUANTISATION)
    radius = math.floor(((1 << _Q4) - 1) * 2.0 ** (31 - _Q4) / 2.0**shift)
    values = BYTES - x.zero_point
    # Below comes first: of scales so large that the radius is 0, the zero point is below.
    beyond = np.select([values <= -radius, values >= radius], [-1, 1], 0)
    scaled = quant.fixed_point_multiply(values, np.int64(multiplier), np.int64(shift))
    return np.where(beyond == 0, scaled, 0), beyond


def logistic(x: Tensor, out: Tensor) -> np.ndarray:
    """TensorFlow Lite, kernels/internal/reference/integer_ops/logistic.h, and gemmlowp's
    fixedpoint.h. The output has scale 1/256 and zero point -128."""
    expected = out.scale == 1.0 / 256 and out.zero_point == quant.INT8_MIN
    require(expected, "the output does not have scale 1/256 and zero point -128", KEEP_QUANTISATION)
    raw, beyond = _in_q4(x)
    above = quant.saturate(quant.half_reciprocal(exp_on_negative_values(-np.abs(raw), _Q4)) << 1)
    result = np.where(raw > 0, above, (2**31 - 1) - above)
    result = np.where(raw == 0, 1 << 30, result)
    values = quant.rounding_shift(result, 23) + quant.INT8_MIN
    return as_table(np.select([beyond < 0, beyond > 0], [quant.INT8_MIN, quant.INT8_MAX], values))


def tanh(x: Tensor, out: Tensor) -> np.ndarray:
    """TensorFlow Lite, kernels/internal/reference/integer_ops/tanh.h, and gemmlowp's
    fixedpoint.h. The output has scale 1/128 and zero point 0."""
    expected = out.scale == 1.0 / 128 and out.zero_point == 0
    require(expected, "the output does not have scale 1/128 and zero point 0", KEEP_QUANTISATION)
    raw, beyond = _in_q4(x)
    # Twice the input: the same number with one more integer bit.
    estimate = quant.half_reciprocal(exp_on_negative_values(-np.abs(raw), _Q4 + 1))
    magnitude = quant.saturate((estimate - (1 << 29)) << 2)
    result = np.where(raw == 0, 0, np.where(raw < 0, -magnitude, magnitude))
    values = quant.rounding_shift(result, 24)
    return as_table(np.select([beyond < 0, beyond > 0], [quant.INT8_MIN, quant.INT8_MAX], values))


def leaky_relu(x: Tensor, out: Tensor, alpha: float) -> np.ndarray:
    """TensorFlow Lite, kernels/internal/reference/leaky_relu.h; Micro's factors are quotients of
    doubles."""
    scale, target = np.float64(x.scale), np.float64(out.scale)
    slope = fixed_point(np.abs(scale * np.float64(np.float32(alpha)) / target))
    identity = fixed_point(scale / target)
    values = BYTES - x.zero_point
    below = slope.apply(values) * (-1 if alpha < 0 else 1)
    return as_table(np.where(values >= 0, identity.apply(values), below) + out.zero_point)


def absolute(x: Tensor, out: Tensor) -> np.ndarray:
    """TensorFlow Lite, micro/kernels/elementwise.cc, AbsEvalQuantized."""
    values = np.abs(BYTES - x.zero_point)
    if x.scale != out.scale:
        values = fixed_point(np.float64(x.scale) / np.float64(out.scale)).apply(values)
    return as_table(values + out.zero_point)


def _int16_factor(real: float) -> tuple[int, int]:
    """TensorFlow Lite, kernels/internal/common.h, DownScaleInt32ToInt16Multiplier."""
    multiplier, exponent = quant.quantize_multiplier(real)
    return min((multiplier + (1 << 15)) >> 16, _INT16_MAX), exponent


def _int16_high_mul(a: np.ndarray, b: int) -> np.ndarray:
    """gemmlowp SaturatingRoundingDoublingHighMul of int16; the division cuts towards zero."""
    product = a * b
    nudged = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    high: np.ndarray = np.minimum(_cut_division(nudged, 15), _INT16_MAX)
    return high


def _cut_division(x: np.ndarray, bits: int) -> np.ndarray:
    return np.where(x < 0, -(-x >> bits), x >> bits)


def _int16_shift(x: np.ndarray, amount: int) -> np.ndarray:
    shifted: np.ndarray = np.clip(x << amount, _INT16_MIN, _INT16_MAX)
    return shifted


def hard_swish(x: Tensor, out: Tensor) -> np.ndarray:
    """TensorFlow Lite, kernels/internal/reference/hard_swish.h."""
    hires_scale = np.float32(1 / 128) * np.float32(x.scale)
    out_factor, out_exponent = _int16_factor(float(hires_scale / np.float32(out.scale)))
    require(out_exponent <= 0, "the output scale is far below its input's", KEEP_QUANTISATION)
    reluish_scale = np.float32(3) / np.float32(32768)
    factor, exponent = _int16_factor(float(hires_scale / reluish_scale))
    hires = (BYTES - x.zero_point) << 7
    value = _int16_high_mul(hires, out_factor)
    reluish = _int16_shift(hires, exponent - 1) if exponent > 0 else hires
    reluish = _int16_high_mul(reluish, factor)
    if exponent > 0:
        reluish = _int16_shift(reluish, 1)
    elif exponent < 0:
        reluish = quant.rounding_shift(reluish, -exponent)
    reluish = (reluish + (1 << 15)) >> 1
    product = _cut_division(reluish * value, 15)
    return as_table(quant.rounding_shift(product, -out_exponent) + out.zero_point)
