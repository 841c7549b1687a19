# SPDX-License-Identifier: Apache-2.0
"""What is tried to find the best order, and in which turn."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass

from ..tasks import TaskGraph, usage
from . import greedy
from .bounds import least_peak
from .direction import Direction, OutOfTimeError
from .sweep import Sweep
from .windows import Smoother

# Moves that a search may weigh in all; about a million take a second.
EFFORT = 16_000_000
# The same for graphs of up to so many tasks, where it ends in a proof.
SMALL, SMALL_EFFORT = 80, 100_000_000
# Beyond so many tasks a sweep of the whole graph costs more than it finds.
MOST_SWEPT = 20_000
# The widths of the first sweeps, forwards and backwards. A graph that has few sets is done then.
NARROW = 30
WIDE = 300
WIDER = 2000
MOST_WIDER = 500
# A beam may weigh so much of the moves that are left, but for the plain one of a search by default:
# that stays as wide as it is in graphs of up to so many tasks.
BEAMS = 6
MOST_PLAIN, PLAIN_EFFORT = 2000, 1_000_000_000
# What a sweep that is to show that nothing is better may keep, and weigh in one go.
EXACT_WIDTH = 200_000
EXACT_EFFORTS = (50_000, 200_000, 800_000, 3_000_000, 10_000_000)
# A proof that ran out of effort before so much of the tasks of a graph that is not small is not
# tried with more.
HOPELESS = 0.25
# For a bound where nothing is proven: how often the limit is halved, with how many moves each.
HALVINGS = 4
HALVING_EFFORT = 200_000
# Moves for each task of the sweep after which a search is over.
CALM = 400

Told = Callable[[int, int], None]


@dataclass(frozen=True)
class Ordering:
    """Tasks by number, the bytes of their worst step, and those that no order can do without.
    `interrupted`: somebody ended the search before its time."""

    order: tuple[int, ...]
    peak: int
    bound: int
    interrupted: bool = False

    @property
    def proven(self) -> bool:
        """Whether no order has a smaller peak."""
        return self.peak <= self.bound


def best_order(
    graph: TaskGraph,
    effort: int | None = None,
    told: Told = lambda bound, peak: None,
    keep: bool = False,
    deadline: float = math.inf,
) -> Ordering:
    """The order with the smallest peak that so much effort finds, by default enough for a proof
    where a graph is small, or the best by `deadline`, of time.monotonic().

    Never worse than the graph's own order, eager choices, or a beam of WIDE sets: by default up to
    MOST_PLAIN tasks, else wherever effort lasts for one; the same on every machine, unless the
    deadline ends the search. `told`: is
    called with bound and peak, in bytes, as they get better. `keep`: an interruption
    (KeyboardInterrupt) ends the search with the best order so far. Raises CycleError.
    """
    thorough = effort is None and len(graph.tasks) <= MOST_PLAIN
    if effort is None:
        effort = SMALL_EFFORT if len(graph.tasks) <= SMALL else EFFORT
    hunt = Hunt(graph, effort, told, thorough, deadline)
    try:
        with contextlib.suppress(OutOfTimeError):
            hunt.run()
            hunt.calm()
    except KeyboardInterrupt:
        if not keep:
            raise
        return hunt.found(True)
    return hunt.found(False)


class Hunt:
    """The best order so far, what is proven, and the effort that is left."""

    def __init__(
        self,
        graph: TaskGraph,
        effort: int,
        told: Told,
        thorough: bool = False,
        deadline: float = math.inf,
    ):
        self.graph, self.left, self.told, self.thorough = graph, effort, told, thorough
        self.deadline = deadline
        self.best = graph.topological()
        self.peak = usage(graph, self.best).peak
        self.bound = 0
        # How far, of all tasks, the last attempt at a proof came.
        self.reached = 0.0
        # Ways that were gone with fewer than WIDE sets.
        self.narrow: list[Direction] = []

    def found(self, interrupted: bool) -> Ordering:
        """What is known so far."""
        return Ordering(tuple(self.best), self.peak, min(self.bound, self.peak), interrupted)

    def run(self) -> None:
        """All there is to try, until nothing can be better or no effort is left."""
        self.bound = least_peak(self.graph)
        self.told(self.bound, self.peak)
        orders: tuple[Callable[[], list[int]], ...] = (
            lambda: greedy.eager(self.graph, False),
            lambda: greedy.eager(self.graph, True),
            lambda: greedy.depth_first(self.graph),
        )
        for order in orders:
            if self.done:
                return
            self.take(order())
        if len(self.graph.tasks) > MOST_SWEPT:
            self.by_windows()
            return
        self.ways = [Direction(self.graph, back, self.deadline) for back in (False, True)]
        for width in (NARROW, WIDE):
            self.beams(width)
            if self.exact(EXACT_EFFORTS[0]):
                break
        # The search that everybody writes first: what it finds is to be found here too.
        self.plain_beam()
        self.whole_beams()
        self.by_windows()
        if self.exact(EXACT_EFFORTS[1]):
            return
        if len(self.graph.tasks) <= MOST_WIDER:
            self.beams(WIDER)
        for effort in EXACT_EFFORTS[1:]:
            if self.exact(effort) or (self.reached < HOPELESS and len(self.graph.tasks) > SMALL):
                break
        self.halve()

    def calm(self) -> None:
        """Of orders that are as good, one that keeps its steps and what is alive low as long as it
        can: what is placed in it finds more room. The graph's own stays if nothing is better."""
        tasks = len(self.graph.tasks)
        if tasks > MOST_SWEPT or self.best == self.graph.topological():
            return
        sweep = Sweep(Direction(self.graph, False, self.deadline), 0, self.peak + 1)
        found, _ = sweep.run(NARROW, CALM * tasks, True)
        if found is not None and (peak := usage(self.graph, found).peak) <= self.peak:
            self.best, self.peak = found, peak

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do."""
        return self.peak <= self.bound or self.left <= 0

    def take(self, order: list[int] | None) -> bool:
        """Takes an order over if it is better."""
        if order is None:
            return False
        peak = usage(self.graph, order).peak
        if peak >= self.peak:
            return False
        self.best, self.peak = order, peak
        self.told(self.bound, self.peak)
        return True

    def swept(self, sweep: Sweep, width: int, effort: int) -> tuple[list[int] | None, bool]:
        """As Sweep.run, within the effort that is left."""
        found, complete = sweep.run(width, min(effort, self.left))
        self.left -= sweep.looked_at
        return found, complete

    def plain_beam(self) -> None:
        """A beam of WIDE sets without any rule. If `thorough`, what it weighs does not count, and
        it is for graphs on which all effort is spent, too."""
        if self.peak <= self.bound or (self.done and not self.thorough):
            return
        sweep = Sweep(self.ways[0], 0, self.peak)
        effort = PLAIN_EFFORT if self.thorough else self.left // BEAMS
        found, _ = sweep.run(WIDE, effort, True, True)
        self.left -= 0 if self.thorough else sweep.looked_at
        self.take(found)

    def whole_beams(self) -> None:
        """If `thorough`, those beams of WIDE sets that had to make do with fewer, until one finds
        something better; what they weigh does not count."""
        for way in reversed(self.narrow if self.thorough else ()):
            if self.peak > self.bound:
                found, _ = Sweep(way, self.bound, self.peak).run(WIDE, PLAIN_EFFORT, True)
                if self.take(found):
                    return

    def beam(self, way: Direction, width: int) -> None:
        """A sweep that keeps few sets, each with the peak that it came to."""
        if self.done:
            self.narrow += [way] if width == WIDE else []
            return
        sweep = Sweep(way, self.bound, self.peak)
        found, complete = sweep.run(width, self.left // BEAMS, True)
        self.left -= sweep.looked_at
        if width == WIDE and sweep.narrowed:
            self.narrow.append(way)
        self.take(found)
        if complete:
            self.bound = self.peak
            self.told(self.bound, self.peak)

    def beams(self, width: int) -> None:
        """One forwards, one backwards, and what is found made better."""
        for way in self.ways:
            self.beam(way, width)
        self.by_windows()

    def by_windows(self) -> None:
        """Improves the best order a stretch at a time."""
        if not self.done:
            smoother = Smoother(self.graph, self.best, self.deadline)
            try:
                smoother.run(self.left, self.bound)
            finally:
                self.left -= smoother.looked_at
                self.take(smoother.order)

    def exact(self, effort: int) -> bool:
        """Looks for anything better than the best order, one way and the other, for as long as it
        is found; True if there is nothing left to do."""
        going = True
        while going and not self.done:
            going = False
            reached = []
            for way in self.ways:
                sweep = Sweep(way, self.peak - 1, self.peak)
                found, complete = self.swept(sweep, EXACT_WIDTH, effort)
                reached.append(sweep.reached)
                if self.take(found):
                    going = True
                elif complete:
                    self.bound = self.peak
                    self.told(self.bound, self.peak)
                if self.done:
                    return True
            # With more effort, the way that came farther has the better chance.
            if reached[1] > reached[0]:
                self.ways.reverse()
            self.reached = max(reached) / len(self.graph.tasks)
        return False

    def halve(self) -> None:
        """Proves more about what no order can do without, by limits that leave less to search."""
        low, high = self.bound, self.peak
        for _ in range(HALVINGS):
            limit = (low + high) // 2
            if limit <= low or self.done:
                return
            for way in self.ways:
                sweep = Sweep(way, limit - 1, limit)
                found, complete = self.swept(sweep, EXACT_WIDTH, HALVING_EFFORT)
                if self.take(found):
                    high = self.peak
                    break
                if complete:
                    self.bound = low = limit
                    self.told(self.bound, self.peak)
                    break
            else:
                high = limit
