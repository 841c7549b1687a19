# SPDX-License-Identifier: Apache-2.0
"""Which searches for the best execution order are made, and in which turn.

Input: a graph of tasks, an effort. Output: Ordering. Algorithm: a greedy order, a beam search
forwards and one backwards, local search in windows around the worst steps, and sweeps over all sets
of tasks, which end in a proof where a graph is small.
Complexity: limited by the moves weighed, so the answer is the same on every machine unless a
deadline ends the search.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass

from .bounds import least_peak
from .direction import Direction, OutOfTimeError
from .greedy import eager_order
from .params import DEFAULT_ORDER, OrderParams
from .sweep import Sweep
from .tasks import TaskGraph, usage
from .windows import Smoother

# The part of the moves left that a beam may weigh.
BEAM_SHARE = 6

Watch = Callable[[int, int], None]


@dataclass(frozen=True)
class Ordering:
    """Tasks by number, the bytes of their worst step, and those that no order can do without.
    `is_interrupted`: the search was ended before its time."""

    order: tuple[int, ...]
    peak: int
    bound: int
    is_interrupted: bool = False

    @property
    def is_proven(self) -> bool:
        """Whether no order has a smaller peak."""
        return self.peak <= self.bound


def best_order(
    graph: TaskGraph,
    effort: int | None = None,
    watch: Watch = lambda bound, peak: None,
    keep: bool = False,
    deadline: float = math.inf,
    params: OrderParams = DEFAULT_ORDER,
) -> Ordering:
    """The order with the smallest peak that so many moves find, by default enough for a proof
    where a graph is small, or the best by `deadline`, of time.monotonic().

    Never worse than the graph's own order or eager choices. By default up to params.thorough_most
    tasks, beams are of full width whatever they weigh. `watch` is called with bound and peak,
    in bytes, as they get better. `keep`: an interruption (KeyboardInterrupt) ends the search
    with the best order so far. Raises CycleError.
    """
    thorough = effort is None and len(graph.tasks) <= params.thorough_most
    if effort is None:
        small = len(graph.tasks) <= params.order_small
        effort = params.order_small_work if small else params.order_work
    search = OrderSearch(graph, effort, watch, thorough, deadline, params)
    try:
        with contextlib.suppress(OutOfTimeError):
            search.run()
    except KeyboardInterrupt:
        if not keep:
            raise
        return search.result(True)
    return search.result(False)


class OrderSearch:
    """The best order so far, the proven bound, and the moves `left`. `thorough`: beams are of
    full width, at once or in the end, and their moves do not count."""

    def __init__(
        self,
        graph: TaskGraph,
        effort: int,
        watch: Watch,
        thorough: bool = False,
        deadline: float = math.inf,
        params: OrderParams = DEFAULT_ORDER,
    ):
        self.graph, self.left, self.watch, self.thorough = graph, effort, watch, thorough
        self.deadline, self.params = deadline, params
        self.best = graph.topological()
        self.peak = usage(graph, self.best).peak
        self.bound = 0
        # The share of the tasks that the last attempt at a proof visited.
        self.reached = 0.0
        self.ways: list[Direction] = []
        # Those of which a beam was narrower than it should be.
        self.narrowed: list[Direction] = []

    def result(self, interrupted: bool) -> Ordering:
        """Returns the best order so far."""
        return Ordering(tuple(self.best), self.peak, min(self.bound, self.peak), interrupted)

    def direction(self, graph: TaskGraph, backwards: bool) -> Direction:
        """A way to search a graph."""
        return Direction(graph, backwards, self.deadline, self.params)

    def run(self) -> None:
        """Makes all searches until nothing can be better or no moves are left."""
        self.bound, params = least_peak(self.graph), self.params
        tasks = len(self.graph.tasks)
        self.watch(self.bound, self.peak)
        self.take(eager_order(self.graph))
        if self.done:
            return
        if tasks > params.order_most:
            self.improve_windows()
            return
        backward = (False, True) if params.backward else (False,)
        self.ways = [self.direction(self.graph, way) for way in backward]
        # A deadline may come before a beam of full width ends.
        whole = self.thorough and self.deadline == math.inf
        for way in self.ways if params.beam_width else ():
            self.beam(way, whole)
        self.improve_windows()
        for way in self.narrowed if self.thorough else ():
            self.beam(way, True)
        if self.prove(params.proof_work // 200):
            return
        if tasks <= params.order_small or self.reached >= params.proof_share:
            self.prove(params.proof_work)

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do."""
        return self.peak <= self.bound or self.left <= 0

    def take(self, order: list[int] | None) -> bool:
        """Keeps an order if it is better."""
        if order is None:
            return False
        peak = usage(self.graph, order).peak
        if peak >= self.peak:
            return False
        self.best, self.peak = order, peak
        self.watch(self.bound, self.peak)
        return True

    def raise_bound(self, bound: int) -> None:
        """Notes that no order has a smaller peak."""
        self.bound = bound
        self.watch(self.bound, self.peak)

    def beam(self, way: Direction, whole: bool) -> None:
        """A beam search for an order below the peak. whole: of full width, whatever it weighs."""
        if self.peak <= self.bound:
            return
        if self.left <= 0 and not whole:
            self.narrowed.append(way)
            return
        sweep = Sweep(way, self.bound, self.peak)
        effort = self.params.beam_work if whole else self.left // BEAM_SHARE
        order, complete = sweep.run(self.params.beam_width, effort, True)
        self.left -= 0 if self.thorough else sweep.weighed
        self.take(order)
        if complete:
            self.raise_bound(self.peak)
        if sweep.is_narrowed and not whole:
            self.narrowed.append(way)

    def improve_windows(self) -> None:
        """Improves the best order a stretch at a time."""
        if self.params.windows and not self.done:
            smoother = Smoother(self.graph, self.best, self.deadline, self.params)
            try:
                smoother.run(self.left, self.bound)
            finally:
                self.left -= smoother.weighed
                self.take(smoother.order)

    def prove(self, effort: int) -> bool:
        """Looks for anything better than the best order, one way and the other, for as long as it
        is found; True if there is nothing left to do."""
        going = True
        while going and not self.done:
            going = False
            reached = []
            for way in self.ways:
                sweep = Sweep(way, self.peak - 1, self.peak)
                order, complete = sweep.run(self.params.proof_width, min(effort, self.left))
                self.left -= sweep.weighed
                reached.append(sweep.reached)
                if self.take(order):
                    going = True
                elif complete:
                    self.raise_bound(self.peak)
                if self.done:
                    return True
            # With more effort, the way that came farther has the better chance.
            if reached[-1] > reached[0]:
                self.ways.reverse()
            self.reached = max(reached) / len(self.graph.tasks)
        return False
