# SPDX-License-Identifier: Apache-2.0
"""Placements of buffers that are not plain rectangles: with gaps in their lifetimes, or with an
offset that they have to have.

First fit in many orders: buffers that end highest are moved to the front, and what is not worse is
kept. Rounds are counted, so that without a clock the result is the same on every machine.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from .problem import Buffer, Instance, PlacementError, check

ROUNDS = 3000
# Steps of all rounds together: pairs of parts that are looked at.
MOST_STEPS = 30_000_000
SEED = 1
KEYS: tuple[Callable[[Buffer], int], ...] = (
    lambda b: -b.size,
    lambda b: -b.size * (b.upper - b.lower),
    lambda b: b.lower - b.upper,
    lambda b: b.lower,
)


class RigidError(PlacementError):
    """Two buffers whose offsets are given share bytes."""


def most_needed(buffers: Sequence[Buffer]) -> int:
    """Bytes below which no placement ends: the most needed at one moment, and given ends."""
    events = []
    for buffer in buffers:
        for part in buffer.parts():
            events += [(part.upper, part.low - part.high), (part.lower, part.high - part.low)]
    now = most = 0
    for _, change in sorted(events):
        now += change
        most = max(most, now)
    given = (b.offset + b.size for b in buffers if b.offset is not None)
    return max(most, *given, *(b.size for b in buffers), 0)


class RigidSearch:
    """Offsets by number, and the buffers that a buffer may not share bytes with."""

    def __init__(self, buffers: Sequence[Buffer]):
        self.buffers = buffers
        self.parts = [list(buffer.parts()) for buffer in buffers]
        self.others = self._others()
        self.steps = 0
        fixed = [b for b in buffers if b.offset is not None]
        try:
            check(Instance(tuple(fixed)), {b.id: b.offset or 0 for b in fixed})
        except PlacementError as error:
            raise RigidError(str(error)) from error

    def _others(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in self.buffers]
        alive: list[int] = []
        for number in sorted(range(len(self.buffers)), key=lambda n: self.buffers[n].lower):
            buffer = self.buffers[number]
            alive = [n for n in alive if self.buffers[n].upper > buffer.lower]
            for other in alive:
                found[number].append(other)
                found[other].append(number)
            alive.append(number)
        return found

    def barred(self, number: int, other: int, offset: int) -> list[tuple[int, int]]:
        """Between which offsets a buffer would share bytes with another one, ends excluded."""
        return [
            (offset + two.low - one.high, offset + two.high - one.low)
            for one in self.parts[number]
            for two in self.parts[other]
            if one.lower < two.upper and two.lower < one.upper
        ]

    def first_fit(self, order: Sequence[int], limit: int) -> tuple[list[int], int] | None:
        """Offsets and height of first fit in an order; None if it does not stay below a limit."""
        offsets: list[int | None] = [buffer.offset for buffer in self.buffers]
        height = 0
        for number in order:
            buffer = self.buffers[number]
            offset = buffer.offset
            if offset is None:
                barred = []
                for other in self.others[number]:
                    there = offsets[other]
                    if there is not None:
                        barred += self.barred(number, other, there)
                self.steps += len(barred) + 1
                offset = 0
                for low, high in sorted(barred):
                    if low < offset < high:
                        offset = -(-high // buffer.alignment) * buffer.alignment
                offsets[number] = offset
            height = max(height, offset + buffer.size)
            if height >= limit:
                return None
        return [offset or 0 for offset in offsets], height

    def run(
        self, bound: int, deadline: float, told: Callable[[int, int], None]
    ) -> tuple[list[int], int]:
        """The lowest offsets found, and their height."""
        numbers = range(len(self.buffers))
        best: tuple[list[int], int] | None = None
        order: list[int] = []
        for key in KEYS:
            weights = [key(buffer) for buffer in self.buffers]
            ranked = sorted(numbers, key=weights.__getitem__)
            found = self.first_fit(ranked, best[1] if best else 1 << 62)
            if found:
                best, order = found, ranked
        assert best is not None, "without a limit, first fit finds places"
        dice = random.Random(SEED)
        for _ in range(ROUNDS):
            told(bound, best[1])
            late = time.monotonic() > deadline or self.steps > MOST_STEPS
            if best[1] <= bound or late or len(order) < 2:
                break
            tops = [n for n in numbers if best[0][n] + self.buffers[n].size == best[1]]
            moved = dice.choice(tops) if dice.random() < 0.7 else dice.choice(order)
            tried = [n for n in order if n != moved]
            tried.insert(dice.randrange(len(tried) + 1), moved)
            # As good is taken too: a way around is often level for a while.
            found = self.first_fit(tried, best[1] + 1)
            if found:
                best, order = found, tried
        return best
