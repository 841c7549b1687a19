# SPDX-License-Identifier: Apache-2.0
"""How close a layer's output may come to an input that dies in it (vMCU paper, section 4)."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ops import Layer


@dataclass(frozen=True)
class Clearance:
    """Which distances b_in - b_out, in bytes, are safe: from `below` on, where the output trails
    below the input, and up to `above`, where it lies or trails above."""

    below: int
    above: int

    @staticmethod
    def apart(in_bytes: int, out_bytes: int) -> Clearance:
        """For tensors that may not share a byte."""
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
    reads = layer.last_reads(index).ravel()
    writes = layer.writes().ravel()
    order = np.argsort(writes, kind="stable")
    earlier = np.searchsorted(writes[order], reads, side="left")
    conflicts = np.flatnonzero(earlier > 0)
    if not conflicts.size:
        return Clearance(-layer.ins[index].bytes, layer.out.bytes)
    last = earlier[conflicts] - 1
    highest = np.maximum.accumulate(order)[last] - conflicts
    lowest = np.minimum.accumulate(order)[last] - conflicts
    return Clearance(int(highest.max()) + 1, int(lowest.min()) - 1)


def min_distance(layer: Layer[Any], index: int) -> int:
    """The smallest b_in - b_out from which on every distance is safe."""
    return clearance(layer, index).below
