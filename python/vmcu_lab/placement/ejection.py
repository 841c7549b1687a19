# SPDX-License-Identifier: Apache-2.0
"""Lowers a placement of many buffers by guided ejection search.

Input: offsets, a number of insertions. Output: lower offsets, or none. Algorithm: buffers that end
above the next limit are removed. Each is inserted into the narrowest gap that holds it; where none
does, it replaces the buffers with the smallest weights, which are inserted elsewhere or wait. The
weight of a buffer grows each time that there is no room for it, so that the same buffers do not
eject each other for ever (Nagata and Braeysy, "A powerful route minimization heuristic for the
vehicle routing problem with time windows", Operations Research Letters 37, 2009). From time to
time, neighbours of the inserted buffer move to other gaps. The search ends after so many insertions
below one limit: weights need time to grow. Complexity: an insertion is linear in the buffers alive
together.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import numpy as np

from .geometry import Geometry

# The next limit is lower by this share of the height.
DESCENT = 0.002
# How often a gap is filled from its top, and is not the narrowest one.
FROM_TOP, ANY_GAP = 0.5, 0.1
# After so many insertions, so many neighbours of the last buffer move to another gap.
INSERTIONS_PER_SHAKE, BUFFERS_PER_SHAKE = 4, 4
# Offsets that are weighed for a buffer at most.
MOST_OFFSETS = 300
INSERTIONS_PER_CLOCK = 64

# Numbers of buffers by offset, their starts and their ends.
Near = tuple[np.ndarray, np.ndarray, np.ndarray]


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
        self.limit = 0

    def run(self, goal: int, step: int, insertions: int, deadline: float) -> list[int] | None:
        """Offsets as low as so many insertions below each limit find, `goal` at the lowest, whose
        height is a multiple of `step`; None if nothing is lower than before."""
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
        for done in range(insertions):
            if not waiting:
                return True
            if done % INSERTIONS_PER_CLOCK == 0 and time.monotonic() > deadline:
                return False
            number = waiting.pop(self.dice.randrange(len(waiting)))
            near = self.neighbours(number)
            if not self.insert(number, near):
                waiting += self.replace(number, near)
            if done % INSERTIONS_PER_SHAKE == 0:
                self.shake(number)
        return not waiting

    def neighbours(self, number: int) -> Near:
        """Those placed that are alive at the same time."""
        near = self.near.get(number)
        if near is None:
            both = (self.first < self.end[number]) & (self.end > self.first[number])
            both[number] = False
            near = self.near[number] = np.flatnonzero(both).astype(np.int32)
        near = near[self.placed[near]]
        starts = self.offset[near]
        order = starts.argsort(kind="stable")
        near, starts = near[order], starts[order]
        return near, starts, starts + self.size[near]

    def insert(self, number: int, near: Near) -> bool:
        """Puts a buffer into a gap between its neighbours; False if none holds it."""
        _, starts, ends = near
        low, high = np.zeros((2, len(starts) + 1), np.int64)
        np.maximum.accumulate(ends, out=low[1:])
        high[:-1], high[-1] = starts, self.limit
        high -= self.size[number]
        if self.aligned:
            low = self.aligned_up(low, number)
            high -= high % self.alignment[number]
        room = high - low
        gaps = (room >= 0).nonzero()[0]
        if not len(gaps):
            return False
        if self.dice.random() < ANY_GAP:
            gap = gaps[self.dice.randrange(len(gaps))]
        else:
            gap = gaps[room[gaps].argmin()]
        self.offset[number] = (high if self.dice.random() < FROM_TOP else low)[gap]
        self.placed[number] = True
        return True

    def aligned_up(self, offsets: np.ndarray, number: int) -> np.ndarray:
        """The next offsets at which a buffer may lie."""
        aligned: np.ndarray = offsets + -offsets % self.alignment[number]
        return aligned

    def replace(self, number: int, around: Near) -> list[int]:
        """Puts a buffer where the displaced buffers weigh least; returns those without another
        place."""
        self.weight[number] += self.area[number]
        near, starts, ends = around
        size, most = self.size[number], self.limit - self.size[number]
        places = np.concatenate(((0, most), ends, starts - size))
        if self.aligned:
            places = np.concatenate(
                [places - places % self.alignment[number], self.aligned_up(ends, number)]
            )
        places = places[(places >= 0) & (places <= most)]
        if len(places) > MOST_OFFSETS:
            places = self.noise.choice(places, MOST_OFFSETS, False)
        hit = (starts < places[:, None] + size) & (ends > places[:, None])
        cost = hit @ self.weight[near] * (1 + 0.2 * self.noise.random(len(places)))
        at = int(cost.argmin())
        left = near[hit[at]].tolist()
        self.placed[left] = False
        self.offset[number], self.placed[number] = places[at], True
        left.sort(key=lambda other: -self.area[other])
        return [other for other in left if not self.insert(other, self.neighbours(other))]

    def shake(self, number: int) -> None:
        """Sends some neighbours of a buffer to another gap, which may be the same."""
        near = self.near[number]
        for _ in range(min(BUFFERS_PER_SHAKE, len(near))):
            other = int(near[self.dice.randrange(len(near))])
            if self.placed[other]:
                self.placed[other] = False
                if not self.insert(other, self.neighbours(other)):
                    self.placed[other] = True
