# SPDX-License-Identifier: Apache-2.0
"""Placements in one pass over time, for so many buffers that a skyline takes too long.

Input: buffers. Output: offsets. Algorithm: each buffer gets a gap when it comes to life: the
smallest that holds it (best fit), or the lowest (first fit). Complexity: n log n but for the shifts
of a sorted list of gaps; first fit is linear in the buffers alive together.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np

from .problem import Buffer


class FreeBytes:
    """Free bytes below a top, as gaps that do not touch each other."""

    def __init__(self) -> None:
        self.gaps: list[tuple[int, int]] = []  # sizes and starts, sorted
        self.ends: dict[int, int] = {}  # by start
        self.starts: dict[int, int] = {}  # by end
        self.top = 0

    def allocate(self, size: int, alignment: int) -> int:
        """The offset of a buffer in the smallest gap that holds it wherever that begins."""
        at = bisect_left(self.gaps, (size + alignment - 1, 0))
        if at < len(self.gaps):
            start = self.gaps[at][1]
            end = self._remove(start)
        else:
            start, end = self.starts.get(self.top, self.top), None
            if start != self.top:
                self._remove(start)
        offset = start + -start % alignment
        if end is None:
            self.top = end = offset + size
        self._add(start, offset)
        self._add(offset + size, end)
        return offset

    def free(self, start: int, end: int) -> None:
        """Adds a gap, joined with those next to it."""
        if start in self.starts:
            start = self.starts[start]
            self._remove(start)
        if end in self.ends:
            end = self._remove(end)
        self._add(start, end)

    def _add(self, start: int, end: int) -> None:
        if start < end:
            insort(self.gaps, (end - start, start))
            self.ends[start], self.starts[end] = end, start

    def _remove(self, start: int) -> int:
        end = self.ends.pop(start)
        del self.starts[end]
        del self.gaps[bisect_left(self.gaps, (end - start, start))]
        return end


def best_fit(buffers: Sequence[Buffer]) -> list[int]:
    """Offsets by index."""
    offsets = [0] * len(buffers)
    free = FreeBytes()
    alive: list[tuple[int, int]] = []
    for index in sorted(range(len(buffers)), key=lambda i: (buffers[i].lower, -buffers[i].size)):
        buffer = buffers[index]
        while alive and alive[0][0] <= buffer.lower:
            _, dead = heappop(alive)
            free.free(offsets[dead], offsets[dead] + buffers[dead].size)
        offsets[index] = free.allocate(buffer.size, buffer.alignment)
        heappush(alive, (buffer.upper, index))
    return offsets


def first_fit(buffers: Sequence[Buffer]) -> list[int]:
    """Offsets by index."""
    offsets = [0] * len(buffers)
    # Those alive, by offset: start, end, and when they die.
    alive = np.zeros((3, 0), np.int64)
    for index in sorted(range(len(buffers)), key=lambda i: buffers[i].lower):
        buffer = buffers[index]
        alive = alive[:, alive[2] > buffer.lower]
        ends = np.append(0, alive[1])
        ends += -ends % buffer.alignment
        fits = alive[0] - ends[:-1] >= buffer.size
        at = int(fits.argmax()) if fits.any() else len(fits)
        offsets[index] = start = int(ends[at])
        alive = np.insert(alive, at, (start, start + buffer.size, buffer.upper), axis=1)
    return offsets
