# SPDX-License-Identifier: Apache-2.0
"""Pooling. Order of access: pixel by pixel, channel by channel, taps read before the write."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..graph import AveragePool2D, MaxPool2D
from ..quant import INT8_MIN
from .base import Layer, OpT, gather, window_last_reads, window_rows


class PoolLayer(Layer[OpT]):
    def input_rows(self, index: int, y: int) -> range:
        return window_rows(self.op.window, self.ins[0].shape[0], y)

    def last_reads(self, index: int) -> np.ndarray:
        return window_last_reads(
            self.op.window, self.ins[0].shape, self.out, np.arange(self.out.shape[2])
        )


def divide_away(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    """total / count to nearest, ties away from zero; count > 0."""
    magnitude = (np.abs(total) + count // 2) // count
    return np.where(total < 0, -magnitude, magnitude)


class AveragePool2DLayer(PoolLayer[AveragePool2D]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        zero = self.ins[0].zero_point
        taps, inside = gather(data[0], self.op.window, self.out.shape[1], y0, y1, zero)
        count = inside.sum(axis=(2, 3))[..., None]
        if self.op.count_padding:
            count = np.full_like(count, self.op.window.kernel[0] * self.op.window.kernel[1])
        # Padding was filled with the zero point, so it adds nothing to this sum.
        total = (taps - zero).sum(axis=(2, 3))
        if self.op.requant is None:
            values = divide_away(total + zero * count, count)
        else:
            values = self.op.requant.apply(divide_away(total << 8, count)) + self.out.zero_point
        return self.clamp(values)


class MaxPool2DLayer(PoolLayer[MaxPool2D]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        taps, _ = gather(data[0], self.op.window, self.out.shape[1], y0, y1, INT8_MIN)
        return self.clamp(taps.max(axis=(2, 3)))
