# SPDX-License-Identifier: Apache-2.0
"""First placements, bottom up along the skyline, without backtracking.

Input: buffers. Output: offsets. Algorithm: best fit along the skyline. The lowest valley receives
the buffer with the largest weight among those alive only within it; if there is none, the valley is
raised to its lower neighbour (Sekiyama et al., "Profile-guided memory optimization for deep neural
networks", arXiv:1804.10001, which prefers the longest lifetime). Here several weights are tried,
and a buffer that matches the valley's walls weighs more. Complexity: some 40 microseconds a buffer,
more where valleys are wide.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

import numpy as np

from .geometry import is_small
from .problem import Buffer

# Weights: powers of lifetime and size, and a factor for each wall that is matched.
SKYLINE_WEIGHTS = (
    (2, 1, 2.5),
    (1, 0, 150.0),
    (1, 2, 150.0),
    (1, 1, 2.5),
    (1, 0, 2.5),
    (2, 1, 150.0),
)
BUFFERS_PER_CLOCK = 256


class Skyline:
    """Stretches of time and their levels. `starts`: sorted, the last is the end of time;
    `level`: by start, bytes; `heap`: (level, start), also of stretches that are gone."""

    def __init__(self, start: int, end: int):
        self.starts = [start, end]
        self.level: dict[int, float] = {start: 0, end: math.inf}
        self.heap = [(0, start)]

    def lowest(self) -> tuple[int, int]:
        """Level and start of the lowest stretch, the first among equals."""
        while self.level.get(self.heap[0][1]) != self.heap[0][0]:
            heappop(self.heap)
        return self.heap[0]

    def neighbours(self, start: int) -> tuple[int, float, float]:
        """The end of a stretch, and the levels before and after it."""
        at = bisect_left(self.starts, start)
        end = self.starts[at + 1]
        before = self.level[self.starts[at - 1]] if at else math.inf
        return end, before, self.level[end]

    def replace(self, start: int, pieces: list[tuple[int, int]]) -> None:
        """Puts pieces (start, level) in the place of a stretch."""
        at = bisect_left(self.starts, start)
        end, last, after = self.neighbours(start)
        del self.level[start], self.level[end]
        starts = []
        for begin, level in (*pieces, (end, after)):
            if level != last:
                starts.append(begin)
                self.level[begin] = last = level
                if begin != end:
                    heappush(self.heap, (int(level), begin))
        self.starts[at : at + 2] = starts


class Valleys:
    """Buffers as arrays, in the order in which they come to life."""

    def __init__(self, buffers: Sequence[Buffer]):
        self.order = sorted(
            range(len(buffers)), key=lambda n: (buffers[n].lower, -buffers[n].upper, n)
        )
        some = [buffers[n] for n in self.order]
        self.lower = np.array([b.lower for b in some], np.int64)
        self.upper = np.array([b.upper for b in some], np.int64)
        self.size = np.array([b.size for b in some], np.int64)
        self.alignment = [b.alignment for b in some]

    def fill(self, weight: tuple[int, int, float], deadline: float) -> list[int] | None:
        """Offsets by buffer; None if time runs out."""
        life, size, factor = weight
        weights = (self.upper - self.lower).astype(float) ** life * self.size.astype(float) ** size
        factors = np.array([factor**matches for matches in range(5)])
        end_of_time = int(self.upper.max())
        skyline = Skyline(int(self.lower[0]), end_of_time)
        left = np.ones(len(self.order), bool)
        lowers = self.lower.tolist()
        offsets = [0] * len(self.order)
        placed = 0
        while placed < len(self.order):
            level, start = skyline.lowest()
            end, before, after = skyline.neighbours(start)
            first, last = bisect_left(lowers, start), bisect_left(lowers, end)
            some = np.flatnonzero(left[first:last] & (self.upper[first:last] <= end)) + first
            if not len(some):
                skyline.replace(start, [(start, int(min(before, after)))])
                continue
            at_start, at_end = self.lower[some] == start, self.upper[some] == end
            tall = self.size[some]
            matches = at_start.astype(np.int64) + at_end
            matches += at_start & (tall == before - level)
            matches += at_end & (tall == after - level)
            best = int(some[np.argmax(weights[some] * factors[matches])])
            left[best] = False
            offset = -(-level // self.alignment[best]) * self.alignment[best]
            offsets[self.order[best]] = offset
            lower, upper = lowers[best], int(self.upper[best])
            pieces = [(start, level)] if start < lower else []
            pieces.append((lower, offset + int(self.size[best])))
            skyline.replace(start, pieces + ([(upper, level)] if upper < end else []))
            placed += 1
            if placed % BUFFERS_PER_CLOCK == 0 and time.monotonic() > deadline:
                return None
        return offsets


def skyline_fits(buffers: Sequence[Buffer], deadline: float) -> Iterator[list[int]]:
    """Offsets, by index, one weight after the other, until time runs out; none for buffers whose
    numbers are too large."""
    if not is_small(buffers):
        return
    valleys = Valleys(buffers)
    for weight in SKYLINE_WEIGHTS:
        if time.monotonic() > deadline:
            return
        offsets = valleys.fill(weight, deadline)
        if offsets is None:
            return
        yield offsets
