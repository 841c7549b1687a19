# SPDX-License-Identifier: Apache-2.0
"""The exponential tables of Softmax, one entry per difference max - q, and its logarithm."""

from __future__ import annotations

import math

import numpy as np

from ..ops.log_softmax import LogSoftmaxSquaring
from ..quant import INT8_MAX, high_mul, quantize_multiplier, rounding_shift
from .common import KEEP_QUANTISATION, require

# Differences are Q5.26 numbers; the sum has 12 integer bits.
_INTEGER_BITS = 5
_FRACTION_BITS = 31 - _INTEGER_BITS


def _q31(real: float) -> int:
    return min(round(real * 2.0**31), 2**31 - 1)


def exp_on_negative_values(raw: np.ndarray, integer_bits: int = _INTEGER_BITS) -> np.ndarray:
    """exp(a) for a <= 0: `raw` has up to five integer bits, the result is Q0.31, both in int64.

    gemmlowp, fixedpoint/fixedpoint.h, exp_on_negative_values: the value modulo a quarter goes
    through a polynomial around -1/8, the rest through a product of tabulated powers.
    """
    fraction_bits = 31 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    modulo = (raw & (quarter - 1)) - quarter
    x = (modulo << integer_bits) + (1 << 28)
    x2 = high_mul(x, x)
    x3 = high_mul(x2, x)
    x4 = high_mul(x2, x2)
    tail = high_mul(rounding_shift(x4, 2) + x3, np.int64(_q31(1.0 / 3.0))) + x2
    poly = x + rounding_shift(tail, 1)
    base = np.int64(_q31(math.exp(-0.125)))
    result = base + high_mul(base, poly)
    remainder = modulo - raw
    for exponent in range(-2, integer_bits):
        factor = np.int64(_q31(math.exp(-(2.0**exponent))))
        bit = 1 << (fraction_bits + exponent)
        result = np.where(remainder & bit, high_mul(result, factor), result)
    return np.where(raw == 0, np.int64(2**31 - 1), result)


def tflite_table(input_scale: float, beta: float) -> np.ndarray:
    """uint32 (256,): exp(-d * scale * beta) in Q0.31 for d = 0..255, zero beyond diff_min.

    TensorFlow Lite, kernels/internal/quantization_util.cc, PreprocessSoftmaxScaling and
    CalculateInputRadius; reference/softmax.h.
    """
    real = min(beta * input_scale * (1 << _FRACTION_BITS), (1 << 31) - 1.0)
    multiplier, left_shift = quantize_multiplier(real)
    radius = math.floor(((1 << _INTEGER_BITS) - 1) * 2.0**_FRACTION_BITS / 2.0**left_shift)
    d = np.arange(256, dtype=np.int64)
    inside = np.minimum(d, radius)
    raw = high_mul(-(inside << left_shift), np.int64(multiplier))
    return np.where(d <= radius, exp_on_negative_values(raw), 0).astype(np.uint32)


def differences(input_scale: float) -> np.ndarray:
    """int32 (256,): -d * scale in Q5.26 for d = 0..255, -20 to -16 where it is below -16.

    An output of LOG_SOFTMAX is -16 at least, and the logarithm that is subtracted from these is
    positive: values beyond do not matter. TensorFlow Lite, reference/log_softmax.h.
    """
    real = min(input_scale * (1 << _FRACTION_BITS), (1 << 31) - 1.0)
    multiplier, left_shift = quantize_multiplier(real)
    d = np.arange(256, dtype=np.int64)
    shifted = np.maximum(-(d << left_shift), -(1 << 31))
    scaled: np.ndarray = np.maximum(high_mul(shifted, np.int64(multiplier)), -20 << _FRACTION_BITS)
    return scaled.astype(np.int32)


def onnx_table(input_scale: float) -> np.ndarray:
    """uint32 (256,): exp(-d * scale) in units of 2**-23 for d = 0..255.

    256 terms fit in 32 bits with a bit to spare, 65535 terms in 40 bits.
    """
    d = np.arange(256, dtype=np.float64)
    exponentials: np.ndarray = np.rint(np.exp(-d * np.float64(input_scale)) * (1 << 23)).astype(
        np.uint32
    )
    return exponentials


def log_range(input_scale: float, count: int) -> tuple[float, int]:
    """Scale and zero point that hold all logarithms of a softmax over `count` values."""
    return (255 * input_scale + math.log(count)) / 255, INT8_MAX


def log_softmax(input_scale: float, output_scale: float) -> LogSoftmaxSquaring:
    """The logarithm of softmax at any scale of its result."""
    unit = 65536 / output_scale
    step, gain = round(input_scale * unit), round(math.log(2) * unit)
    fits = step < 1 << 31 and gain < 1 << 40
    require(fits, f"unsupported scales {input_scale} and {output_scale}", KEEP_QUANTISATION)
    table = onnx_table(input_scale)
    return LogSoftmaxSquaring(table, step, gain)
