# SPDX-License-Identifier: Apache-2.0
"""Placement in a circular pool of given size, by guided ejection search.

Input: pieces, a size, a number of insertions. Output: offsets, or None. Algorithm: a piece is
inserted at one of the bases at which it touches another piece or an end of the pool, in one of the
directions of its step: where the pieces that are in its way weigh least. Those are ejected and
inserted next. The weight of a piece grows each time that it ejects others, so that the same pieces
do not eject each other for ever (placement/ejection.py has the same for linear pools). A long
search seldom succeeds, so it starts again from time to time. Complexity: an insertion is quadratic
in the pieces alive together.

In a circular pool two pieces have two distances, one each way round. A pair whose base_live -
base_new must be at least `below` or at most `above` (see overlap.Clearance) therefore excludes one
range of distances modulo the pool.

Sums of weights are sums of whole numbers, and random numbers are those of Python's generator, which
NumPy has too: each machine finds the same offsets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .pieces import Piece, scratch_of, with_scratch_apart
from .sequential import SequentialPlacement

SEED = [1]
# After so many insertions, and so many for each piece, the search starts again.
ROUND_INSERTIONS, ROUND_PIECE_INSERTIONS = 400, 5
# The weight that a piece gains when it ejects others; at first the largest piece has about as much.
WEIGHT_STEP = 64


class CircularPool:
    """The search for bases of a list of pieces in a pool of `size` bytes. near: by piece the
    numbers of those that it may not be everywhere beside; low, high: by piece and direction of its
    step, the first and last excluded distance to each of them."""

    def __init__(self, pieces: Sequence[Piece], size: int):
        self.pieces, self.size = pieces, size
        self.items = with_scratch_apart(pieces)
        count = len(self.items)
        self.bases, self.placed = np.zeros(count, np.int64), np.zeros(count, bool)
        self.ways = [0] * count
        self.dice = np.random.RandomState(SEED)
        self._relate()

    def _relate(self) -> None:
        """Finds the excluded distances, and by piece with two directions the places in the arrays
        of others that depend on its own."""
        numbers = {item.name: number for number, item in enumerate(self.items)}
        ids: list[list[int]] = [[] for _ in self.items]
        ranges: list[list[list[tuple[int, int]]]] = [[[] for _ in item.ways] for item in self.items]
        self.turning: list[list[tuple[int, int, list[tuple[int, int]]]]] = [[] for _ in self.items]
        for new, item in enumerate(self.items):
            for at, live in enumerate(item.ways[0].live):
                held = numbers[live.name]
                clearances = [way.live[at].clearance for way in item.ways]
                for own, one in zip(ranges[new], clearances, strict=True):
                    own.append((1 - one.below, -1 - one.above))
                excluded = [(1 + one.above, one.below - 1) for one in clearances]
                for other in ranges[held]:
                    other.append(excluded[0])
                if len(excluded) > 1:
                    self.turning[new].append((held, len(ids[held]), excluded))
                ids[new].append(held)
                ids[held].append(new)
        self.near = [np.array(one, np.int64) for one in ids]
        tables = [np.array(one, np.int64).reshape(len(one), -1, 2) for one in ranges]
        self.low = [table[:, :, 0] for table in tables]
        self.high = [table[:, :, 1] for table in tables]

    def solve(self, insertions: int) -> SequentialPlacement | None:
        """A placement, None if none was found with so many insertions."""
        one_round = ROUND_INSERTIONS + ROUND_PIECE_INSERTIONS * len(self.items)
        for start in range(0, insertions, one_round):
            if self.solve_round(min(one_round, insertions - start)):
                return self._found()
        return None

    def solve_round(self, insertions: int) -> bool:
        """Starts again, the large pieces first; True if all are placed after so many insertions."""
        waiting = sorted(range(len(self.items)), key=lambda number: self.items[number].size)
        most = max((item.size for item in self.items), default=0) or 1
        self.weights = np.array([1.0 + item.size * WEIGHT_STEP // most for item in self.items])
        self.placed[:] = False
        for _ in range(insertions):
            if not waiting:
                break
            waiting += self.insert(waiting.pop())
        return not waiting

    def insert(self, number: int) -> list[int]:
        """Puts a piece where what has to leave weighs least; returns what leaves."""
        item = self.items[number]
        placed = self.placed[self.near[number]]
        near = self.near[number][placed]
        weights, bases = self.weights[near], self.bases[near]
        least, lightest = np.inf, (0, 0, near)
        for way in range(len(item.ways)):
            start = bases + self.low[number][way][placed]
            length = self.high[number][way][placed] - self.low[number][way][placed]
            places = self.candidates(item, np.concatenate((start - 1, start + length + 1)))
            behind = places[:, None] - start % self.size
            hit = behind + (behind < 0) * self.size <= length
            noise = self.dice.random_sample(len(places))
            # A whole number times noise of 1 to 2: free places come before all others.
            cost = (1.0 + hit @ weights) * (1.0 + noise)
            at = int(cost.argmin())
            if cost[at] < least:
                least, lightest = cost[at], (way, int(places[at]), near[hit[at]])
        self.ways[number], self.bases[number], ejected = lightest
        self.placed[number] = True
        for held, at, excluded in self.turning[number]:
            self.low[held][:, at], self.high[held][:, at] = excluded[self.ways[number]]
        if len(ejected):
            self.weights[number] += WEIGHT_STEP
            self.placed[ejected] = False
        return [int(one) for one in ejected]

    def candidates(self, item: Piece, touching: np.ndarray) -> np.ndarray:
        """Bases at which a piece touches something; of one that would reach around the pool's end,
        the nearest with an edge of a row there."""
        pool, last = self.size, self.size - item.size
        bases = np.concatenate((touching % pool, (0, last)))
        if item.align > 1:
            bases = np.concatenate((bases - bases % item.align, bases + -bases % item.align))
        around = bases > last
        if item.whole or not around.any():
            return bases[~around]
        left = pool - bases[around]
        rows = np.concatenate((left // item.stride, -(-left // item.stride)))
        bases = np.concatenate((bases[~around], pool - rows * item.stride))
        return np.asarray(bases[(bases >= 0) & (bases < pool) & (bases % item.align == 0)])

    def _found(self) -> SequentialPlacement:
        search = SequentialPlacement(self.pieces, self.size, True)
        bases = {item.name: int(base) for item, base in zip(self.items, self.bases, strict=True)}
        turned = {
            item.name: item.ways[way].descending
            for item, way in zip(self.items, self.ways, strict=True)
        }
        for piece in self.pieces:
            search.bases[piece.name] = bases[piece.name]
            search.descending[piece.name] = turned[piece.name]
            if piece.scratch:
                search.scratch[piece.name] = bases[scratch_of(piece.name)]
        return search


def fits(pieces: Sequence[Piece], size: int, insertions: int) -> SequentialPlacement | None:
    """A placement in a circle of `size` bytes, if one is found with so many insertions."""
    if any(max(piece.size, piece.scratch) > size for piece in pieces):
        return None
    return CircularPool(pieces, size).solve(insertions)


def smallest(
    pieces: Sequence[Piece], least: int, most: int, insertions: int
) -> SequentialPlacement | None:
    """A placement in the smallest circle found of less than `most` bytes, by bisection; None if
    there is none."""
    best = None
    while least < most:
        size = (least + most) // 2
        placement = fits(pieces, size, insertions)
        if placement is None:
            least = size + 1
        else:
            best, most = placement, size
    return best
