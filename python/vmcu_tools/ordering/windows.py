# SPDX-License-Identifier: Apache-2.0
"""Improves an order where it is worst.

Input: an order. Output: one with a peak that is not larger. Algorithm: local search; the tasks of a
stretch around the worst step are a graph of their own, between the tensors alive before and after
it, and a sweep orders them again. Complexity: limited by the moves weighed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .direction import Direction
from .params import DEFAULT_ORDER, OrderParams
from .sweep import Sweep
from .tasks import GraphTask, TaskGraph, usage

# Tasks of a stretch, how many sets of one size a sweep of it keeps, and moves it may weigh.
STRETCHES = ((20, 2000, 20_000), (48, 1000, 60_000), (110, 400, 150_000), (250, 200, 300_000))
# Where in a stretch its worst step is.
SHIFTS = (0.5, 0.25, 0.75)


class Smoother:
    """An order with the bytes of its `steps`, those `alive` before each and after the last, and the
    place `at` which each task runs. `weighed`: moves weighed so far. `deadline`: as Direction has
    it."""

    def __init__(
        self,
        graph: TaskGraph,
        order: Sequence[int],
        deadline: float = math.inf,
        params: OrderParams = DEFAULT_ORDER,
    ):
        self.graph, self.order, self.deadline = graph, list(order), deadline
        self.params = params
        used = usage(graph, order)
        self.steps, self.alive = list(used.steps), list(used.alive)
        self.at = [0] * len(self.order)
        for place, number in enumerate(self.order):
            self.at[number] = place
        self.weighed = 0

    def run(self, effort: int, least: int) -> None:
        """Makes the worst steps better for as long as some stretch around them has a better
        order, down to `least` bytes, with about so many moves weighed. OutOfTimeError leaves the
        best order so far."""
        while self.weighed < effort and self.peak > least and self.better():
            pass

    @property
    def peak(self) -> int:
        """Bytes of the worst moment."""
        return max((*self.steps, *self.alive))

    def better(self) -> bool:
        """Makes the first of the worst steps better; False if no stretch shows how."""
        peak = self.peak
        if peak not in self.steps:
            return False
        worst = self.steps.index(peak)
        for length, width, effort in STRETCHES:
            for shift in SHIFTS:
                first = max(worst - round(shift * length), 0)
                if self.smooth(max(min(first, len(self.order) - length), 0), length, width, effort):
                    return True
            if length >= len(self.order):
                return False
        return False

    def smooth(self, first: int, length: int, width: int, effort: int) -> bool:
        """Looks for an order of a stretch without a step as bad as the peak; True if it is taken
        over."""
        stop = min(first + length, len(self.order))
        part = self.order[first:stop]
        stretch = stretch_of(self.graph, part, self.at, stop)
        below = self.alive[first] - stretch.at_start
        limit = self.peak - below
        for backwards in (False, True) if self.params.backward else (False,):
            way = Direction(stretch, backwards, self.deadline, self.params)
            sweep = Sweep(way, limit - 1, limit)
            order, _ = sweep.run(width, effort)
            self.weighed += sweep.weighed
            if order is None:
                continue
            used = usage(stretch, order)
            self.order[first:stop] = [part[number] for number in order]
            self.steps[first:stop] = [below + step for step in used.steps]
            self.alive[first : stop + 1] = [below + alive for alive in used.alive]
            for place in range(first, stop):
                self.at[self.order[place]] = place
            return True
        return False


def stretch_of(graph: TaskGraph, part: Sequence[int], at: Sequence[int], stop: int) -> TaskGraph:
    """Some tasks as a graph of their own. `at`: where each task of the graph is in its order;
    `stop`: the place behind the last of them."""
    numbers: dict[int, int] = {}
    for task in (graph.tasks[n] for n in part):
        for tensor in (*task.inputs, *task.outputs):
            numbers.setdefault(tensor, len(numbers))
    inside = {number: place for place, number in enumerate(part)}
    kept = {
        inner
        for tensor, inner in numbers.items()
        if tensor in graph.kept or any(at[reader] >= stop for reader in graph.readers[tensor])
    }
    tasks = tuple(
        GraphTask(
            tuple(numbers[t] for t in task.inputs),
            tuple(numbers[t] for t in task.outputs),
            tuple(inside[other] for other in task.after if other in inside),
            task.scratch,
            task.shared,
        )
        for task in (graph.tasks[n] for n in part)
    )
    return TaskGraph(tuple(graph.sizes[t] for t in numbers), tasks, frozenset(kept))
