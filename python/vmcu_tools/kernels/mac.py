# SPDX-License-Identifier: Apache-2.0
"""Layers that multiply and accumulate: convolution, depthwise convolution, fully connected.

Order of access: pixel by pixel, output channel by output channel; all taps of a channel are read
before its byte is written.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from ..graph import Conv2D, DepthwiseConv2D, FullyConnected, Window
from ..quant import FixedPoint, Requant, requantize, wrap_int32
from .base import Layer, OpT, gather, window_last_reads, window_rows


def requant_bytes(requant: Requant) -> int:
    if isinstance(requant, FixedPoint):
        return requant.multiplier.size * 5
    return requant.scale.size * 4


def accumulate(taps: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """(..., K) taps times (K, N) weights plus bias (N,), exact.

    float64 carries sums below 2**53 without rounding and is much faster than integer products.
    """
    acc = taps.astype(np.float64) @ weights.astype(np.float64)
    return acc.astype(np.int64) + bias.astype(np.int64)


class MacLayer(Layer[OpT]):
    """What all of them share: weights, a bias, a requantiser, a window."""

    @property
    def window(self) -> Window:
        return self.op.window

    def finish(self, acc: np.ndarray) -> np.ndarray:
        """Accumulators to int8; like the C kernels they are 32 bits wide and wrap."""
        return requantize(
            wrap_int32(acc), self.op.requant, self.out.zero_point, self.op.act_min, self.op.act_max
        )

    def taps(self, data: np.ndarray, y0: int, y1: int) -> np.ndarray:
        """q - zero_point under output rows y0 .. y1-1, int64 (rows, W, kh, kw, C)."""
        zero = self.ins[0].zero_point
        return gather(data, self.window, self.out.shape[1], y0, y1, zero)[0] - zero

    @abstractmethod
    def last_channel(self) -> np.ndarray:
        """For each input channel, the last output channel that reads it."""

    def input_rows(self, index: int, y: int) -> range:
        return window_rows(self.window, self.ins[0].shape[0], y)

    def last_reads(self, index: int) -> np.ndarray:
        return window_last_reads(self.window, self.ins[0].shape, self.out, self.last_channel())

    @property
    def macs(self) -> int:
        return self.out.shape[0] * self.out.shape[1] * int(self.op.weights.size)

    @property
    def weight_bytes(self) -> int:
        return self.op.weights.size + self.op.bias.size * 4 + requant_bytes(self.op.requant)


class Conv2DLayer(MacLayer[Conv2D]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        taps = self.taps(data[0], y0, y1)
        cout, kh, kw, depth = self.op.weights.shape
        per_group = cout // self.op.groups
        parts = []
        for g in range(self.op.groups):
            group = taps[..., g * depth : (g + 1) * depth]
            filters = self.op.weights[g * per_group : (g + 1) * per_group].reshape(per_group, -1).T
            bias = self.op.bias[g * per_group : (g + 1) * per_group]
            parts.append(accumulate(group.reshape(*taps.shape[:2], kh * kw * depth), filters, bias))
        return self.finish(np.concatenate(parts, axis=-1))

    def last_channel(self) -> np.ndarray:
        per_group = self.out.shape[2] // self.op.groups
        group = np.arange(self.ins[0].shape[2]) // self.op.weights.shape[3]
        return (group + 1) * per_group - 1


class DepthwiseConv2DLayer(MacLayer[DepthwiseConv2D]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        wide = np.repeat(self.taps(data[0], y0, y1), self.op.multiplier, axis=-1)
        acc = (wide * self.op.weights.astype(np.int64)).sum(axis=(2, 3)) + self.op.bias
        return self.finish(acc)

    def last_channel(self) -> np.ndarray:
        return (np.arange(self.ins[0].shape[2]) + 1) * self.op.multiplier - 1


class FullyConnectedLayer(MacLayer[FullyConnected]):
    @property
    def window(self) -> Window:
        return Window()

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        taps = self.taps(data[0], y0, y1)[:, :, 0, 0]
        return self.finish(accumulate(taps, self.op.weights.T, self.op.bias))

    def last_channel(self) -> np.ndarray:
        return np.full(self.ins[0].shape[2], self.out.shape[2] - 1)
