# SPDX-License-Identifier: Apache-2.0
"""A placement problem, its solution, and the check that neither the search nor its speed can fool.

A buffer has a lifetime [lower, upper) and a size; two buffers alive at the same time share no
byte. Wanted are offsets that make the highest byte in use as low as possible. In a gap of its
lifetime a buffer needs no bytes, or those of a window only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple


@dataclass(frozen=True)
class Gap:
    """Moments [lower, upper) of a lifetime in which a buffer needs its bytes [low, high) only."""

    lower: int
    upper: int
    low: int = 0
    high: int = 0


class BufferPart(NamedTuple):
    """The bytes [low, high) that a buffer needs from `lower` until just before `upper`."""

    lower: int
    upper: int
    low: int
    high: int


@dataclass(frozen=True)
class Buffer:
    """`size` bytes, alive from `lower` until just before `upper`, but for `gaps`, which follow each
    other and do not touch. `offset`: where it has to lie, None for anywhere. `accesses`: how often
    it is loaded and stored, which matters where there are several memories."""

    id: str
    lower: int
    upper: int
    size: int
    alignment: int = 1
    gaps: tuple[Gap, ...] = ()
    offset: int | None = None
    accesses: int = 0

    @property
    def is_rigid(self) -> bool:
        """Whether it is neither a plain rectangle of moments and bytes nor free to lie anywhere."""
        return bool(self.gaps) or self.offset is not None

    def parts(self) -> Iterator[BufferPart]:
        """The rectangles of moments and bytes that it takes, from its offset on."""
        at = self.lower
        for gap in self.gaps:
            if at < gap.lower:
                yield BufferPart(at, gap.lower, 0, self.size)
            if gap.low < gap.high:
                yield BufferPart(gap.lower, gap.upper, gap.low, gap.high)
            at = gap.upper
        if at < self.upper:
            yield BufferPart(at, self.upper, 0, self.size)

    def overlaps(self, other: Buffer) -> bool:
        """True if there is a moment at which both are alive."""
        return self.lower < other.upper and other.lower < self.upper


@dataclass(frozen=True)
class Instance:
    """`ignored`: data of the file about a buffer that has no bearing on a placement."""

    buffers: tuple[Buffer, ...]
    origin: str = ""
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Allocation:
    """Offsets by buffer id.

    `bound`: no placement is lower, as far as proven. `is_interrupted`: the search was ended before
    its time.
    """

    offsets: dict[str, int]
    height: int
    bound: int
    seconds: float
    is_interrupted: bool = False

    @property
    def is_optimal(self) -> bool:
        """True if no allocation can be lower."""
        return self.height == self.bound

    @property
    def gap(self) -> float:
        """Returns the most by which the height may exceed the best one, as a fraction of the
        bound."""
        return self.height / self.bound - 1 if self.bound else 0.0


class PlacementError(Exception):
    """Offsets that the check rejects: a defect of the search, never of the user's problem."""


def check(problem: Instance, offsets: Mapping[str, int]) -> int:
    """The height of a placement; raises PlacementError if it is none."""
    if offsets.keys() != {buffer.id for buffer in problem.buffers}:
        raise PlacementError("the buffers with an offset are not those of the problem")
    height = 0
    placed: list[tuple[int, int, int, int, Buffer]] = []
    for buffer in problem.buffers:
        offset = offsets[buffer.id]
        if offset < 0 or offset % buffer.alignment or buffer.offset not in (None, offset):
            raise PlacementError(f"buffer '{buffer.id}' cannot be at offset {offset}")
        height = max(height, offset + buffer.size)
        placed += [
            (part.lower, part.upper, offset + part.low, offset + part.high, buffer)
            for part in buffer.parts()
            if part.low < part.high
        ]
    placed.sort(key=lambda part: part[0])
    alive: list[tuple[int, int]] = []  # start and number, from the bottom up
    ends: list[tuple[int, int, int]] = []  # of lifetimes, with the same
    for number, (lower, upper, start, end, buffer) in enumerate(placed):
        while ends and ends[0][0] <= lower:
            _, *place = heappop(ends)
            del alive[bisect_left(alive, tuple(place))]
        at = bisect_left(alive, (start, number))
        # None of those alive share a byte: a buffer that shares one with this is next to it.
        for low, other in alive[max(0, at - 1) : at + 1]:
            if start < placed[other][3] and low < end:
                raise PlacementError(
                    f"buffers '{placed[other][4].id}' at {low} and '{buffer.id}' at {start} share "
                    "bytes"
                )
        alive.insert(at, (start, number))
        heappush(ends, (upper, start, number))
    return height
