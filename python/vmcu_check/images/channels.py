# SPDX-License-Identifier: Apache-2.0
"""Channels of a file that an image lacks, since their bytes are always the same.

The compiler leaves out channels that no input changes, and adds their terms to the biases of the
next layer. Here the range of each channel follows from the file alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .nodes import FileNode
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
    rows = np.arange(len(taps))
    terms = np.zeros(len(taps), np.int64)
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
    rest = taps.reshape(len(taps), -1)
    if rest.shape[1] != weights.shape[1]:
        return None
    left, at = [], 0
    for wanted in weights:
        while at < len(rows) and (rest[rows[at]] != wanted).any():
            at += 1
        if at == len(rows):
            return None
        left.append(rows[at])
        at += 1
    kept = np.array(left)
    if reads_them[kept].any():
        return None
    fewer = replace(
        node,
        weights=rest[kept],
        bias=node.bias[kept] + terms[kept],
        scales=np.asarray(node.scales)[kept],
    )
    return fewer, kept


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
    ends = taps * low, taps * high
    sums = [node.bias + pick(*ends).sum(axis=(1, 2)) for pick in (np.minimum, np.maximum)]
    least, most = node.bounds or (INT8_MIN, INT8_MAX)
    results = [_bytes(node, one) + node.zeros[1] for one in sums]
    clipped = [np.clip(one, least, most) for one in results]
    return FileChannels(kept, np.minimum(*clipped), np.maximum(*clipped))


def _bytes(node: FileNode, sums: np.ndarray) -> np.ndarray:
    if node.is_float:
        return np.rint(sums.astype(np.float32) * np.asarray(node.scales, np.float32)).astype(int)
    pairs = zip(sums, node.scales, strict=True)
    return np.array([int(scaled(np.array(one), float(scale))) for one, scale in pairs])
