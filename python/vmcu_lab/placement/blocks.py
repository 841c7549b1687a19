# SPDX-License-Identifier: Apache-2.0
"""Joins buffers to blocks, so that a search has fewer of them to place.

Input: buffers. Output: blocks with their parts, or none. Algorithm: greedy agglomeration. Two
buffers of the same lifetime may lie on top of each other, and two of the same size, of which one
begins when the other ends, at the same offset. Pairs are joined again and again, the largest
first: it is least likely that these fit by chance. Blocks undo every guillotine cut of a rectangle;
elsewhere some may be wrong, so there are several tries with noise, and offsets of buffers are
searched for as well. Complexity: n log n for each try.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from .params import PlacementParams
from .problem import Buffer

# How much rarer it is that sizes are equal by chance than that lifetimes are: it depends on how
# fine they are.
SIZE_BIASES = (16.0, 1.0, 0.5, 0.25, 4.0, 64.0)
BLOCK_DEVIATIONS = (0.0, 0.1, 0.3)
# A stack as high as a neighbour is much rarer by chance. So many of a lifetime are tried in pairs.
PAIR_FACTOR, MOST_PAIRED, MOST_EQUAL = 1000.0, 8, 4

Shape = tuple[int, int, int, int]  # lower, upper, size, alignment
Pair = tuple[int, int]
# In place of the other one: whichever is of the same lifetime, or of the same size next to it.
STACK, CHAIN = -1, -2


@dataclass(frozen=True)
class Blocks:
    """`shapes` of buffers and blocks by number, buffers first; `parts`: of each block the numbers
    of two, and by how much the second is above it; `roots`: those that are part of no block."""

    shapes: list[Shape]
    parts: list[tuple[int, int, int]]
    roots: list[int]

    def buffers(self) -> list[Buffer]:
        """The roots as buffers."""
        return [Buffer(str(root), *self.shapes[root]) for root in self.roots]

    def unfold(self, offsets: Sequence[int]) -> tuple[int, ...]:
        """The offsets of the buffers, from those of the roots."""
        unfolded = [0] * len(self.shapes)
        for root, offset in zip(self.roots, offsets, strict=True):
            unfolded[root] = offset
        first = len(self.shapes) - len(self.parts)
        for number in range(len(self.parts) - 1, -1, -1):
            below, above, shift = self.parts[number]
            unfolded[below] = unfolded[first + number]
            unfolded[above] = unfolded[first + number] + shift
        return tuple(unfolded[:first])


class Builder:
    """Puts buffers together. The candidates are on a heap, the rarest first."""

    def __init__(
        self,
        buffers: Sequence[Buffer],
        bias: float,
        noise: float,
        paired: bool,
        dice: random.Random,
    ):
        self.dice, self.noise, self.paired = dice, noise, paired
        length = max(b.upper for b in buffers) - min(b.lower for b in buffers)
        area = sum(b.size * (b.upper - b.lower) for b in buffers)
        self.per_size, self.per_life = bias * length / area, 1 / length
        self.shapes: list[Shape] = []
        self.parts: list[tuple[int, int, int]] = []
        self.alive: list[bool] = []
        self.lives: dict[Shape, dict[int, None]] = {}
        self.begins: dict[Shape, dict[int, None]] = {}
        self.ends: dict[Shape, dict[int, None]] = {}
        self.sums: tuple[dict[Shape, list[Pair]], dict[Shape, list[Pair]]] = ({}, {})
        self.heap: list[tuple[float, int, int]] = []
        for b in buffers:
            self.add((b.lower, b.upper, b.size, b.alignment))

    def keys(self, shape: Shape) -> Iterator[tuple[dict[Shape, dict[int, None]], Shape]]:
        """The indices with a shape's key in each: same lifetime, same size from or until when."""
        lower, upper, size, alignment = shape
        yield self.lives, (lower, upper, 0, alignment)
        yield self.begins, (lower, 0, size, alignment)
        yield self.ends, (0, upper, size, alignment)

    def add(self, shape: Shape) -> None:
        """Adds another one, and the pairs that it may form."""
        number = len(self.shapes)
        self.shapes.append(shape)
        self.alive.append(True)
        for index, key in self.keys(shape):
            index.setdefault(key, {})[number] = None
        lower, upper, size, alignment = shape
        same = self.lives[lower, upper, 0, alignment]
        if len(same) > 1:
            self.offer((upper - lower) * self.per_life, number, STACK)
        if self.neighbours(number):
            self.offer(size * self.per_size, number, CHAIN)
        if not self.paired:
            return
        begins, ends = self.sums
        for key, sums in (
            ((0, lower, size, alignment), ends),
            ((upper, 0, size, alignment), begins),
        ):
            for pair in sums.get(key, ()):
                self.offer(PAIR_FACTOR * size * self.per_size, *pair)
        if 1 < len(same) <= MOST_PAIRED:
            for other in same:
                if other != number:
                    self.pair(number, other)

    def pair(self, one: int, other: int) -> None:
        """Two that might be a stack: it is one if there is a neighbour, or other two, as high."""
        lower, upper, size, alignment = self.shapes[one]
        size += self.shapes[other][2]
        start, end = (lower, 0, size, alignment), (0, upper, size, alignment)
        before, after = (0, lower, size, alignment), (upper, 0, size, alignment)
        begins, ends = self.sums
        candidates = [*ends.get(before, ()), *begins.get(after, ())]
        if candidates or before in self.ends or after in self.begins:
            for pair in ((one, other), *candidates):
                self.offer(PAIR_FACTOR * size * self.per_size, *pair)
        for sums, key in ((begins, start), (ends, end)):
            pairs = sums.setdefault(key, [])
            pairs.append((one, other))
            del pairs[:-MOST_EQUAL]

    def offer(self, rarity: float, number: int, other: int) -> None:
        """Puts one, or two, on the heap."""
        if other < 0 or (self.alive[number] and self.alive[other]):
            noise = self.dice.lognormvariate(0, self.noise) if self.noise else 1.0
            heappush(self.heap, (-rarity * noise, number, other))

    def neighbours(self, number: int) -> list[int]:
        """Those of the same size that end when it begins, or begin when it ends."""
        lower, upper, size, alignment = self.shapes[number]
        before = self.ends.get((0, lower, size, alignment), ())
        return [*before, *self.begins.get((upper, 0, size, alignment), ())]

    def run(self) -> Blocks:
        """Combines the shapes that fit until none does."""
        while self.heap:
            _, number, other = heappop(self.heap)
            if not self.alive[number]:
                continue
            if other >= 0:
                others = [other] if self.alive[other] else []
            elif other == STACK:
                lower, upper, _, alignment = self.shapes[number]
                same = self.lives[lower, upper, 0, alignment]
                others = [one for one in same if one != number]
            else:
                others = self.neighbours(number)
            if others:
                self.join(number, self.dice.choice(others), other != CHAIN)
        roots = [number for number, alive in enumerate(self.alive) if alive]
        return Blocks(self.shapes, self.parts, roots)

    def join(self, one: int, other: int, stacked: bool) -> None:
        """Makes a block of two."""
        lower, upper, size, alignment = self.shapes[one]
        begins, ends, above, _ = self.shapes[other]
        for number in (one, other):
            self.alive[number] = False
            for index, key in self.keys(self.shapes[number]):
                del index[key][number]
                if not index[key]:
                    del index[key]
        shift = -(-size // alignment) * alignment if stacked else 0
        self.parts.append((one, other, shift))
        size = shift + above if stacked else size
        self.add((min(lower, begins), max(upper, ends), size, alignment))


def blocks_of(buffers: Sequence[Buffer], deadline: float, params: PlacementParams) -> Blocks | None:
    """The fewest blocks of some tries, the same every time; None if there are hardly fewer of them
    than buffers, or time runs out."""
    best: Blocks | None = None
    count = len(buffers)
    probe = max(params.block_probe // count, 2)
    for number in range(min(max(params.block_work // count, 2), params.block_tries)):
        if time.monotonic() > deadline:
            return None
        dice = random.Random(params.seed + number)
        turn, paired = number // 2, number % 2 == 0 and params.block_pairs
        bias, noise = (
            SIZE_BIASES[turn % len(SIZE_BIASES)],
            BLOCK_DEVIATIONS[turn // len(SIZE_BIASES) % len(BLOCK_DEVIATIONS)],
        )
        blocks = Builder(buffers, bias, noise, paired, dice).run()
        if best is None or len(blocks.roots) < len(best.roots):
            best = blocks
        if number + 1 >= probe and len(best.roots) > params.block_share * count:
            return None
        if len(best.roots) == 1:
            break
    return best
