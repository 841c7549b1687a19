# SPDX-License-Identifier: Apache-2.0
"""A placement made lower by taking out what is too high and finding room for it.

What ends above a limit is taken out. One after the other is put back into the narrowest gap that
holds it; where none does, it is put where what has to leave weighs least, and that finds another
place or waits as well. Each time that there is no room for a buffer its weight grows, so that the
same ones do not eject each other for ever (guided ejection search: Nagata and Braeysy, "A powerful
route minimization heuristic for the vehicle routing problem with time windows", Operations Research
Letters 37, 2009). It gets lower where there are too many buffers for a search of all placements.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import numpy as np

from .partial import Geometry

# The next limit, below the height that has been reached.
STEP = 0.006
# How often a gap is filled from its top, and is not the narrowest one.
FROM_TOP, ANY_GAP = 0.5, 0.1
# After so many insertions, so many buffers go to another gap.
CALM, SHAKEN = 4, 4
# Places that are weighed for a buffer at most.
MOST_PLACES = 300
# How often the clock is looked at, in insertions.
CLOCK = 64


class Ejection:
    """Offsets by buffer, which of them are `placed`, and the `weight` that each has so far."""

    def __init__(self, geometry: Geometry, offsets: Sequence[int], seed: int):
        self.first = np.array(geometry.first, np.int64)
        self.end = np.array(geometry.end, np.int64)
        self.size = np.array(geometry.size, np.int64)
        self.alignment = np.array(geometry.alignment, np.int64)
        self.aligned = bool((self.alignment > 1).any())
        self.offset = np.array(offsets, np.int64)
        self.placed = np.ones(geometry.count, bool)
        self.area = (self.end - self.first).astype(float) * self.size
        self.weight = self.area.copy()
        self.dice, self.noise = random.Random(seed), np.random.default_rng(seed)
        self.near: dict[int, np.ndarray] = {}
        self.limit = self.steps = 0

    def lowered(self, goal: int, grain: int, steps: int, deadline: float) -> list[int] | None:
        """Offsets that end as low as was found with so many insertions, `goal` at the lowest; None
        if nothing is lower than what was there."""
        best = None
        height = int((self.offset + self.size).max())
        while height > goal:
            self.limit = max(goal, (height - max(int(STEP * height), 1)) // grain * grain)
            if not self.fit(steps, deadline):
                break
            best = self.offset.tolist()
            height = int((self.offset + self.size).max())
        return best

    def fit(self, steps: int, deadline: float) -> bool:
        """True if all are below the limit before so many insertions are over."""
        if int(self.size.max()) > self.limit:
            return False
        waiting = np.flatnonzero(self.offset + self.size > self.limit).tolist()
        self.placed[waiting] = False
        while waiting:
            self.steps += 1
            if self.steps > steps or (self.steps % CLOCK == 0 and time.monotonic() > deadline):
                return False
            number = waiting.pop(self.dice.randrange(len(waiting)))
            if not self.insert(number):
                waiting += self.push_in(number)
            if self.steps % CALM == 0:
                self.shake()
        return True

    def others(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Those placed that are alive at the same time, by offset, with their starts and ends."""
        near = self.near.get(number)
        if near is None:
            both = (self.first < self.end[number]) & (self.end > self.first[number])
            both[number] = False
            near = self.near[number] = np.flatnonzero(both).astype(np.int32)
        near = near[self.placed[near]]
        near = near[np.argsort(self.offset[near], kind="stable")]
        starts = self.offset[near]
        return near, starts, starts + self.size[near]

    def insert(self, number: int) -> bool:
        """Puts a buffer into a gap; False if none holds it."""
        _, starts, ends = self.others(number)
        low = np.zeros(len(starts) + 1, np.int64)
        low[1:] = np.maximum.accumulate(ends)
        high = np.append(starts, self.limit) - self.size[number]
        if self.aligned:
            low = self.up(low, number)
            high -= high % self.alignment[number]
        gaps = np.flatnonzero(high >= low)
        if not len(gaps):
            return False
        if self.dice.random() < ANY_GAP:
            gap = gaps[self.dice.randrange(len(gaps))]
        else:
            gap = gaps[np.argmin((high - low)[gaps])]
        self.offset[number] = (high if self.dice.random() < FROM_TOP else low)[gap]
        self.placed[number] = True
        return True

    def up(self, offsets: np.ndarray, number: int) -> np.ndarray:
        """The next offsets at which a buffer may lie."""
        found: np.ndarray = offsets + -offsets % self.alignment[number]
        return found

    def push_in(self, number: int) -> list[int]:
        """Puts a buffer where what has to leave weighs least; those of it without another place."""
        self.weight[number] += self.area[number]
        near, starts, ends = self.others(number)
        size, most = self.size[number], self.limit - self.size[number]
        places = np.concatenate([[0, most], ends, starts - size])
        if self.aligned:
            places = np.concatenate(
                [places - places % self.alignment[number], self.up(ends, number)]
            )
        places = np.unique(places[(places >= 0) & (places <= most)])
        if len(places) > MOST_PLACES:
            places = self.noise.choice(places, MOST_PLACES, False)
        hit = (starts < places[:, None] + size) & (ends > places[:, None])
        cost = hit @ self.weight[near] * (1 + 0.2 * self.noise.random(len(places)))
        at = int(np.argmin(cost))
        left = near[hit[at]].tolist()
        self.placed[left] = False
        self.offset[number], self.placed[number] = places[at], True
        left.sort(key=lambda other: -self.area[other])
        return [other for other in left if not self.insert(other)]

    def shake(self) -> None:
        """Sends some buffers to another gap, which may be the same."""
        for _ in range(SHAKEN):
            number = self.dice.randrange(len(self.placed))
            if self.placed[number]:
                self.placed[number] = False
                if not self.insert(number):
                    self.placed[number] = True
