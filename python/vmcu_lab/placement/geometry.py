# SPDX-License-Identifier: Apache-2.0
"""Buffers as numbers, for the searches.

A section is a stretch of time in which the same buffers are alive; sizes are in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from .problem import Buffer

# Above every level that a skyline can have.
INFINITE = 1 << 62
# Up to such sums, arrays of int64 are used.
MOST_INT64 = 1 << 60


class Geometry:
    """Buffers by number, and the sections they are alive in."""

    def __init__(self, buffers: Sequence[Buffer]):
        times = sorted({t for b in buffers for t in (b.lower, b.upper)})
        section = {moment: number for number, moment in enumerate(times)}
        self.count = len(buffers)
        self.sections = len(times) - 1
        self.first = [section[b.lower] for b in buffers]
        self.end = [section[b.upper] for b in buffers]
        self.size = [b.size for b in buffers]
        self.alignment = [b.alignment for b in buffers]
        self.live = self._sums(self.first, self.size)[: self.sections]
        # How many buffers are alive on both sides of a section's start.
        self.crossings = self._sums([f + 1 for f in self.first], [1] * self.count)

    def _sums(self, starts: Sequence[int], amounts: Sequence[int]) -> list[int]:
        """Sums for each section, and the end, the amounts from `starts` until a buffer's end."""
        change = [0] * (self.sections + 2)
        for start, end, amount in zip(starts, self.end, amounts, strict=True):
            change[start] += amount
            change[end] -= amount
        return list(accumulate(change[:-1]))


def is_small(buffers: Sequence[Buffer]) -> bool:
    """Whether arrays of int64 can hold the moments and the ends of all buffers."""
    moments = (abs(moment) for b in buffers for moment in (b.lower, b.upper))
    return max([sum(b.size + b.alignment for b in buffers), *moments]) <= MOST_INT64
