# SPDX-License-Identifier: Apache-2.0
"""Placements bottom up along the skyline, a buffer at a time and none taken back.

The lowest valley of the skyline gets the buffer that suits it best, or is raised to its lower
neighbour where none is alive within it only (Sekiyama et al., "Profile-guided memory optimization
for deep neural networks", arXiv:1804.10001, which takes the longest lifetime; here others too, and
buffers that fit the valley's walls first). Some ten microseconds a buffer, for any number of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from .problem import Buffer

# What suits best: powers of lifetime and size, and a factor for each wall that is matched.
TASTES = ((2, 1, 2.5), (1, 0, 150.0), (1, 2, 150.0), (1, 1, 2.5), (1, 0, 2.5), (2, 1, 150.0))
# How often the clock is looked at, in buffers.
STEPS = 256
MOST_INT64 = 1 << 62


class Skyline:
    """Stretches of time [start, end) with a level; those next to each other differ. `links`: by
    start the end, the level, and the starts before and after; `heap`: the lowest first, with
    stretches that are no more."""

    def __init__(self, start: int, end: int):
        self.links: dict[int, list[int | None]] = {start: [end, 0, None, None]}
        self.heap: list[Any] = [(0, start, end)]

    def lowest(self) -> tuple[int, int, int]:
        """Level, start and end of the lowest stretch, the first among equals."""
        while True:
            level, start, end = heappop(self.heap)
            link = self.links.get(start)
            if link is not None and link[0] == end and link[1] == level:
                return level, start, end

    def walls(self, start: int) -> tuple[int | None, int | None]:
        """The levels before and after a stretch, None at the ends of time."""
        _, _, before, after = self.links[start]
        return (
            None if before is None else self.links[before][1],
            None if after is None else self.links[after][1],
        )

    def replace(self, start: int, pieces: list[tuple[int, int, int]]) -> None:
        """Puts pieces (start, end, level) in the place of a stretch."""
        _, _, last, after = self.links.pop(start)
        for begin, end, level in pieces:
            self.links[begin] = [end, level, last, None]
            if last is not None:
                self.links[last][3] = begin
            last = begin
        assert last is not None, "a stretch is replaced by something"
        self.links[last][3] = after
        if after is not None:
            self.links[after][2] = last
        for begin, _, _ in pieces:
            if begin in self.links:
                self.join(begin)

    def join(self, start: int) -> None:
        """Makes one of a stretch and those next to it that are as high."""
        link = self.links[start]
        before, after = link[2], link[3]
        if after is not None and self.links[after][1] == link[1]:
            link[0], link[3] = self.links[after][0], self.links[after][3]
            if link[3] is not None:
                self.links[link[3]][2] = start
            del self.links[after]
        if before is not None and self.links[before][1] == link[1]:
            self.links[before][0], self.links[before][3] = link[0], link[3]
            if link[3] is not None:
                self.links[link[3]][2] = before
            del self.links[start]
            start, link = before, self.links[before]
        heappush(self.heap, (link[1], start, link[0]))


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

    def fill(self, taste: tuple[int, int, float], deadline: float) -> list[int] | None:
        """Offsets by buffer; None if time runs out."""
        life, size, factor = taste
        worth = (self.upper - self.lower).astype(float) ** life * self.size.astype(float) ** size
        factors = np.array([factor**matches for matches in range(5)])
        skyline = Skyline(int(self.lower.min()), int(self.upper.max()))
        left = np.ones(len(self.order), bool)
        offsets = [0] * len(self.order)
        placed = 0
        while placed < len(self.order):
            level, start, end = skyline.lowest()
            first, last = np.searchsorted(self.lower, (start, end))
            within = left[first:last] & (self.upper[first:last] <= end)
            some = np.flatnonzero(within) + first
            walls = skyline.walls(start)
            if not len(some):
                higher = min(wall for wall in walls if wall is not None)
                skyline.replace(start, [(start, end, higher)])
                continue
            at_start, at_end = self.lower[some] == start, self.upper[some] == end
            matches = at_start.astype(np.int64) + at_end
            for at, wall in zip((at_start, at_end), walls, strict=True):
                if wall is not None:
                    matches += at & (self.size[some] == wall - level)
            best = int(some[np.argmax(worth[some] * factors[matches])])
            left[best] = False
            offset = -(-level // self.alignment[best]) * self.alignment[best]
            offsets[self.order[best]] = offset
            lower, upper = int(self.lower[best]), int(self.upper[best])
            pieces = [(start, lower, level), (lower, upper, offset + int(self.size[best]))]
            pieces.append((upper, end, level))
            skyline.replace(start, [piece for piece in pieces if piece[0] < piece[1]])
            placed += 1
            if placed % STEPS == 0 and time.monotonic() > deadline:
                return None
        return offsets


def fills(buffers: Sequence[Buffer], deadline: float) -> Iterator[list[int]]:
    """Offsets, by index, one taste after the other, until time runs out; none for buffers whose
    numbers are too large."""
    numbers = (abs(n) for b in buffers for n in (b.lower, b.upper))
    if max([sum(b.size + b.alignment for b in buffers), *numbers]) > MOST_INT64:
        return
    valleys = Valleys(buffers)
    for taste in TASTES:
        if time.monotonic() > deadline:
            return
        offsets = valleys.fill(taste, deadline)
        if offsets is None:
            return
        yield offsets
