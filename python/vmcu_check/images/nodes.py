# SPDX-License-Identifier: Apache-2.0
"""Nodes of a model file whose constants are compared with those of an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

Bounds = tuple[float | None, float | None]
# Rows, then columns: taps, stride, dilation and padding in front.
Axes = tuple[tuple[int, int, int, int], ...]
POINT: Axes = ((1, 1, 1, 0),) * 2


@dataclass(frozen=True)
class FileTensor:
    """A quantised tensor. values: int64, None for an activation; scale, zero: by channel, or one.
    Values and zeros of uint8 are those of int8."""

    values: np.ndarray | None
    scale: np.ndarray
    zero: np.ndarray
    is_unsigned: bool = False

    @classmethod
    def of(
        cls, values: np.ndarray | None, scale: np.ndarray, zero: np.ndarray, is_unsigned: bool
    ) -> FileTensor:
        """Returns a tensor of uint8 or int8 as int8."""
        shift = 128 if is_unsigned else 0
        values = None if values is None else values.astype(np.int64) - shift
        return cls(
            values, np.atleast_1d(scale), np.atleast_1d(zero).astype(np.int64) - shift, is_unsigned
        )


@dataclass(frozen=True)
class WeightNode:
    """A layer with weights in the file.

    weights: int64 (channels, taps), taps by row, column and input channel of the window; bias:
    int64 (channels,), in units of input scale times weight scale, without the input's zero point.
    scales: factors of sums, by channel: float64, or float32 of .onnx. zeros: of input and output,
    as int8. bounds: of the output, as int8; None where nodes behind it may narrow them.
    """

    name: str
    kind: str
    weights: np.ndarray
    bias: np.ndarray
    scales: np.ndarray
    axes: Axes
    zeros: tuple[int, int]
    is_float: bool
    bounds: tuple[int, int] | None

    @property
    def window(self) -> tuple[int, int]:
        return self.axes[0][0], self.axes[1][0]

    @classmethod
    def of(
        cls,
        node: tuple[str, str, Axes],
        weights: FileTensor,
        bias: np.ndarray | None,
        ends: tuple[FileTensor, FileTensor],
        bounds: Bounds | None,
    ) -> WeightNode:
        """Returns a node from its name, kind and axes, its weights (channels, ...) and its input
        and output. Factors are of the type of the scales; float32 is .onnx's."""
        assert weights.values is not None
        count, (into, out) = len(weights.values), ends
        zeros = int(into.zero[0]), int(out.zero[0])
        scales = into.scale[0] * weights.scale / out.scale[0]
        values = weights.values.reshape(count, -1) - weights.zero.reshape(-1, 1)
        bias = np.zeros(1, np.int64) if bias is None else bias.astype(np.int64).ravel()
        return cls(
            *node[:2],
            values,
            np.broadcast_to(bias, count),
            np.broadcast_to(scales, count),
            node[2],
            zeros,
            scales.dtype == np.float32,
            None if bounds is None else as_bytes(*bounds, float(out.scale[0]), zeros[1]),
        )


@dataclass(frozen=True)
class PlainNode:
    """A sum of two tensors, a mean, or softmax. kind: "sum", "mean" or "softmax"; scales and zeros,
    as int8, of inputs and output; of softmax, the scale times beta. is_unsigned: its bytes are
    uint8 in the file."""

    kind: str
    scales: tuple[float, ...]
    zeros: tuple[int, ...]
    is_float: bool
    is_unsigned: bool

    @classmethod
    def of(cls, kind: str, ends: Sequence[FileTensor], is_float: bool) -> PlainNode:
        scales = tuple(float(end.scale[0]) for end in ends)
        zeros = tuple(int(end.zero[0]) for end in ends)
        return cls(kind, scales, zeros, is_float, ends[0].is_unsigned)


@dataclass(frozen=True)
class FileNodes:
    """The nodes of a file whose constants are compared, in its order."""

    weighted: list[WeightNode] = field(default_factory=list)
    plain: list[PlainNode] = field(default_factory=list)


def as_bytes(low: float | None, high: float | None, scale: float, zero: int) -> tuple[int, int]:
    """Real bounds, None for none, as int8 ones."""
    least = -128 if low is None else int(np.rint(low / scale)) + zero
    most = 127 if high is None else int(np.rint(high / scale)) + zero
    return min(max(least, -128), 127), min(max(most, -128), 127)
