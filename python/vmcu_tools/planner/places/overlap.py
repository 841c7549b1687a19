# SPDX-License-Identifier: Apache-2.0
"""Distances between a layer's output and an input that dies in it (vMCU paper, section 4)."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ops import Layer, ProgramLayer


@dataclass(frozen=True)
class Clearance:
    """Which distances b_in - b_out, in bytes, are safe: from `below` on, where the output trails
    below the input, and up to `above`, where it lies or trails above."""

    below: int
    above: int

    @staticmethod
    def apart(in_bytes: int, out_bytes: int) -> Clearance:
        """The clearance of tensors that share no byte."""
        return Clearance(out_bytes, -in_bytes)

    def allows(self, distance: int) -> bool:
        """True if an output so many bytes below its input, above if negative, is safe."""
        return distance >= self.below or distance <= self.above

    def footprint(self, in_bytes: int, out_bytes: int) -> int:
        """The fewest bytes that the two cover together."""
        below, above = max(self.below, 0), min(self.above, 0)
        return min(max(below + in_bytes, out_bytes), max(in_bytes, out_bytes - above))


@functools.lru_cache(maxsize=4096)
def clearance(layer: Layer[Any], index: int) -> Clearance:
    """The safe distances between the output and input `index`, in the layer's direction.

    Equation 1 of the paper at the grain of single bytes: an output byte k may lie on an input
    byte j unless k is written before j has been read for the last time. The distances k - j of
    such pairs are unsafe; what is beyond all of them, on either side, is safe.
    """
    if layer.is_apart:
        return Clearance.apart(layer.ins[index].bytes, layer.out.bytes)
    if isinstance(layer, ProgramLayer) and not layer.sums:
        unsafe = of_rows(layer, index)
    else:
        unsafe = of_bytes(layer, index)
    if unsafe is None:
        return Clearance(-layer.ins[index].bytes, layer.out.bytes)
    lowest, highest = unsafe
    return Clearance(highest + 1, lowest - 1)


def of_bytes(layer: Layer[Any], index: int) -> tuple[int, int] | None:
    """The lowest and the highest unsafe distance, from when each byte of the tensors is read and
    written; None if there is none."""
    return _unsafe(layer.last_reads(index).ravel(), layer.writes().ravel())


def of_rows(layer: ProgramLayer[Any], index: int) -> tuple[int, int] | None:
    """The result of of_bytes(), for a layer that does the same in each row: one row tells which
    bytes are written before an input byte's last read in that row; all rows before it are
    written."""
    ticks, last = layer.ticks, layer.last_turns(index)
    reads = ticks.reads[index].ravel()
    read = np.flatnonzero(reads >= 0)
    rows = np.flatnonzero(last >= 0)
    if not read.size or not rows.size:
        return None
    inside = _unsafe(reads, ticks.writes.ravel())
    lowest, highest = [], []
    turns, size = last[rows], layer.out.row_bytes
    starts = rows * layer.ins[index].row_bytes
    if inside is not None:
        written = (layer.height - 1 - turns if layer.descending else turns) * size - starts
        lowest.append(int(written.min()) + inside[0])
        highest.append(int(written.max()) + inside[1])
    later = turns > 0
    if later.any():
        first = (layer.height - turns) * size if layer.descending else np.zeros_like(turns)
        stop = np.full_like(turns, layer.out.bytes) if layer.descending else turns * size
        lowest.append(int((first - starts)[later].min() - read[-1]))
        highest.append(int((stop - 1 - starts)[later].max() - read[0]))
    return (min(lowest), max(highest)) if lowest else None


def _unsafe(reads: np.ndarray, writes: np.ndarray) -> tuple[int, int] | None:
    """The lowest and the highest distance from a byte that is read at some tick to one that has
    been written before; None if there is none."""
    order = np.argsort(writes, kind="stable")
    earlier = np.searchsorted(writes[order], reads, side="left")
    conflicts = np.flatnonzero(earlier > 0)
    if not conflicts.size:
        return None
    last = earlier[conflicts] - 1
    highest = np.maximum.accumulate(order)[last] - conflicts
    lowest = np.minimum.accumulate(order)[last] - conflicts
    return int(lowest.min()), int(highest.max())
