# SPDX-License-Identifier: Apache-2.0
"""Buffers put together to blocks, so that a search has fewer of them to place.

Two buffers of the same lifetime may as well lie on top of each other, and two of the same size, of
which one begins when the other ends, in the same place. What fits is put together again and again,
the largest first: of large ones it is least likely that they fit by chance. Blocks undo every cut
of a rectangle that was cut from edge to edge (guillotine cuts); elsewhere some may be wrong, so
this is tried several times, with noise, and offsets of buffers are searched for as well.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from .problem import Buffer

# How much rarer it is that sizes are equal by chance than that lifetimes are: it depends on how
# fine they are.
BIASES = (16.0, 1.0, 0.5, 0.25, 4.0, 64.0)
NOISES = (0.0, 0.1, 0.3)
# Buffers that are looked at in all, over several tries.
EFFORT = 120_000
MOST_TRIES = 100
SEED = 1

Shape = tuple[int, int, int, int]  # lower, upper, size, alignment


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

    def unfolded(self, offsets: Sequence[int]) -> tuple[int, ...]:
        """The offsets of the buffers, from those of the roots."""
        found = [0] * len(self.shapes)
        for root, offset in zip(self.roots, offsets, strict=True):
            found[root] = offset
        first = len(self.shapes) - len(self.parts)
        for number in range(len(self.parts) - 1, -1, -1):
            below, above, shift = self.parts[number]
            found[below] = found[first + number]
            found[above] = found[first + number] + shift
        return tuple(found[:first])


class Builder:
    """Puts buffers together. What there is to look at is on a heap, the rarest first."""

    def __init__(self, buffers: Sequence[Buffer], bias: float, noise: float, dice: random.Random):
        self.dice, self.noise = dice, noise
        length = max(b.upper for b in buffers) - min(b.lower for b in buffers)
        area = sum(b.size * (b.upper - b.lower) for b in buffers)
        self.per_size, self.per_life = bias * length / area, 1 / length
        self.shapes: list[Shape] = []
        self.parts: list[tuple[int, int, int]] = []
        self.alive: list[bool] = []
        self.lives: dict[Shape, dict[int, None]] = {}
        self.begins: dict[Shape, dict[int, None]] = {}
        self.ends: dict[Shape, dict[int, None]] = {}
        self.heap: list[tuple[float, int, bool]] = []
        for b in buffers:
            self.add((b.lower, b.upper, b.size, b.alignment))

    def keys(self, shape: Shape):
        """The indices with a shape's key in each: same lifetime, same size from or until when."""
        lower, upper, size, alignment = shape
        yield self.lives, (lower, upper, 0, alignment)
        yield self.begins, (lower, 0, size, alignment)
        yield self.ends, (0, upper, size, alignment)

    def add(self, shape: Shape) -> None:
        """Another one, and what it may be put together with."""
        number = len(self.shapes)
        self.shapes.append(shape)
        self.alive.append(True)
        for index, key in self.keys(shape):
            index.setdefault(key, {})[number] = None
        lower, upper, size, alignment = shape
        if len(self.lives[lower, upper, 0, alignment]) > 1:
            self.offer((upper - lower) * self.per_life, number, True)
        if self.neighbours(number):
            self.offer(size * self.per_size, number, False)

    def offer(self, rarity: float, number: int, stacked: bool) -> None:
        """Puts one on the heap."""
        noise = self.dice.lognormvariate(0, self.noise) if self.noise else 1.0
        heappush(self.heap, (-rarity * noise, number, stacked))

    def neighbours(self, number: int) -> list[int]:
        """Those of the same size that end when it begins, or begin when it ends."""
        lower, upper, size, alignment = self.shapes[number]
        before = self.ends.get((0, lower, size, alignment), ())
        return [*before, *self.begins.get((upper, 0, size, alignment), ())]

    def run(self) -> Blocks:
        """Puts together what fits until nothing does."""
        while self.heap:
            _, number, stacked = heappop(self.heap)
            if not self.alive[number]:
                continue
            if stacked:
                lower, upper, _, alignment = self.shapes[number]
                same = self.lives[lower, upper, 0, alignment]
                others = [other for other in same if other != number]
            else:
                others = self.neighbours(number)
            if others:
                self.join(number, self.dice.choice(others), stacked)
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


def blocks_of(buffers: Sequence[Buffer]) -> Blocks:
    """The fewest blocks of some tries, the same every time."""
    best: Blocks | None = None
    tries = min(max(EFFORT // len(buffers), 1), MOST_TRIES)
    for number in range(tries):
        dice = random.Random(SEED + number)
        bias, noise = BIASES[number % len(BIASES)], NOISES[number // len(BIASES) % len(NOISES)]
        found = Builder(buffers, bias, noise, dice).run()
        if best is None or len(found.roots) < len(best.roots):
            best = found
    assert best is not None, "there is at least one try"
    return best
