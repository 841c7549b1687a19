# SPDX-License-Identifier: Apache-2.0
"""Channels of a file that an image lacks, since their bytes are always the same.

The compiler leaves out channels that no input changes, and adds their terms to the biases of the
next layer. Here the range of each channel follows from the file alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .model_file import FileNode
from .scaling import INT8_MAX, INT8_MIN, scaled


@dataclass(frozen=True)
class FileChannels:
    """A tensor's channels. kept: those of the file that the image has, ascending; low, high: bytes
    of all of the file's, int64."""

    kept: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, kept: np.ndarray, count: int) -> FileChannels:
        """Channels of which nothing is known."""
        return cls(kept, np.full(count, INT8_MIN), np.full(count, INT8_MAX))


def without(
    node: FileNode, before: FileChannels, weights: np.ndarray
) -> tuple[FileNode, np.ndarray] | None:
    """Returns the node as an image with these weights has it, and the output channels that are
    left; None if the weights are not the rest of the node's."""
    taps = node.taps
    rows, terms = np.arange(len(taps)), np.zeros(len(taps), np.int64)
    reads_them = np.zeros(len(taps), bool)
    if node.kind == "depthwise":
        rows = before.kept
    elif taps.shape[2] != len(before.low):
        return None
    else:
        gone = np.setdiff1d(np.arange(taps.shape[2]), before.kept)
        terms = (taps[:, :, gone] * (before.low[gone] - node.zeros[0])).sum(axis=(1, 2))
        # Channels that change are left out if nothing reads them.
        varying = gone[before.low[gone] != before.high[gone]]
        reads_them = np.asarray(taps[:, :, varying].any(axis=(1, 2)))
        taps = taps[:, :, before.kept]
    rest, left = taps.reshape(len(taps), -1), iter(rows)
    if rest.shape[1] != weights.shape[1]:
        return None
    kept = np.array([next((i for i in left if (rest[i] == row).all()), -1) for row in weights])
    if (kept < 0).any() or reads_them[kept].any():
        return None
    bias = node.bias[kept] + terms[kept]
    return replace(node, weights=rest[kept], bias=bias, scales=node.scales[kept]), kept


def after(node: FileNode, before: FileChannels, kept: np.ndarray) -> FileChannels:
    """Returns the channels of a node's output, with the range of each."""
    taps, zero = node.taps, node.zeros[0]
    low, high = before.low - zero, before.high - zero
    if node.kind == "depthwise":
        each = np.arange(len(taps)) // max(len(taps) // max(len(low), 1), 1)
        if each.max() >= len(low):
            return FileChannels.of(kept, len(taps))
        low, high = low[each][:, None, None], high[each][:, None, None]
    elif taps.shape[2] != len(low):
        return FileChannels.of(kept, len(taps))
    if taps.shape[1] > 1:
        # Padding is the zero point.
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    ends, bounds = (taps * low, taps * high), node.bounds or (INT8_MIN, INT8_MAX)
    sums = [node.bias + pick(*ends).sum(axis=(1, 2)) for pick in (np.minimum, np.maximum)]
    results = [np.clip(_bytes(node, one), bounds[0], bounds[1]) for one in sums]
    return FileChannels(kept, np.minimum(*results), np.maximum(*results))


def _bytes(node: FileNode, sums: np.ndarray) -> np.ndarray:
    results: np.ndarray = np.rint(sums.astype(np.float32) * node.scales).astype(int)
    if not node.is_float:
        pairs = zip(sums, node.scales, strict=True)
        results = np.array([int(scaled(one, float(scale))) for one, scale in pairs])
    return results + node.zeros[1]
