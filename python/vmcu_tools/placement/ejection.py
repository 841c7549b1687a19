# SPDX-License-Identifier: Apache-2.0
"""Lowers a placement of many buffers by guided ejection search.

Input: offsets, a limit of insertions. Output: lower offsets, or none. Algorithm: buffers that end
above the next limit are removed. Each is inserted into the narrowest gap that holds it; where none
does, it replaces the buffers with the smallest weights, which are inserted elsewhere or wait. The
weight of a buffer grows each time that there is no room for it, so that the same buffers do not
eject each other for ever (Nagata and Braeysy, "A powerful route minimization heuristic for the
vehicle routing problem with time windows", Operations Research Letters 37, 2009). Complexity: an
insertion is linear in the buffers alive together.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import numpy as np

from .geometry import Geometry

# The next limit is lower by this share of the height.
DESCENT = 0.006
# How often a gap is filled from its top, and is not the narrowest one.
FROM_TOP, ANY_GAP = 0.5, 0.1
# After so many insertions, so many buffers move to another gap.
INSERTIONS_PER_SHAKE, BUFFERS_PER_SHAKE = 4, 4
# Offsets that are weighed for a buffer at most.
MOST_OFFSETS = 300
INSERTIONS_PER_CLOCK = 64


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
        self.limit = self.insertions = 0

    def run(self, goal: int, step: int, insertions: int, deadline: float) -> list[int] | None:
        """Offsets as low as so many insertions find, `goal` at the lowest, whose height is a
        multiple of `step`; None if nothing is lower than what was there."""
        best = None
        height = int((self.offset + self.size).max())
        while height > goal:
            self.limit = max(goal, (height - max(int(DESCENT * height), 1)) // step * step)
            if not self.fit(insertions, deadline):
                break
            best = self.offset.tolist()
            height = int((self.offset + self.size).max())
        return best

    def fit(self, insertions: int, deadline: float) -> bool:
        """True if all are below the limit before so many insertions are over."""
        if int(self.size.max()) > self.limit:
            return False
        waiting = np.flatnonzero(self.offset + self.size > self.limit).tolist()
        self.placed[waiting] = False
        while waiting:
            self.insertions += 1
            if self.insertions > insertions or (
                self.insertions % INSERTIONS_PER_CLOCK == 0 and time.monotonic() > deadline
            ):
                return False
            number = waiting.pop(self.dice.randrange(len(waiting)))
            if not self.insert(number):
                waiting += self.replace(number)
            if self.insertions % INSERTIONS_PER_SHAKE == 0:
                self.shake()
        return True

    def neighbours(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
        _, starts, ends = self.neighbours(number)
        low = np.zeros(len(starts) + 1, np.int64)
        low[1:] = np.maximum.accumulate(ends)
        high = np.append(starts, self.limit) - self.size[number]
        if self.aligned:
            low = self.aligned_up(low, number)
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

    def aligned_up(self, offsets: np.ndarray, number: int) -> np.ndarray:
        """The next offsets at which a buffer may lie."""
        found: np.ndarray = offsets + -offsets % self.alignment[number]
        return found

    def replace(self, number: int) -> list[int]:
        """Puts a buffer where what has to leave weighs least; those of it without another place."""
        self.weight[number] += self.area[number]
        near, starts, ends = self.neighbours(number)
        size, most = self.size[number], self.limit - self.size[number]
        places = np.concatenate([[0, most], ends, starts - size])
        if self.aligned:
            places = np.concatenate(
                [places - places % self.alignment[number], self.aligned_up(ends, number)]
            )
        places = np.unique(places[(places >= 0) & (places <= most)])
        if len(places) > MOST_OFFSETS:
            places = self.noise.choice(places, MOST_OFFSETS, False)
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
        for _ in range(BUFFERS_PER_SHAKE):
            number = self.dice.randrange(len(self.placed))
            if self.placed[number]:
                self.placed[number] = False
                if not self.insert(number):
                    self.placed[number] = True
