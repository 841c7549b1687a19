# SPDX-License-Identifier: Apache-2.0
"""Placements of buffers with gaps in their lifetimes or with given offsets.

Input: buffers. Output: offsets. Algorithm: first fit in many orders, a local search: a buffer,
mostly one that ends highest, moves to another place of the order; an order that is not worse is
kept. Complexity: a first fit is quadratic in buffers alive together; the work is limited by
PlacementParams, so the result is the same on every machine unless a clock ends the search.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence

from .params import PlacementParams
from .problem import Buffer, Instance, PlacementError, check

ORDERS: tuple[Callable[[Buffer], int], ...] = (
    lambda b: -b.size,
    lambda b: -b.size * (b.upper - b.lower),
    lambda b: b.lower - b.upper,
    lambda b: b.lower,
)


class FixedOffsetError(PlacementError):
    """Two buffers whose offsets are given share bytes."""


class FirstFitSearch:
    """Buffers by number. `neighbours`: those that are alive together with each; `steps`: pairs of
    parts compared so far."""

    def __init__(self, buffers: Sequence[Buffer], params: PlacementParams):
        self.buffers, self.params = buffers, params
        self.parts = [list(buffer.parts()) for buffer in buffers]
        self.neighbours = self._neighbours()
        self.steps = 0
        fixed = [b for b in buffers if b.offset is not None]
        try:
            check(Instance(tuple(fixed)), {b.id: b.offset or 0 for b in fixed})
        except PlacementError as error:
            raise FixedOffsetError(str(error)) from error

    def _neighbours(self) -> list[list[int]]:
        neighbours: list[list[int]] = [[] for _ in self.buffers]
        alive: list[int] = []
        for number in sorted(range(len(self.buffers)), key=lambda n: self.buffers[n].lower):
            buffer = self.buffers[number]
            alive = [n for n in alive if self.buffers[n].upper > buffer.lower]
            for other in alive:
                neighbours[number].append(other)
                neighbours[other].append(number)
            alive.append(number)
        return neighbours

    def conflicts(self, number: int, other: int, offset: int) -> list[tuple[int, int]]:
        """Between which offsets a buffer would share bytes with another one, ends excluded."""
        return [
            (offset + two.low - one.high, offset + two.high - one.low)
            for one in self.parts[number]
            for two in self.parts[other]
            if one.lower < two.upper and two.lower < one.upper
        ]

    def first_fit(self, order: Sequence[int], limit: float) -> tuple[list[int], int] | None:
        """Offsets and height of first fit in an order; None if it does not stay below a limit."""
        offsets: list[int | None] = [buffer.offset for buffer in self.buffers]
        height = 0
        for number in order:
            buffer = self.buffers[number]
            offset = buffer.offset
            if offset is None:
                conflicts = []
                for other in self.neighbours[number]:
                    there = offsets[other]
                    if there is not None:
                        conflicts += self.conflicts(number, other, there)
                self.steps += len(conflicts) + 1
                offset = 0
                for low, high in sorted(conflicts):
                    if low < offset < high:
                        offset = -(-high // buffer.alignment) * buffer.alignment
                offsets[number] = offset
            height = max(height, offset + buffer.size)
            if height >= limit:
                return None
        return [offset or 0 for offset in offsets], height

    def run(
        self, bound: int, deadline: float, watch: Callable[[int, int], None]
    ) -> tuple[list[int], int]:
        """The lowest offsets found, and their height."""
        numbers = range(len(self.buffers))
        best: tuple[list[int], int] | None = None
        order: list[int] = []
        for key in ORDERS:
            weights = [key(buffer) for buffer in self.buffers]
            ranked = sorted(numbers, key=weights.__getitem__)
            offsets = self.first_fit(ranked, best[1] if best else math.inf)
            if offsets:
                best, order = offsets, ranked
        assert best is not None, "without a limit, first fit finds offsets"
        dice = random.Random(self.params.seed)
        for _ in range(self.params.first_fit_rounds):
            watch(bound, best[1])
            late = time.monotonic() > deadline or self.steps > self.params.first_fit_steps
            if best[1] <= bound or late or len(order) < 2:
                break
            tops = [n for n in numbers if best[0][n] + self.buffers[n].size == best[1]]
            moved = dice.choice(tops) if dice.random() < 0.7 else dice.choice(order)
            tried = [n for n in order if n != moved]
            tried.insert(dice.randrange(len(tried) + 1), moved)
            # An equal height is accepted, too: it may lead to a lower one.
            offsets = self.first_fit(tried, best[1] + 1)
            if offsets:
                best, order = offsets, tried
        return best
