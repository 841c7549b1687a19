# SPDX-License-Identifier: Apache-2.0
"""Softmax from a table of exponentials, in the arithmetic of either runtime."""

from __future__ import annotations

import numpy as np

from ..quant import (
    INT8_MAX,
    INT8_MIN,
    bit_lengths,
    half_reciprocal,
    high_mul,
    reciprocal,
    rounding_shift,
    saturate,
)


def softmax_tflite(values: np.ndarray, table: np.ndarray, width: int = 1) -> np.ndarray:
    """Over the last axis; int64 within int8, with scale 1/256 and zero point -128. width: bytes of
    a result; of two it is within int16, with scale 1/65536 and zero point -32768."""
    limits = np.iinfo(f"i{width}")
    terms = table.astype(np.int64)[values.max(axis=-1, keepdims=True) - values]
    total = rounding_shift(terms, 12).sum(axis=-1, keepdims=True)
    scale, over_unit = reciprocal(total, 12)
    shares = rounding_shift(high_mul(scale, terms), over_unit + 31 - limits.bits) + limits.min
    clipped: np.ndarray = np.clip(shares, limits.min, limits.max)
    return clipped


def softmax_onnx(values: np.ndarray, table: np.ndarray, gain: int, zero: int) -> np.ndarray:
    """Over the last axis, not yet within int8; gain is 1 / output scale with 16 fractional
    bits."""
    terms = table.astype(np.int64)[values.max(axis=-1, keepdims=True) - values]
    total = terms.sum(axis=-1, keepdims=True)
    scores: np.ndarray = (2 * terms * gain + (total << 16)) // (total << 17) + zero
    return scores


def log_softmax_onnx(values: np.ndarray, table: np.ndarray, step: int, gain: int) -> np.ndarray:
    """Over the last axis, without the output's zero point and not yet within int8."""
    below = values.max(axis=-1, keepdims=True) - values
    total = table.astype(np.int64)[below].sum(axis=-1, keepdims=True)
    share = (log2_q16(total) - (23 << 16)) * gain >> 16
    logs: np.ndarray = (-below * step - share + (1 << 15)) >> 16
    return logs


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


def log_softmax_tflite(values: np.ndarray, table: np.ndarray, scaled: np.ndarray) -> np.ndarray:
    """Over the last axis; int64 within int8, with scale 1/16 and zero point 127.

    TensorFlow Lite, kernels/internal/reference/log_softmax.h, LogSoftmaxQuantized.
    """
    below = values.max(axis=-1, keepdims=True) - values
    total = rounding_shift(table.astype(np.int64)[below], 12).sum(axis=-1, keepdims=True)
    logs = rounding_shift(scaled.astype(np.int64)[below] - logarithm(total, 12), 22)
    clipped: np.ndarray = np.clip(logs + INT8_MAX, INT8_MIN, INT8_MAX)
    return clipped


def logarithm(x: np.ndarray, integer_bits: int) -> np.ndarray:
    """log(x) in Q5.26 for x >= 1 in Q(integer_bits).

    TensorFlow Lite, kernels/internal/common.h, log_x_for_x_greater_than_or_equal_to_1_impl: x is
    r times a power of two, or of two times sqrt(1/2), whichever leaves the smaller r.
    """
    half_root, fourth = np.int64(1518500250), np.int64(1805811301)
    quarter = 1 << 23
    room, room_b = 32 - bit_lengths(x), 31 - bit_lengths(high_mul(x, half_root))
    r_a = saturate(high_mul(saturate(x << (room - 1)), half_root) << 1)
    r = np.minimum(r_a, saturate(x << room_b))
    power_a = ((integer_bits - room) << 25) + quarter
    power = np.maximum(power_a, ((integer_bits - room_b) << 25) - quarter)
    total = r + fourth
    p = np.where(total >= 0, (total + 1) >> 1, -((1 - total) >> 1))
    q = 2 * (r - fourth)
    square = high_mul(q, q)
    num = high_mul(q, r) + high_mul(high_mul(q, square), np.int64(117049297))
    inner = 1057819769 + q + high_mul(np.int64(127690142), square)
    denominator = high_mul(p, inner) + high_mul(np.int64(638450708), q)
    inverse = saturate(half_reciprocal(denominator) << 1)
    part = high_mul(rounding_shift(num, 6), inverse)
    return saturate((high_mul(power, np.int64(1488522236)) + part) << 1)
