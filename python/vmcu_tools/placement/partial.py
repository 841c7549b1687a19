# SPDX-License-Identifier: Apache-2.0
"""What a search among placements knows: when buffers are alive, and where it has put them.

A section is a stretch of moments at which the same buffers are alive; sizes, offsets, levels and
slack are in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from .problem import Buffer

# Above every level that a skyline can have.
INFINITE = 1 << 62


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
        """For each section, and the end, what is there from `starts` until a buffer's end."""
        change = [0] * (self.sections + 2)
        for start, end, amount in zip(starts, self.end, amounts, strict=True):
            change[start] += amount
            change[end] -= amount
        return list(accumulate(change[:-1]))

    def fullest(self) -> list[int]:
        """The most bytes alive at a moment of each buffer's lifetime."""
        kind = np.int64 if max(self.live, default=0) < INFINITE else object
        # Row k: the most over 2**k sections from each one on.
        rows = [np.array(self.live, kind)]
        while 2 << (len(rows) - 1) <= self.sections:
            row, half = rows[-1], 1 << (len(rows) - 1)
            rows.append(np.maximum(row[:-half], row[half:]))
        spans = [
            (end - first).bit_length() - 1 for first, end in zip(self.first, self.end, strict=True)
        ]
        return [
            int(max(rows[k][first], rows[k][end - (1 << k)]))
            for k, first, end in zip(spans, self.first, self.end, strict=True)
        ]


class PartialAllocation:
    """Where buffers are, what that leaves free, and how to take it back. `height`: what they may
    take; `order`: the buffers, those to be tried first in front."""

    def __init__(self, geometry: Geometry, height: int, order: Sequence[int]):
        self.g = geometry
        self.rank = [0] * geometry.count
        self.starting: list[list[int]] = [[] for _ in range(geometry.sections)]
        # Equal buffers are placed in one order only: the next one after its twin.
        self.twin = [-1] * geometry.count
        last: dict[tuple[int, int, int, int], int] = {}
        for rank, b in enumerate(order):
            self.rank[b] = rank
            self.starting[geometry.first[b]].append(b)
            shape = (geometry.first[b], geometry.end[b], geometry.size[b], geometry.alignment[b])
            self.twin[b] = last.get(shape, -1)
            last[shape] = b
        self.aligned = any(a > 1 for a in geometry.alignment)
        self.slack = [height - live for live in geometry.live]
        self.crossings = geometry.crossings[:]
        self.placed = [False] * geometry.count
        self.offset = [0] * geometry.count
        # The floor at which a buffer's turn is over: it has been tried there.
        self.barred = [-1] * geometry.count
        self.unplaced = (1 << geometry.count) - 1
        self.undo: list[tuple[int, int, int]] = []
        self.bars = 0  # a hash of what is barred where

    def top(self, b: int, floor: int) -> int:
        """Where a buffer on this floor ends."""
        return floor + -floor % self.g.alignment[b] + self.g.size[b]

    def put(self, b: int, top: int) -> bool:
        """Places a buffer that ends at `top`; True if that cuts a component in two."""
        if self.barred[b] >= 0:
            self.bars ^= hash((b, self.barred[b]))
        self.undo.append((-1, b, 0))
        self.placed[b] = True
        self.offset[b] = top - self.g.size[b]
        self.unplaced ^= 1 << b
        cut = False
        crossings = self.crossings
        for s in range(self.g.first[b] + 1, self.g.end[b]):
            crossings[s] -= 1
            if not crossings[s]:
                cut = True
        return cut

    def waste(self, start: int, end: int, amount: int) -> None:
        """Gives up so many bytes of the sections [start, end)."""
        slack = self.slack
        for s in range(start, end):
            slack[s] -= amount
        self.undo.append((start, end, amount))

    def bar(self, b: int, floor: int) -> None:
        """Ends a buffer's turn on a floor."""
        self.undo.append((-2, b, self.barred[b]))
        if self.barred[b] >= 0:
            self.bars ^= hash((b, self.barred[b]))
        self.barred[b] = floor
        self.bars ^= hash((b, floor))

    def rewind(self, mark: int) -> None:
        """Undoes everything after a mark."""
        while len(self.undo) > mark:
            what, b, value = self.undo.pop()
            if what >= 0:
                for s in range(what, b):
                    self.slack[s] += value
            elif what == -1:
                self.placed[b] = False
                self.unplaced ^= 1 << b
                for s in range(self.g.first[b] + 1, self.g.end[b]):
                    self.crossings[s] += 1
                if self.barred[b] >= 0:
                    self.bars ^= hash((b, self.barred[b]))
            else:
                self.bars ^= hash((b, self.barred[b]))
                self.barred[b] = value
                if value >= 0:
                    self.bars ^= hash((b, value))
