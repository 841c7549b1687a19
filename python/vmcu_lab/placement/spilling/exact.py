# SPDX-License-Identifier: Apache-2.0
"""The cheapest way to run a small graph in a memory of given size, over all orders.

Input: a TaskGraph, bytes, Prices. Output: Actions with the least cost, None if there are none, or
too many states. Algorithm: Dijkstra over states: the nodes that have run, the places in memory and
those with a valid copy in the slow memory. A place leaves memory by a copy, or for nothing if there
is a copy or if its makers can be repeated; places without a later reader leave at once. Complexity:
exponential; MOST_STATES ends it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vmcu_tools.ordering.bounds import ancestors
from vmcu_tools.ordering.tasks import TaskGraph

from .actions import Action, ActionKind, Prices, changed_by, outputs_of, writers

# Nodes of a graph that is searched at all; states that are looked at.
MOST_NODES = 24
MOST_STATES = 30_000

State = tuple[int, int, int]
Move = tuple[State, float, tuple[Action, ...]]


class TooManyStatesError(Exception):
    """The search was given up."""


@dataclass(frozen=True)
class Recipe:
    """The steps that make a place again: the nodes that made and changed it. `needs`: places
    that they read; `stale`: nodes that must not have run, as they change one of those; `room`:
    bytes beside the place while the hungriest runs."""

    nodes: int
    actions: tuple[Action, ...]
    needs: int
    stale: int
    room: int
    cost: float


def bits(numbers: Sequence[int] | set[int]) -> int:
    """A set of numbers as an integer."""
    return sum(1 << number for number in set(numbers))


class Pebbles:
    """A graph as a game: sets of nodes and of places are bits."""

    def __init__(self, graph: TaskGraph, room: int, prices: Prices):
        self.graph, self.room, self.prices = graph, room, prices
        self.places = [place for place, size in enumerate(graph.sizes) if size]
        held = set(self.places)
        self.before = [bits(others) for others in graph.predecessors]
        self.reads = [bits(held & set(task.inputs)) for task in graph.tasks]
        self.makes = [bits(outputs_of(graph, node)) for node in range(len(graph.tasks))]
        self.changes = [bits(held & changed_by(task)) for task in graph.tasks]
        self.users = {place: bits(graph.readers[place]) for place in self.places}
        self.every = (1 << len(graph.tasks)) - 1
        self.kept = bits([place for place in self.places if place in graph.kept])
        behind = ancestors(graph)
        earlier = [
            bits([b for b in range(len(graph.tasks)) if behind[a, b]])
            for a in range(len(graph.tasks))
        ]
        made_by = writers(graph)
        total = sum(graph.sizes[place] for place in self.places)
        self.is_tight = prices.per_byte is not None and total > prices.capacity
        repeatable = [changed_by(task) & held for task in graph.tasks if task.is_repeatable]
        self.has_all_repeats = all(
            len(places) == 1 and all(len(made_by[place]) == 1 for place in places)
            for places in repeatable
        )
        self.recipes: dict[int, dict[int, Recipe]] = {}
        for place in self.places:
            order = sorted(made_by[place], key=lambda node: (earlier[node].bit_count(), node))
            self.recipes[place] = dict(self._recipes(place, order, earlier, made_by))

    def _recipes(
        self, place: int, order: list[int], earlier: list[int], made_by: list[list[int]]
    ) -> Iterator[tuple[int, Recipe]]:
        """Yields for each set of writers that have run the recipe of a place."""
        graph, size = self.graph, self.graph.sizes
        if not order or graph.maker.get(place) != order[0]:
            return
        for count in range(1, len(order) + 1):
            nodes = order[:count]
            tasks = [graph.tasks[node] for node in nodes]
            if not tasks[-1].is_repeatable or any(
                not set(task.writes) <= {place} for task in tasks
            ):
                return
            needs, stale, most = 0, 0, 0
            for node, task in zip(nodes, tasks, strict=True):
                for other in set(task.inputs) - {place}:
                    needs |= (1 << other) if size[other] else 0
                    stale |= bits(made_by[other]) & ~earlier[node]
                beside = sum(size[one] for one in outputs_of(graph, node) if one != place)
                most = max(most, task.scratch + beside)
            actions = tuple(Action(ActionKind.REPEAT, node, place) for node in nodes)
            cost = sum(task.cost for task in tasks)
            yield bits(nodes), Recipe(bits(nodes), actions, needs, stale, most, cost)

    def bytes_of(self, places: int) -> int:
        """The bytes of a set of places."""
        return sum(self.graph.sizes[place] for place in self.places if places >> place & 1)

    def wanted(self, done: int) -> int:
        """The places that somebody still needs."""
        left = ~done
        live = bits([place for place in self.places if self.users[place] & left])
        return live | self.kept

    def start(self) -> State:
        """Returns the state before anything has run."""
        made = set(self.graph.maker)
        return 0, bits([p for p in self.places if p not in made]) & self.wanted(0), 0

    def recipe(self, place: int, done: int) -> Recipe | None:
        """Returns the recipe of a place now, if there is one: its inputs have not been changed."""
        ran = bits([node for node in range(len(self.before)) if self.changes[node] >> place & 1])
        known = self.recipes[place].get(ran & done)
        return None if known is None or known.stale & done else known

    def moves(self, state: State) -> Iterator[Move]:
        """Yields the possible moves, with their costs."""
        done, fast, slow = state
        held, wanted = self.bytes_of(fast), self.wanted(done)
        yield from self._runs(state, held)
        for place in self.places:
            bit, size = 1 << place, self.graph.sizes[place]
            copy = None if self.prices.per_byte is None else size * self.prices.per_byte
            again = self.recipe(place, done)
            if self.is_tight and slow & bit and (fast & bit or again is not None):
                yield (done, fast, slow & ~bit), 0.0, ()
            if fast & bit:
                if slow & bit or again is not None:
                    yield (done, fast & ~bit, slow), 0.0, ()
                has_room = self.bytes_of(slow) + size <= self.prices.capacity
                if copy is not None and not slow & bit and has_room:
                    store = (Action(ActionKind.STORE, place),)
                    yield (done, fast & ~bit, slow | bit), copy, store
            elif wanted & bit and done & self.made(place) == self.made(place):
                if copy is not None and slow & bit and held + size <= self.room:
                    yield (done, fast | bit, slow), copy, (Action(ActionKind.FETCH, place),)
                if again and again.needs & ~fast == 0 and held + size + again.room <= self.room:
                    yield (done, fast | bit, slow), again.cost, again.actions

    def made(self, place: int) -> int:
        """The node that makes a place, as a set."""
        maker = self.graph.maker.get(place)
        return 0 if maker is None else 1 << maker

    def _runs(self, state: State, held: int) -> Iterator[Move]:
        """Nodes that can run now."""
        done, fast, slow = state
        for node, before in enumerate(self.before):
            is_ready = not done >> node & 1 and before & ~done == 0
            if not is_ready or self.reads[node] & ~fast:
                continue
            during = held + self.bytes_of(self.makes[node]) + self.graph.tasks[node].scratch
            if during > self.room:
                continue
            after = done | 1 << node
            wanted = self.wanted(after)
            left = (fast | self.makes[node]) & wanted, slow & ~self.changes[node] & wanted
            yield (after, *left), 0.0, (Action(ActionKind.RUN, node),)


@dataclass(frozen=True)
class LeastCost:
    """`actions`: None if there are none; `is_proven`: whether no others cost less. They may where a
    node that makes several places can be repeated, or one that changes a place: a repeat serves one
    place, and all that have written it are repeated in one go."""

    actions: list[Action] | None
    is_proven: bool


def cheapest(graph: TaskGraph, room: int, prices: Prices) -> LeastCost:
    """The actions with the least cost that never hold more than `room` bytes. Raises
    TooManyStatesError."""
    if len(graph.tasks) > MOST_NODES:
        raise TooManyStatesError
    game = Pebbles(graph, room, prices)
    first = game.start()
    if game.bytes_of(first[1]) > room:
        return LeastCost(None, True)
    best = {first: 0.0}
    came: dict[State, tuple[State, tuple[Action, ...]]] = {}
    todo = [(0.0, 0, first)]
    count = 0
    while todo:
        cost, _, state = heapq.heappop(todo)
        if cost > best[state]:
            continue
        done, fast, _ = state
        if done == game.every and game.kept & ~fast == 0:
            return LeastCost(_path(came, state), game.has_all_repeats)
        for after, more, actions in game.moves(state):
            if cost + more < best.get(after, float("inf")):
                best[after] = cost + more
                came[after] = state, actions
                count += 1
                # Among equals the one that has run the most is nearest to the end.
                heapq.heappush(todo, (cost + more, count - (after[0].bit_count() << 32), after))
        if len(best) > MOST_STATES:
            raise TooManyStatesError
    return LeastCost(None, game.has_all_repeats)


def _path(came: dict[State, tuple[State, tuple[Action, ...]]], state: State) -> list[Action]:
    """The actions that lead to a state."""
    steps: list[tuple[Action, ...]] = []
    while state in came:
        state, actions = came[state]
        steps.append(actions)
    return [action for actions in reversed(steps) for action in actions]
