# SPDX-License-Identifier: Apache-2.0
"""Operators of one int8 value that TensorFlow Lite computes in float or by Newton's method, as
tables; each function has the arguments and results of those of tables.py.

EXP, GELU, LOG and SQRT have int8 kernels in TensorFlow Lite (LiteRT) alone, all others in
TensorFlow Lite Micro too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...graph import Tensor
from ...quant import INT8_MAX, fixed_point_multiply, inverse_square_root, quantize_multiplier
from ..common import KEEP_QUANTISATION, require
from ..tables import BYTES, Function, as_table, in_double, real_values

_LIMIT = 2.0**20


def rounded_away(x: np.ndarray) -> np.ndarray:
    """C round(): to nearest, ties away from zero; int64, not a number as zero, values far beyond
    every output clamped."""
    x = np.nan_to_num(np.asarray(x, np.float64), nan=0.0, posinf=_LIMIT, neginf=-_LIMIT)
    x = np.clip(x, -_LIMIT, _LIMIT)
    rounded: np.ndarray = (np.sign(x) * np.floor(np.abs(x) + 0.5)).astype(np.int64)
    return rounded


def from_real(function: Function) -> Callable[[Tensor, Tensor], np.ndarray]:
    """TensorFlow Lite, kernels/internal/common.h, LUTPopulateInt8."""

    def table(x: Tensor, out: Tensor) -> np.ndarray:
        inverse = np.float32(1) / np.float32(out.scale)
        scaled = function(real_values(x)).astype(np.float32) * inverse
        return as_table(rounded_away(scaled) + out.zero_point)

    return table


def quantised_away(real: np.ndarray, out: Tensor) -> np.ndarray:
    """TensorFlow Lite, kernels/internal/reference/quantize.h, AffineQuantize of float32 values.
    Values beyond int32, and undefined ones, are clamped to int8, and zero if not a number."""
    scaled = np.asarray(real, np.float32) / np.float32(out.scale)
    return as_table(rounded_away(scaled) + out.zero_point)


def elu(real: np.ndarray) -> np.ndarray:
    """TensorFlow Lite, micro/kernels/elu.cc, PopulateLookupTable."""
    grown = in_double(np.exp)(np.minimum(real, 0)) - np.float32(1)
    return np.where(real < 0, grown, real)


_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def gelu(real: np.ndarray) -> np.ndarray:
    """TensorFlow Lite, kernels/internal/reference/gelu.h, GeluTransform."""
    grown = _erfc((real * np.float32(-np.sqrt(0.5))).astype(np.float64))
    values: np.ndarray = np.float32(0.5) * real * grown.astype(np.float32)
    return values


def gelu_by_tanh(real: np.ndarray) -> np.ndarray:
    """TensorFlow Lite, kernels/internal/reference/gelu.h, GeluTransformApproximate."""
    factor = np.float32(2 / np.sqrt(np.pi)) * np.float32(np.sqrt(0.5))
    cubic = real + np.float32(0.044715) * real * real * real
    return np.float32(0.5) * real * (np.float32(1) + in_double(np.tanh)(factor * cubic))


def logarithm(x: Tensor, out: Tensor) -> np.ndarray:
    """TensorFlow Lite, kernels/elementwise.cc, LogPrepare: the least output where there is none."""
    least = (-128 - out.zero_point) * np.float32(out.scale)

    def function(real: np.ndarray) -> np.ndarray:
        return np.where(real > 0, in_double(np.log)(np.maximum(real, 1e-30)), least)

    return from_real(function)(x, out)


def root(x: Tensor, out: Tensor) -> np.ndarray:
    """TensorFlow Lite, kernels/elementwise.cc, SqrtEvalQuantized, which rounds down and fails at
    inputs below zero; they get the output of zero."""
    scaled = np.sqrt(np.maximum(real_values(x), 0)) / np.float32(out.scale)
    return as_table(np.trunc(scaled).astype(np.int64) + out.zero_point)


def inverse_roots(x: Tensor, out: Tensor) -> np.ndarray:
    """TensorFlow Lite, micro/kernels/elementwise.cc, RsqrtEvalQuantized, which fails at inputs
    below zero; they get the output of zero."""
    root = np.sqrt(np.float32(x.scale)) * np.float32(out.scale)
    multiplier, shift = quantize_multiplier(1.0 / float(root))
    require(shift - 20 <= 30, f"unsupported input scale {x.scale}", KEEP_QUANTISATION)
    result = []
    for value in (BYTES - x.zero_point).tolist():
        if value <= 0:
            result.append(INT8_MAX)
            continue
        inverse, exponent = inverse_square_root(value)
        scaled = fixed_point_multiply(np.int64(1), np.int64(inverse), np.int64(exponent + 20))
        scaled = fixed_point_multiply(scaled, np.int64(multiplier), np.int64(shift - 20))
        result.append(int(scaled) + out.zero_point)
    return as_table(np.array(result))
