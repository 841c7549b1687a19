# SPDX-License-Identifier: Apache-2.0
"""Softmax from a table of exponentials, in the arithmetic of either runtime."""

from __future__ import annotations

import numpy as np

from ..quant import INT8_MAX, INT8_MIN, half_reciprocal, high_mul, rounding_shift, saturate


def softmax_tflite(values: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Over the last axis; int64 within int8, with scale 1/256 and zero point -128."""
    terms = table.astype(np.int64)[values.max(axis=-1, keepdims=True) - values]
    total = rounding_shift(terms, 12).sum(axis=-1, keepdims=True)
    scale, over_unit = reciprocal(total, 12)
    shares = rounding_shift(high_mul(scale, terms), over_unit + 23) + INT8_MIN
    return np.clip(shares, INT8_MIN, INT8_MAX)


def softmax_onnx(values: np.ndarray, table: np.ndarray, gain: int, zero: int) -> np.ndarray:
    """Over the last axis, not yet within int8; gain is 1 / output scale with 16 fractional
    bits."""
    terms = table.astype(np.int64)[values.max(axis=-1, keepdims=True) - values]
    total = terms.sum(axis=-1, keepdims=True)
    return (2 * terms * gain + (total << 16)) // (total << 17) + zero


def log_softmax(values: np.ndarray, table: np.ndarray, step: int, gain: int) -> np.ndarray:
    """Over the last axis, without the output's zero point and not yet within int8."""
    below = values.max(axis=-1, keepdims=True) - values
    total = table.astype(np.int64)[below].sum(axis=-1, keepdims=True)
    share = (log2_q16(total) - (23 << 16)) * gain >> 16
    return (-below * step - share + (1 << 15)) >> 16


def log2_q16(x: np.ndarray) -> np.ndarray:
    """The logarithm of positive integers below 2**40, with 16 fractional bits, cut: squaring
    doubles it, and a square of 2 or more is a bit."""
    whole = np.array([int(v).bit_length() - 1 for v in x.ravel()], np.int64).reshape(x.shape)
    mantissa = (x.astype(np.uint64) << np.uint64(23)) >> (whole.astype(np.uint64) - np.uint64(8))
    result = whole
    for _ in range(16):
        mantissa = mantissa * mantissa >> np.uint64(31)
        bit = mantissa >> np.uint64(32)
        mantissa >>= bit
        result = 2 * result + bit.astype(np.int64)
    return result


def reciprocal(x: np.ndarray, integer_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """gemmlowp one_over_one_plus_x on a Q(integer_bits) value; TensorFlow Lite GetReciprocal.

    Returns the reciprocal of x normalised to [1, 2) in Q0.31 and the bits x stands over one.
    """
    x = np.asarray(x, np.int64)
    headroom = 32 - np.array([int(v).bit_length() for v in np.ravel(x)]).reshape(x.shape)
    over_unit = integer_bits - headroom
    fraction = (x << headroom) - (1 << 31)
    return saturate(half_reciprocal(fraction) << 1), over_unit
