# SPDX-License-Identifier: Apache-2.0
"""Nodes of a model file whose constants are compared with those of an image, and their factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

# Real bounds of an output.
Bounds = tuple[float, float]
UNBOUNDED: Bounds = (-math.inf, math.inf)
# Rows, then columns: taps, stride, dilation and padding in front.
Axes = tuple[tuple[int, ...], ...]
POINT: Axes = ((1, 1, 1, 0),) * 2
INT8_MIN, INT8_MAX = -128, 127
NO_WEIGHTS = np.zeros((0, 0), np.int64)


@dataclass(frozen=True)
class FileTensor:
    """A quantised tensor. values: int64, None for an activation; scale, zero: by channel, or one.
    Values and zeros of uint8 are those of int8."""

    values: np.ndarray | None
    scale: np.ndarray
    zero: np.ndarray
    is_unsigned: bool

    @classmethod
    def of(
        cls, values: np.ndarray | None, scale: np.ndarray, zero: np.ndarray, is_unsigned: bool
    ) -> FileTensor:
        """Returns a tensor of uint8 or int8 as int8."""
        shift = 128 * is_unsigned
        values = None if values is None else values.astype(np.int64) - shift
        zero = np.atleast_1d(zero).astype(np.int64) - shift
        return cls(values, np.atleast_1d(scale), zero, is_unsigned)


@dataclass(frozen=True)
class FileNode:
    """A node of the file. kind: "sum", "mean", "softmax", or of a layer with weights "conv",
    "depthwise" or "dense".

    scales, zeros: of its inputs and its output, zeros as int8; of softmax, the first scale times
    beta. is_float: factors are float32, as in .onnx; is_unsigned: its bytes are uint8 in the file.

    Of a layer with weights, scales are factors of sums, by channel: float64, or float32 of .onnx.
    weights: int64 (channels, taps), taps by row, column and input channel of the window; bias:
    int64 (channels,), in units of input scale times weight scale, without the input's zero point.
    bounds: of the output, as int8; None where nodes behind it may narrow them.
    """

    kind: str
    name: str
    scales: np.ndarray
    zeros: tuple[int, ...]
    is_float: bool
    is_unsigned: bool
    axes: Axes
    weights: np.ndarray
    bias: np.ndarray
    bounds: tuple[int, ...] | None

    @classmethod
    def of(cls, kind: str, name: str, ends: Sequence[FileTensor], axes: Axes = POINT) -> FileNode:
        """Returns a node without weights. Scales of float32 are those of .onnx."""
        scales = np.array([end.scale[0] for end in ends])
        zeros = tuple(int(end.zero[0]) for end in ends)
        flags = scales.dtype == np.float32, ends[0].is_unsigned
        return cls(kind, name, scales, zeros, *flags, axes, NO_WEIGHTS, NO_WEIGHTS, None)

    def with_weights(
        self, weights: FileTensor, bias: np.ndarray | None, bounds: Bounds | None
    ) -> FileNode:
        """Returns a node with one input with its weights (channels, ...)."""
        assert weights.values is not None
        count, limits = len(weights.values), None
        if bounds is not None:
            ends = np.rint(np.array(bounds) / float(self.scales[1])) + self.zeros[1]
            limits = tuple(np.clip(ends, INT8_MIN, INT8_MAX).astype(int).tolist())
        bias = np.zeros(1, np.int64) if bias is None else bias.astype(np.int64).ravel()
        return replace(
            self,
            scales=np.broadcast_to(self.scales[0] * weights.scale / self.scales[1], count),
            weights=weights.values.reshape(count, -1) - weights.zero.reshape(-1, 1),
            bias=np.broadcast_to(bias, count),
            bounds=limits,
        )

    @property
    def taps(self) -> np.ndarray:
        """int64 (channels, places of the window, channels of an input)."""
        (rows, *_), (columns, *_) = self.axes
        return self.weights.reshape(len(self.weights), rows * columns, -1)


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
