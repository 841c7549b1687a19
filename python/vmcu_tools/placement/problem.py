# SPDX-License-Identifier: Apache-2.0
"""A placement problem, its solution, and the check that neither the search nor its speed can fool.

A buffer has a lifetime [lower, upper) and a size; two buffers alive at the same time share no
byte. Wanted are offsets that make the highest byte in use as low as possible.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush


@dataclass(frozen=True)
class Buffer:
    """`size` bytes, alive from `lower` until just before `upper`."""

    id: str
    lower: int
    upper: int
    size: int
    alignment: int = 1

    def overlaps(self, other: Buffer) -> bool:
        """True if there is a moment at which both are alive."""
        return self.lower < other.upper and other.lower < self.upper


@dataclass(frozen=True)
class Instance:
    """`ignored`: what the file says about a buffer and has no bearing on a placement."""

    buffers: tuple[Buffer, ...]
    origin: str = ""
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Allocation:
    """Offsets by buffer id.

    `bound`: no placement is lower, as far as proven. `optimal`: `height` equals it. `interrupted`:
    somebody ended the search before its time.
    """

    offsets: dict[str, int]
    height: int
    bound: int
    seconds: float
    interrupted: bool = False

    @property
    def optimal(self) -> bool:
        """True if no allocation can be lower."""
        return self.height == self.bound

    @property
    def gap(self) -> float:
        """How far the height may be from the best one, as a fraction of the bound."""
        return self.height / self.bound - 1 if self.bound else 0.0


class PlacementError(Exception):
    """Offsets that the check rejects: a defect of the search, never of the user's problem."""


def check(problem: Instance, offsets: Mapping[str, int]) -> int:
    """The height of a placement; raises PlacementError if it is none."""
    if offsets.keys() != {buffer.id for buffer in problem.buffers}:
        raise PlacementError("the buffers with an offset are not those of the problem")
    alive: list[tuple[int, int]] = []  # offset and number, from the bottom up
    ends: list[tuple[int, int, int]] = []  # of lifetimes, with the same
    height = 0
    buffers = problem.buffers
    for number in sorted(range(len(buffers)), key=lambda n: buffers[n].lower):
        buffer = buffers[number]
        offset = offsets[buffer.id]
        if offset < 0 or offset % buffer.alignment:
            raise PlacementError(f"buffer '{buffer.id}' cannot be at offset {offset}")
        height = max(height, offset + buffer.size)
        if not buffer.size:
            continue
        while ends and ends[0][0] <= buffer.lower:
            _, *place = heappop(ends)
            del alive[bisect_left(alive, tuple(place))]
        at = bisect_left(alive, (offset, number))
        # None of those alive share a byte: whoever shares one with this is next to it.
        for start, other in alive[max(0, at - 1) : at + 1]:
            if offset < start + buffers[other].size and start < offset + buffer.size:
                raise PlacementError(
                    f"buffers '{buffers[other].id}' at {start} and '{buffer.id}' at {offset} share "
                    "bytes"
                )
        alive.insert(at, (offset, number))
        heappush(ends, (buffer.upper, offset, number))
    return height
