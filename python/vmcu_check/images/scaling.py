# SPDX-License-Identifier: Apache-2.0
"""Factors as multipliers with a shift."""

from __future__ import annotations

import math

import numpy as np

INT8_MIN, INT8_MAX = -128, 127
# exp(-2**i) for i from -2 on, in Q0.31.
POWERS = 1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242


def fixed_point(real: float) -> tuple[int, int]:
    """A factor as a multiplier in Q0.31 and a shift to the left: QuantizeMultiplier() of
    TensorFlow Lite, kernels/internal/quantization_util.cc."""
    if real == 0:
        return 0, 0
    fraction, shift = math.frexp(real)
    multiplier = math.floor(abs(fraction) * (1 << 31) + 0.5)
    if multiplier == 1 << 31:
        multiplier, shift = multiplier // 2, shift + 1
    if shift < -31:
        return 0, 0
    return int(math.copysign(multiplier, real)), shift


def scaled(x: np.ndarray, real: float) -> np.ndarray:
    """MultiplyByQuantizedMultiplier() of TensorFlow Lite, kernels/internal/common.h."""
    multiplier, shift = fixed_point(real)
    high = (x.astype(np.int64) * multiplier + (1 << 30)) >> 31
    right = max(-shift, 0)
    mask = (1 << right) - 1
    return (high >> right) + ((high & mask) > (mask >> 1) + (high < 0))


def exponentials(real: float, count: int) -> np.ndarray:
    """int64 (count,): exp(-i * real) in Q0.31 as the softmax of TensorFlow Lite computes it, with
    exp_on_negative_values() of gemmlowp, fixedpoint/fixedpoint.h, in Q5.26."""
    multiplier, shift = fixed_point(min(real * (1 << 26), (1 << 31) - 1.0))
    steps = np.arange(count)
    limit = math.floor(31 * (1 << 26) / 2.0**shift)
    a = -_product(np.minimum(steps, limit) << shift, multiplier)
    quarter = (a & ((1 << 24) - 1)) - (1 << 24)
    x = (quarter << 5) + (1 << 28)
    square = _product(x, x)
    cube, fourth = _product(square, x), _product(square, square)
    rest = _product(_halved(fourth, 2) + cube, 715827883) + square
    factor = 1895147668
    result = factor + _product(x + _halved(rest, 1), factor)
    for bit, power in enumerate(POWERS, 24):
        result = np.where((quarter - a) >> bit & 1, _product(result, power), result)
    result = np.where(a == 0, (1 << 31) - 1, result)
    return np.where(steps > limit, 0, result)


def _product(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
    """SaturatingRoundingDoublingHighMul() of gemmlowp."""
    return _halved(a * b, 31)


def _halved(a: np.ndarray, times: int) -> np.ndarray:
    """RoundingDivideByPOT() of gemmlowp."""
    halves: np.ndarray = np.sign(a) * ((np.abs(a) + (1 << times >> 1)) >> times)
    return halves
