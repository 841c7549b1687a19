# SPDX-License-Identifier: Apache-2.0
"""First placements: first fit, the lowest gap that holds a buffer, one buffer after the other; and
a quick one by time, for problems so large that first fit is none."""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

import numpy as np

from .problem import Buffer

ORDERS: tuple[Callable[[Buffer], int], ...] = (
    lambda b: -b.size,
    lambda b: -b.size * (b.upper - b.lower),
    lambda b: -(b.upper - b.lower),
    lambda b: -b.size * b.size * (b.upper - b.lower),
    lambda b: b.lower,
)
NO_DEADLINE = float("inf")
MOST_INT64 = 1 << 62


class _Bytes:
    """Free bytes below a top, as gaps that do not touch each other."""

    def __init__(self) -> None:
        self.sizes: list[tuple[int, int]] = []  # of gaps, with their starts, in order
        self.ends: dict[int, int] = {}  # by start
        self.starts: dict[int, int] = {}  # by end
        self.top = 0

    def take(self, size: int, alignment: int) -> int:
        """The offset of a buffer in the smallest gap that holds it wherever that begins."""
        at = bisect_left(self.sizes, (size + alignment - 1, 0))
        if at < len(self.sizes):
            start = self.sizes[at][1]
            end = self._remove(start)
        else:
            start, end = self.starts.get(self.top, self.top), None
            if start != self.top:
                self._remove(start)
        offset = -(-start // alignment) * alignment
        if end is None:
            self.top = end = offset + size
        self._add(start, offset)
        self._add(offset + size, end)
        return offset

    def give(self, start: int, end: int) -> None:
        if start in self.starts:
            before = self.starts[start]
            self._remove(before)
            start = before
        if end in self.ends:
            end = self._remove(end)
        self._add(start, end)

    def _add(self, start: int, end: int) -> None:
        if start < end:
            insort(self.sizes, (end - start, start))
            self.ends[start], self.starts[end] = end, start

    def _remove(self, start: int) -> int:
        end = self.ends.pop(start)
        del self.starts[end]
        del self.sizes[bisect_left(self.sizes, (end - start, start))]
        return end


def by_time(buffers: Sequence[Buffer]) -> list[int]:
    """Offsets, by index, when each buffer takes the smallest gap at the moment it comes to life."""
    offsets = [0] * len(buffers)
    free = _Bytes()
    alive: list[tuple[int, int]] = []
    for index in sorted(range(len(buffers)), key=lambda i: (buffers[i].lower, -buffers[i].size)):
        buffer = buffers[index]
        while alive and alive[0][0] <= buffer.lower:
            _, dead = heappop(alive)
            free.give(offsets[dead], offsets[dead] + buffers[dead].size)
        offsets[index] = free.take(buffer.size, buffer.alignment)
        heappush(alive, (buffer.upper, index))
    return offsets


def first_fit(
    buffers: Sequence[Buffer], order: Sequence[int], deadline: float = NO_DEADLINE
) -> list[int] | None:
    """Offsets, by index, when buffers are placed in this order; None if time runs out."""
    count = len(buffers)
    # No offset is larger than this; nor is a time, or it has no room in int64 either.
    most = sum(b.size + b.alignment for b in buffers)
    most = max([most, *(abs(t) for b in buffers for t in (b.lower, b.upper))])
    kind = np.int64 if most < MOST_INT64 else object
    lower, upper, start, end = (np.zeros(count, kind) for _ in range(4))
    offsets = [0] * count
    for placed, index in enumerate(order):
        if time.monotonic() > deadline:
            return None
        buffer = buffers[index]
        at_once = (lower[:placed] < buffer.upper) & (upper[:placed] > buffer.lower)
        taken = np.flatnonzero(at_once)
        taken = taken[np.argsort(start[taken], kind="stable")]
        # Where the buffer may begin at the earliest: at 0, and behind the first one, two, ... of
        # those that are alive at the same time.
        behind = -(-end[taken] // buffer.alignment) * buffer.alignment
        begins = np.concatenate([np.zeros(1, kind), np.maximum.accumulate(behind)])
        fits = np.flatnonzero(start[taken] - begins[:-1] >= buffer.size)
        offset = int(begins[fits[0]] if len(fits) else begins[-1])
        offsets[index] = offset
        lower[placed], upper[placed] = buffer.lower, buffer.upper
        start[placed], end[placed] = offset, offset + buffer.size
    return offsets


def height_of(buffers: Sequence[Buffer], offsets: Sequence[int]) -> int:
    """The end, in bytes, of the highest buffer."""
    return max(o + b.size for o, b in zip(offsets, buffers, strict=True))


def best_first_fit(buffers: Sequence[Buffer], deadline: float = NO_DEADLINE) -> list[int] | None:
    """The lowest first fit over a few orders: by size, by area, by lifetime. None if there was
    time for none."""
    indices = range(len(buffers))
    found = []
    for key in ORDERS:
        offsets = first_fit(buffers, sorted(indices, key=lambda i: key(buffers[i])), deadline)
        if offsets is None:
            break
        found.append(offsets)
    return min(found, key=lambda offsets: height_of(buffers, offsets), default=None)
