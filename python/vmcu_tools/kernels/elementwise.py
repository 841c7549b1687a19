# SPDX-License-Identifier: Apache-2.0
"""Layers that work element by element, and softmax, which works pixel by pixel.

Order of access: byte by byte, ascending; an element is read before its result is written. Softmax
reads a whole pixel first and each channel once more just before it writes that channel.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..graph import Add, Requantize, Softmax
from ..quant import high_mul, rounding_shift
from .base import Layer, OpT


class ElementwiseLayer(Layer[OpT]):
    """Output byte i depends on input byte i of every input alone, or on its pixel."""

    def input_rows(self, index: int, y: int) -> range:
        return range(y, y + 1)

    def last_reads(self, index: int) -> np.ndarray:
        return np.arange(self.ins[index].bytes, dtype=np.int64).reshape(self.ins[index].shape)


class AddLayer(ElementwiseLayer[Add]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        total = np.zeros((y1 - y0, *self.out.shape[1:]), np.int64)
        for tensor, values, factor in zip(self.ins, data, (self.op.a, self.op.b), strict=True):
            shifted = (values[y0:y1].astype(np.int64) - tensor.zero_point) << self.op.left_shift
            total += factor.apply(shifted)
        return self.clamp(self.op.out.apply(total) + self.out.zero_point)


class RequantizeLayer(ElementwiseLayer[Requantize]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0][y0:y1].astype(np.int64)
        if self.op.requant is not None:
            values = self.op.requant.apply(values - self.ins[0].zero_point) + self.out.zero_point
        return self.clamp(values)


def reciprocal(x: np.ndarray, integer_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """gemmlowp one_over_one_plus_x on a Q(integer_bits) value; TensorFlow Lite GetReciprocal.

    Returns the reciprocal of x normalised to [1, 2) in Q0.31 and the bits x stands over one.
    """
    x = np.asarray(x, np.int64)
    headroom = 32 - np.array([int(v).bit_length() for v in np.ravel(x)]).reshape(x.shape)
    over_unit = integer_bits - headroom
    fraction = (x << headroom) - (1 << 31)
    # Newton-Raphson on (1 + fraction) / 2 in Q2.29, three steps from 48/17 - 32/17 d.
    half_denominator = (fraction + (2**31 - 1) + 1) >> 1
    estimate = 1515870810 + high_mul(half_denominator, np.int64(-1010580540))
    for _ in range(3):
        error = (1 << 29) - high_mul(half_denominator, estimate)
        estimate = estimate + np.clip(high_mul(estimate, error) << 2, -(2**31), 2**31 - 1)
    return np.clip(estimate << 1, -(2**31), 2**31 - 1), over_unit


class SoftmaxLayer(ElementwiseLayer[Softmax]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0][y0:y1].astype(np.int64)
        terms = self.op.exp.astype(np.int64)[values.max(axis=-1, keepdims=True) - values]
        if self.op.style == "tflite":
            total = rounding_shift(terms, 12).sum(axis=-1, keepdims=True)
            scale, over_unit = reciprocal(total, 12)
            result = rounding_shift(high_mul(scale, terms), over_unit + 23) - 128
        else:
            total = terms.sum(axis=-1, keepdims=True)
            result = (2 * terms * self.op.gain + (total << 16)) // (
                total << 17
            ) + self.out.zero_point
        return self.clamp(result)
