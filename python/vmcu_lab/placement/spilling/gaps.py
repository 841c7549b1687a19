# SPDX-License-Identifier: Apache-2.0
"""Cheap copies and repeats for a given order of a graph in a memory of given size.

Input: a TaskGraph, an order, bytes, Prices. Output: Actions that never hold more bytes, or None if
none were found. A gap is a stretch of steps between two uses of a place, in which it can be absent.
Algorithm: greedy. Gaps are closed, that which relieves the crowded steps of the most bytes for its
cost first; then those that turn out not to be necessary are opened again, the dear ones first.
Complexity: gaps times their length.

A place comes back by a copy, or by repeating the nodes that made it, if their inputs are there then
and unchanged.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from vmcu_tools.ordering.tasks import TaskGraph, lifetimes, usage

from .actions import Action, ActionKind, Prices, outputs_of, price, writers


@dataclass(frozen=True)
class Repeat:
    """nodes: in order; pins: gaps of their inputs that must stay open, by number; beside: bytes
    besides the place, while the hungriest runs; cost: of all."""

    nodes: tuple[int, ...]
    pins: tuple[int, ...]
    beside: int
    cost: float


@dataclass(frozen=True)
class UseGap:
    """Steps from `first` until just before `until` in which a place is not used; `version`: how
    often it has been written before."""

    place: int
    size: int
    first: int
    until: int
    version: int


class Gaps:
    """The gaps of an order, and the contents of memory at each step."""

    def __init__(self, graph: TaskGraph, order: Sequence[int]):
        self.graph, self.order = graph, order
        self.at = {node: step for step, node in enumerate(order)}
        used = usage(graph, order)
        self.level = np.array([*used.steps, used.alive[-1]], np.int64)
        # Before a step has made anything.
        self.before = np.array(used.alive, np.int64)
        self.lives = lifetimes(graph, order)
        self.written = [sorted(self.at[node] for node in nodes) for nodes in writers(graph)]
        self.gaps = [gap for place in range(len(graph.sizes)) for gap in self._gaps_of(place)]
        self.by_place: dict[int, list[int]] = {}
        for number, gap in enumerate(self.gaps):
            self.by_place.setdefault(gap.place, []).append(number)
        self.repeats = [self._repeat(gap) for gap in self.gaps]

    def _gaps_of(self, place: int) -> Iterator[UseGap]:
        graph, size = self.graph, self.graph.sizes[place]
        if not size or not (place in graph.maker or graph.is_needed(place)):
            return
        uses = {self.at[reader] for reader in graph.readers[place]}
        uses.add(self.at[graph.maker[place]] if place in graph.maker else -1)
        if place in graph.kept:
            uses.add(len(self.order))
        steps = sorted(uses)
        for use, next_ in pairwise(steps):
            if next_ > use + 1:
                version = sum(step <= use for step in self.written[place])
                yield UseGap(place, size, use + 1, next_, version)

    def covering(self, place: int, step: int) -> int | None:
        """The gap of a place that a step lies in, -1 if the place is there whatever is done, None
        if it is gone for good."""
        first, until = self.lives[place]
        if not first <= step < until and self.graph.sizes[place]:
            return None
        for number in self.by_place.get(place, ()):
            if self.gaps[number].first <= step < self.gaps[number].until:
                return number
        return -1

    def _repeat(self, gap: UseGap) -> Repeat | None:
        """Returns the nodes that make the place again at the end of its gap."""
        graph, place = self.graph, gap.place
        if gap.until == len(self.order) or place not in graph.maker:
            return None
        steps = [step for step in self.written[place] if step < gap.first]
        nodes = tuple(self.order[step] for step in steps)
        pins, beside = set(), 0
        for step, node in zip(steps, nodes, strict=True):
            task = graph.tasks[node]
            if not task.is_repeatable or not set(task.writes) <= {place}:
                return None
            for other in set(task.inputs) - {place}:
                pin = self.covering(other, gap.until)
                if pin is None or any(step < late < gap.until for late in self.written[other]):
                    return None
                pins.add(pin)
            made = sum(graph.sizes[one] for one in outputs_of(graph, node) if one != place)
            beside = max(beside, made + task.scratch)
        cost = sum(graph.tasks[node].cost for node in nodes)
        return Repeat(nodes, tuple(sorted(pins - {-1})), beside, cost)


@dataclass
class Selection:
    """The choices: by gap the way in which the place comes back, None by a copy. `pinned`: how
    many repeats need a gap to stay open; `copied`: copies by place and version."""

    level: np.ndarray
    beside: dict[int, list[int]]
    back: dict[int, Repeat | None] = field(default_factory=dict)
    pinned: dict[int, int] = field(default_factory=dict)
    copied: dict[tuple[int, int], int] = field(default_factory=dict)


class Greedy:
    """One round of the search. `has_repeats`: whether nodes may be repeated."""

    def __init__(self, gaps: Gaps, room: int, prices: Prices, has_repeats: bool):
        self.all, self.room, self.prices, self.has_repeats = gaps, room, prices, has_repeats
        self.chosen = Selection(gaps.level.copy(), {})
        self.extra = np.zeros(len(gaps.level), np.int64)
        self.excess = np.maximum(gaps.level - room, 0)

    def _count(self, gap: UseGap, change: int) -> None:
        """Counts the bytes that a gap takes from its steps or gives back, and their excess."""
        chosen, steps = self.chosen, slice(gap.first, gap.until + 1)
        chosen.level[gap.first : gap.until] += change
        # Repeated nodes run before the step has made its own outputs.
        made = int(self.all.level[gap.until] - self.all.before[gap.until])
        most = max(chosen.beside.get(gap.until, []), default=0)
        self.extra[gap.until] = max(0, most - made)
        self.excess[steps] = np.maximum(chosen.level[steps] + self.extra[steps] - self.room, 0)

    def copy_cost(self, number: int) -> float:
        """Returns the price of one more copy back, and of the copy to the slow memory if there
        is none."""
        gap = self.all.gaps[number]
        copies = 1 if self.chosen.copied.get((gap.place, gap.version)) else 2
        return copies * self.prices.copy(gap.size)

    def ways(self, number: int) -> list[tuple[float, Repeat | None]]:
        """Lists the ways in which a place can come back at the end of a gap, with the cost."""
        choices: list[tuple[float, Repeat | None]] = []
        if self.prices.per_byte is not None:
            choices.append((self.copy_cost(number), None))
        repeat = self.all.repeats[number]
        if repeat and self.has_repeats and not any(p in self.chosen.back for p in repeat.pins):
            choices.append((repeat.cost, repeat))
        return choices

    def close(self, number: int, way: Repeat | None) -> None:
        """Has a place absent in a gap."""
        gap, chosen = self.all.gaps[number], self.chosen
        chosen.back[number] = way
        if way is None:
            key = gap.place, gap.version
            chosen.copied[key] = chosen.copied.get(key, 0) + 1
        else:
            chosen.beside.setdefault(gap.until, []).append(way.beside)
            for pin in way.pins:
                chosen.pinned[pin] = chosen.pinned.get(pin, 0) + 1
        self._count(gap, -gap.size)

    def open(self, number: int) -> None:
        """Has a place present again in a gap."""
        gap, chosen = self.all.gaps[number], self.chosen
        way = chosen.back.pop(number)
        if way is None:
            chosen.copied[gap.place, gap.version] -= 1
        else:
            chosen.beside[gap.until].remove(way.beside)
            for pin in way.pins:
                chosen.pinned[pin] -= 1
        self._count(gap, gap.size)

    def worth(self, number: int) -> int:
        """Bytes by which closing a gap relieves the crowded steps, all together."""
        gap = self.all.gaps[number]
        return int(np.minimum(self.excess[gap.first : gap.until], gap.size).sum())

    def rate(self, number: int) -> tuple[float, Repeat | None] | None:
        """Cost for each byte of relief; None if there is none."""
        if number in self.chosen.back or self.chosen.pinned.get(number):
            return None
        worth, ways = self.worth(number), self.ways(number)
        if not worth or not ways:
            return None
        cost, way = min(ways, key=lambda one: one[0])
        return cost / worth, way

    def run(self) -> bool:
        """Closes gaps until no step is crowded, then opens those that are not needed."""
        todo = []
        for number in range(len(self.all.gaps)):
            rated = self.rate(number)
            if rated:
                todo.append((rated[0], number))
        heapq.heapify(todo)
        while todo and self.excess.any():
            old, number = heapq.heappop(todo)
            rated = self.rate(number)
            if rated is None:
                continue
            if rated[0] > old and todo and rated[0] > todo[0][0]:
                heapq.heappush(todo, (rated[0], number))
                continue
            self.close(number, rated[1])
            # The copy that now exists makes other gaps of the place cheaper.
            for other in self.all.by_place[self.all.gaps[number].place]:
                again = self.rate(other)
                if again:
                    heapq.heappush(todo, (again[0], other))
        if self.excess.any():
            return False
        self._relax()
        return True

    def _relax(self) -> None:
        """Opens gaps that need not be closed."""

        def cost(number: int) -> float:
            way = self.chosen.back[number]
            size = self.all.gaps[number].size
            return self.prices.copy(size) if way is None else way.cost

        for number in sorted(self.chosen.back, key=lambda n: (-cost(n), n)):
            way = self.chosen.back[number]
            self.open(number)
            if self.excess.any():
                self.close(number, way)

    def actions(self) -> list[Action]:
        """Lists the device's actions."""
        gaps, chosen = self.all.gaps, self.chosen
        fetch: dict[int, list[Action]] = {}
        store: dict[int, list[Action]] = {}
        stored = set()
        for number in sorted(chosen.back, key=lambda n: (gaps[n].first, n)):
            gap, way = gaps[number], chosen.back[number]
            if way is not None:
                continue
            fetch.setdefault(gap.until, []).append(Action(ActionKind.FETCH, gap.place))
            if (gap.place, gap.version) not in stored:
                stored.add((gap.place, gap.version))
                store.setdefault(gap.first, []).append(Action(ActionKind.STORE, gap.place))
        plan: list[Action] = []
        for step in range(len(self.all.order) + 1):
            plan += store.get(step, []) + fetch.get(step, []) + self._repeated(step)
            if step < len(self.all.order):
                plan.append(Action(ActionKind.RUN, self.all.order[step]))
        return plan

    def _repeated(self, step: int) -> list[Action]:
        """The nodes that are repeated before a step, those that ran early first."""
        due = [
            (way, self.all.gaps[number])
            for number, way in self.chosen.back.items()
            if way is not None and self.all.gaps[number].until == step
        ]
        due.sort(key=lambda one: [self.all.at[node] for node in one[0].nodes])
        return [
            Action(ActionKind.REPEAT, node, gap.place) for way, gap in due for node in way.nodes
        ]


def cheap(
    graph: TaskGraph, order: Sequence[int], room: int, prices: Prices
) -> tuple[float, list[Action]] | None:
    """The cheapest actions found, with their cost."""
    gaps = Gaps(graph, order)
    best: tuple[float, list[Action]] | None = None
    # Repeats need their inputs, so that without them there can be more room.
    for has_repeats in (True, False):
        greedy = Greedy(gaps, room, prices, has_repeats)
        if not greedy.run():
            continue
        actions = greedy.actions()
        cost = price(graph, actions, prices)
        if best is None or cost < best[0]:
            best = cost, actions
    return best
