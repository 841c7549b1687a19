# SPDX-License-Identifier: Apache-2.0
"""Nodes of a model file whose constants are compared with those of an image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class WeightNode:
    """A layer with weights in the file.

    weights: int64 (channels, taps), taps by row, column and input channel of the window; bias:
    int64 (channels,), in units of input scale times weight scale, without the input's zero point.
    scales: factors of sums, by channel: float64, or float32 of .onnx. window:
    rows and columns. zeros: of input and output, as int8; None where the file leaves it open.
    bounds: of the output, as int8; None where nodes behind it may narrow them.
    """

    name: str
    kind: str
    weights: np.ndarray
    bias: np.ndarray
    scales: np.ndarray
    window: tuple[int, int]
    zeros: tuple[int | None, int | None]
    is_float: bool
    bounds: tuple[int, int] | None


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


def as_bytes(low: float | None, high: float | None, scale: float, zero: int) -> tuple[int, int]:
    """Real bounds, None for none, as int8 ones."""
    least = -128 if low is None else int(np.rint(low / scale)) + zero
    most = 127 if high is None else int(np.rint(high / scale)) + zero
    return min(max(least, -128), 127), min(max(most, -128), 127)
