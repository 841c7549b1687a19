# SPDX-License-Identifier: Apache-2.0
"""Buffers in several memories of given capacity and cost: which lies where, and at which offset.

    place_in(problem, (MemoryBank("fast", 65536, 0.0), MemoryBank("slow", 1 << 20, 10.0)))

Input: buffers with accesses, memories. Output: Distribution. A buffer costs its accesses times the
cost of its memory. Algorithm: randomised greedy; buffers are taken in many orders, by accesses per
byte or by size, and each goes to the cheapest memory that has room at each moment; each memory is
then placed by itself. Orders come from a generator with a fixed seed and are limited by work, so
the outcome is the same on every machine. Complexity: orders times buffers times moments.

The bound: at one moment no more bytes of the buffers alive are in a memory than it has, even if
buffers could be divided (a fractional knapsack). Moments that have no buffer in common add up;
`moments` names those that give the bound, so that checker.py can add them up again.
"""

from __future__ import annotations

import math
import random
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from . import place
from .params import DEFAULT_PLACEMENT, PlacementParams
from .problem import Buffer, Instance

# How far orders are from the first one.
DENSITY_DEVIATIONS = (0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True)
class MemoryBank:
    """capacity: bytes; cost: of an access."""

    name: str
    capacity: int
    cost: float


@dataclass(frozen=True)
class Distribution:
    """memory: by buffer id the number of its memory; offsets: in that memory; heights: by memory;
    cost: of all accesses; bound: none costs less; moments: that tell so."""

    memory: dict[str, int]
    offsets: dict[str, int]
    heights: tuple[int, ...]
    cost: float
    bound: float
    moments: tuple[int, ...]
    seconds: float

    @property
    def is_optimal(self) -> bool:
        """True if no other costs less."""
        return self.cost <= self.bound or math.isclose(self.cost, self.bound)


class Levels:
    """Bytes of buffers, and of those in each memory so far, moment by moment."""

    def __init__(self, buffers: Sequence[Buffer], count: int):
        edges = {edge for b in buffers for part in b.parts() for edge in (part.lower, part.upper)}
        self.times = sorted(edges)
        self.parts = [
            [
                (bisect_left(self.times, p.lower), bisect_left(self.times, p.upper), p.high - p.low)
                for p in buffer.parts()
            ]
            for buffer in buffers
        ]
        self.held = np.zeros((count, max(len(self.times), 1)), np.int64)

    def fits(self, number: int, memory: int, capacity: int) -> bool:
        """Whether a memory has room for a buffer, as far as bytes can tell."""
        level = self.held[memory]
        return all(
            int(level[first:last].max(initial=0)) + size <= capacity
            for first, last, size in self.parts[number]
        )

    def put(self, number: int, memory: int) -> None:
        """Puts a buffer into a memory."""
        for first, last, size in self.parts[number]:
            self.held[memory, first:last] += size


def size(buffer: Buffer) -> float:
    """Its bytes, as its priority."""
    return buffer.size


def density(buffer: Buffer) -> float:
    """Accesses for each byte."""
    return buffer.accesses / max(buffer.size, 1)


def place_in(
    problem: Instance,
    memories: Sequence[MemoryBank],
    seconds: float = 50.0,
    workers: int | None = None,
    params: PlacementParams = DEFAULT_PLACEMENT,
) -> Distribution | None:
    """The cheapest distribution found, checked; None if none was found. seconds: for the search for
    offsets in each memory. memories: the cheap ones first."""
    start = time.monotonic()
    bound, moments = bound_of(problem.buffers, memories)
    capacities = [memory.capacity for memory in memories]
    for _ in range(params.memory_retries):
        chosen = cheapest(problem.buffers, memories, capacities, params)
        if chosen is None:
            return None
        short: list[tuple[int, int]] = []
        heights: list[int] = []
        offsets: dict[str, int] = {}
        for number, memory in enumerate(memories):
            inside = tuple(
                b for b, there in zip(problem.buffers, chosen, strict=True) if there == number
            )
            part = replace(problem, buffers=inside)
            placed = place(part, memory.capacity, seconds, workers, params=params)
            offsets |= placed.offsets
            heights.append(placed.height)
            if placed.height > memory.capacity:
                short.append((number, placed.height - memory.capacity))
        if not short:
            where = {b.id: there for b, there in zip(problem.buffers, chosen, strict=True)}
            cost = cost_of(problem.buffers, memories, chosen)
            return Distribution(
                where, offsets, tuple(heights), cost, bound, moments, time.monotonic() - start
            )
        for number, excess in short:
            capacities[number] = max(capacities[number] - excess, 0)
    return None


def cost_of(
    buffers: Sequence[Buffer], memories: Sequence[MemoryBank], chosen: Sequence[int]
) -> float:
    """Returns the cost of all accesses."""
    pairs = zip(buffers, chosen, strict=True)
    return float(sum(buffer.accesses * memories[there].cost for buffer, there in pairs))


def cheapest(
    buffers: Sequence[Buffer],
    memories: Sequence[MemoryBank],
    capacities: Sequence[int],
    params: PlacementParams,
) -> list[int] | None:
    """Chooses a memory for each buffer by its number: the cheapest choice found; None if none
    was found."""
    dice = random.Random(params.seed)
    best: tuple[float, list[int]] | None = None
    orders = min(params.memory_orders, max(20, params.memory_work // (len(buffers) + 1)))
    for turn in range(orders):
        # Every other one has the large before the small, which are hard to fit in later.
        noise = DENSITY_DEVIATIONS[turn // 2 % len(DENSITY_DEVIATIONS)] * (turn > 1)
        first = density if turn % 2 == 0 else size
        keys = [first(b) * math.exp(noise * dice.gauss(0, 1)) for b in buffers]
        order = sorted(range(len(buffers)), key=lambda n: (-keys[n], n))
        chosen = _in_order(buffers, order, capacities)
        if chosen is None:
            continue
        cost = cost_of(buffers, memories, chosen)
        if best is None or cost < best[0]:
            best = cost, chosen
    return None if best is None else best[1]


def _in_order(
    buffers: Sequence[Buffer], order: Sequence[int], capacities: Sequence[int]
) -> list[int] | None:
    """Each buffer in turn in the first memory that has room; None if one has no place."""
    levels, chosen = Levels(buffers, len(capacities)), [0] * len(buffers)
    for number in order:
        for memory, capacity in enumerate(capacities):
            if levels.fits(number, memory, capacity):
                levels.put(number, memory)
                chosen[number] = memory
                break
        else:
            return None
    return chosen


def bound_of(
    buffers: Sequence[Buffer], memories: Sequence[MemoryBank]
) -> tuple[float, tuple[int, ...]]:
    """A cost that nothing is below, and the moments that say so, no two with a buffer in common."""
    times = sorted({buffer.lower for buffer in buffers})
    by_begin = sorted(buffers, key=lambda buffer: buffer.lower)
    # By moment: the best sum up to it, that moment, and how many moments come before it there.
    best: list[tuple[float, int, int]] = []
    alive: list[Buffer] = []
    next_ = 0
    for number, moment in enumerate(times):
        while next_ < len(by_begin) and by_begin[next_].lower <= moment:
            alive.append(by_begin[next_])
            next_ += 1
        alive = [buffer for buffer in alive if buffer.upper > moment]
        # Before all of those alive have begun.
        count = bisect_left(times, min(buffer.lower for buffer in alive))
        before = best[count - 1][0] if count else 0.0
        here = before + least_cost(alive, memories), number, count
        best.append(here if not best or here[0] > best[-1][0] else best[-1])
    total = best[-1][0] if best else 0.0
    moments, at = [], len(best)
    while at:
        _, number, at = best[at - 1]
        moments.append(times[number])
    return total, tuple(reversed(moments))


def least_cost(alive: Sequence[Buffer], memories: Sequence[MemoryBank]) -> float:
    """Returns the least cost of buffers that are alive at one moment, if they could be divided:
    the bytes with the most accesses for their size lie in the cheapest memory."""
    left = [memory.capacity for memory in memories]
    cost, memory = 0.0, 0
    for buffer in sorted(alive, key=density, reverse=True):
        size = buffer.size
        if size == 0 or buffer.gaps:
            # In a gap it may need nothing.
            continue
        todo = size
        while todo and memory < len(left):
            part = min(todo, left[memory])
            cost += buffer.accesses * part / size * memories[memory].cost
            left[memory] -= part
            todo -= part
            if left[memory] == 0:
                memory += 1
    return cost
