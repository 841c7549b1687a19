# SPDX-License-Identifier: Apache-2.0
"""Factors as multipliers with a shift."""

from __future__ import annotations

import math

import numpy as np

INT8_MIN, INT8_MAX = -128, 127


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
