# SPDX-License-Identifier: Apache-2.0
"""A graph in less memory than its tensors need: spilling and recomputation.

    solve_within(graph, limit, Prices(0.1, 1 << 30)) -> LimitedPlan

Input: a NamedGraph, bytes of the fast memory, Prices of the slow one. Output: LimitedPlan, the
order with copies out and back and nodes that run again, and offsets in both memories. Algorithm:
exact.py over all orders of a small graph; otherwise gaps.py in the order with the smallest peak
and in the file's own. Offsets follow by place(); if they end above the limit, the search is
repeated with less room. MODeL (arXiv:2210.12924) has spilling as a variable of its program; here a
search finds it, and checker.py replays the plan.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from vmcu_tools.ordering import Ordering, best_order
from vmcu_tools.ordering.tasks import usage

from .. import SECONDS, place
from ..complaints import InputError, refuse
from ..graph_files import NamedGraph
from ..params import DEFAULT_PLACEMENT, PlacementParams
from ..problem import Allocation, Instance
from . import exact, gaps
from .actions import Action, ActionKind, Prices, Stay, instance_of, peak, price, slow_stays, stays

__all__ = ["Action", "ActionKind", "LimitedPlan", "Prices", "Stay", "need_of", "solve_within"]

Watch = Callable[[int, int], None]


@dataclass(frozen=True)
class PlacedStays:
    """Stays in one memory, their offsets, and where the highest ends."""

    stays: tuple[Stay, ...]
    offsets: tuple[int, ...]
    height: int


@dataclass(frozen=True)
class LimitedPlan:
    """`cost`: of copies and repeated nodes, in the unit of the nodes' cost; `peak`: bytes of the
    worst action in the fast memory; `is_optimal`: whether no order, copies and repeats within the
    limit cost less."""

    actions: tuple[Action, ...]
    fast: PlacedStays
    slow: PlacedStays
    peak: int
    copied: int
    cost: float
    is_optimal: bool
    seconds: float


def solve_within(
    graph: NamedGraph,
    limit: int,
    prices: Prices,
    seconds: float | None = None,
    watch: Watch = lambda bound, height: None,
    params: PlacementParams = DEFAULT_PLACEMENT,
    best: Ordering | None = None,
) -> LimitedPlan:
    """The cheapest plan found that never holds more than `limit` bytes; InputError, which says why,
    if none was found. seconds: for the search of an order (None: it ends by itself, at the same
    point on every machine), and of offsets (None: SECONDS). best: the answer of best_order(), if
    it is known."""
    start = time.monotonic()
    need, why = need_of(graph)
    if need > limit:
        raise refuse(graph.origin, f"no plan fits {limit} bytes: {why}", f"allow {need}")
    deadline = math.inf if seconds is None else start + seconds * params.order_share
    search = ActionSearch(graph, prices, params, deadline, best)
    plan_actions = search.actions(limit)
    if plan_actions is None:
        raise _nothing(graph, limit, prices, "")
    is_optimal = search.is_exact
    placed = _at_once(_fast(graph, plan_actions), limit, params)
    first, room = plan_actions, limit
    for _ in range(params.memory_retries):
        if placed.height <= limit:
            return _plan(graph, prices, plan_actions, placed, is_optimal, start, seconds)
        room -= placed.height - limit
        less = search.actions(room)
        if less is None:
            break
        plan_actions, is_optimal = less, False
        placed = _at_once(_fast(graph, plan_actions), limit, params)
    left = _left(start, seconds)
    placed = place(_fast(graph, first), limit, left, None, watch, params=params)
    if placed.height > limit:
        reason = f"; the lowest offsets of a plan end at {placed.height}"
        raise _nothing(graph, limit, prices, reason)
    return _plan(graph, prices, first, placed, False, start, seconds)


def _fast(graph: NamedGraph, actions: list[Action]) -> Instance:
    """Returns the contents of the fast memory, as buffers."""
    return instance_of(graph, stays(graph.tasks, actions))


def _at_once(problem: Instance, capacity: int, params: PlacementParams) -> Allocation:
    """Offsets that are found without a search."""
    params = replace(params, valleys=(), blocks=False, ejection=False)
    return place(problem, capacity, math.inf, params=params)


def _left(start: float, seconds: float | None) -> float:
    """Seconds for a search of offsets."""
    return SECONDS if seconds is None else max(start + seconds - time.monotonic(), 0.0)


class ActionSearch:
    """The orders of a graph, found once. `is_exact`: whether the last answer was the cheapest."""

    def __init__(
        self,
        graph: NamedGraph,
        prices: Prices,
        params: PlacementParams,
        deadline: float,
        best: Ordering | None,
    ):
        self.graph, self.prices, self.params, self.deadline = graph, prices, params, deadline
        self.best, self.is_exact = best, False

    @cached_property
    def orders(self) -> list[tuple[int, ...]]:
        """Those that are searched: the given one, or the best and the file's own."""
        tasks = self.graph.tasks
        if self.graph.order is not None:
            return [self.graph.order]
        best = self.best or best_order(tasks, deadline=self.deadline, params=self.params)
        return list(dict.fromkeys([best.order, tuple(tasks.topological())]))

    def actions(self, room: int) -> list[Action] | None:
        """The cheapest actions found that need no more than so many bytes."""
        tasks = self.graph.tasks
        self.is_exact = False
        if self.params.spilling_exact and self.graph.order is None:
            try:
                plan = exact.cheapest(tasks, room, self.prices)
            except exact.TooManyStatesError:
                pass
            else:
                self.is_exact = plan.is_proven
                return plan.actions
        best: tuple[float, list[Action]] | None = None
        for order in self.orders:
            one = gaps.cheap(tasks, order, room, self.prices)
            if one is not None and (best is None or one[0] < best[0]):
                best = one
        return None if best is None else best[1]


def _plan(
    graph: NamedGraph,
    prices: Prices,
    actions: list[Action],
    placed: Allocation,
    is_optimal: bool,
    start: float,
    seconds: float | None,
) -> LimitedPlan:
    tasks = graph.tasks
    there, away = stays(tasks, actions), slow_stays(tasks, actions)
    problem = instance_of(graph, away, is_slow=True)
    slow = _at_once(problem, prices.capacity, DEFAULT_PLACEMENT)
    if slow.height > prices.capacity:
        slow = place(problem, prices.capacity, _left(start, seconds))
    if slow.height > prices.capacity:
        reason = f"the copies of the plan that was found need {slow.height} bytes of slow memory"
        raise refuse(graph.origin, reason, f"give it {slow.height} bytes")
    copies = [one for one in actions if one.kind in (ActionKind.STORE, ActionKind.FETCH)]
    cost = price(tasks, actions, prices)
    return LimitedPlan(
        tuple(actions),
        PlacedStays(tuple(there), _offsets(placed), placed.height),
        PlacedStays(tuple(away), _offsets(slow), slow.height),
        peak(there, len(actions)),
        sum(tasks.sizes[one.number] for one in copies),
        cost,
        is_optimal or cost == 0,
        time.monotonic() - start,
    )


def _offsets(placed: Allocation) -> tuple[int, ...]:
    """Lists the offsets by stay."""
    return tuple(placed.offsets[str(number)] for number in range(len(placed.offsets)))


def need_of(graph: NamedGraph) -> tuple[int, str]:
    """The bytes that no order, copies or repeats do without, and why."""
    tasks = graph.tasks
    kept = sum(tasks.sizes[place] for place in tasks.kept)
    needs = [
        (tasks.at_start, f"tensors that exist from the start take {tasks.at_start}"),
        (kept, f"tensors that are kept take {kept}"),
    ]
    for task, name in zip(tasks.tasks, graph.nodes, strict=True):
        used = {*task.inputs, *task.outputs}
        need = task.scratch + sum(tasks.sizes[tensor] for tensor in used)
        needs.append((need, f"node '{name}' needs {need} at once"))
    return max(needs)


def _nothing(graph: NamedGraph, limit: int, prices: Prices, why: str) -> InputError:
    """Why there is no plan."""
    needed = usage(graph.tasks, graph.order or graph.tasks.topological()).peak
    reason = f"no plan was found within {limit} bytes{why}; the order of the file needs {needed}"
    remedy = f"allow more than {limit}"
    if prices.per_byte is None:
        remedy += ", or add a slow memory with --memory"
    return refuse(graph.origin, reason, remedy)
