# SPDX-License-Identifier: Apache-2.0
"""An execution order for a graph's nodes and offsets for its tensors.

Input: a NamedGraph. Output: GraphPlan. Algorithm: the order with the smallest peak (ordering/),
then offsets in it (place()); if these end above the peak, offsets in the file's own order, too.
prove() solves MODeL's integer program of both, after the search.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from vmcu_tools.ordering import Ordering, best_order
from vmcu_tools.ordering.tasks import lifetimes, usage

from . import SECONDS, place, program
from .graph_files import FIELDS, NamedGraph, NamedTensor, parse, read, roots_of
from .params import DEFAULT_PLACEMENT, PlacementParams
from .problem import Allocation, Buffer, Instance, check

__all__ = ["FIELDS", "GraphPlan", "NamedTensor", "parse", "prove", "read", "roots_of", "solve"]

Watch = Callable[[int, int], None]


@dataclass(frozen=True)
class GraphPlan:
    """Names of nodes in order, offsets by name of tensor, None where they were not asked for.

    `height`: bytes that the tensors take at their offsets, else those of the worst step; `peak`:
    those of the worst step; `bound`: the least bytes of every order, or of the given one; `proof`:
    the result of an integer program, if one was asked for; `is_unproven`: it found nothing.
    """

    order: tuple[str, ...]
    offsets: dict[str, int] | None
    height: int
    peak: int
    bound: int
    seconds: float
    is_interrupted: bool = False
    proof: str = ""
    is_unproven: bool = False

    @property
    def is_optimal(self) -> bool:
        """True if nothing can be lower."""
        return self.height <= self.bound


def instance_of(graph: NamedGraph, order: Sequence[int]) -> Instance:
    """The buffers of a graph with their lifetimes in an order."""
    at = {number: step for step, number in enumerate(order)}
    lives = lifetimes(graph.tasks, order)
    buffers = []
    for one in graph.buffers:
        life = lives[one.number] if one.number >= 0 else (at[one.source], at[one.source] + 1)
        buffers.append(Buffer(one.name, *life, one.size, one.alignment, (), one.offset))
    return Instance(tuple(buffers), graph.origin)


def solve(
    graph: NamedGraph,
    seconds: float | None = None,
    workers: int | None = None,
    watch: Watch = lambda bound, height: None,
    only: str = "",
    keep: bool = False,
    params: PlacementParams = DEFAULT_PLACEMENT,
) -> GraphPlan:
    """The best order found, or the given one, and the lowest offsets found in it.

    only: "order", without offsets, or "placement", in the order of the list if none is given.
    seconds: for both searches, of which that for an order gets a share; None: that for an order
    ends by itself, at the same point on every machine, then SECONDS for offsets. keep: an
    interruption (KeyboardInterrupt) ends either with the best so far.
    """
    start = time.monotonic()
    deadline = math.inf
    if seconds is not None:
        deadline = start + (1.0 if only == "order" else params.order_share) * seconds
    order = graph.order
    if order is None and only == "placement":
        order = tuple(graph.tasks.topological())
    if order is None:
        ordering = best_order(graph.tasks, watch=watch, keep=keep, deadline=deadline, params=params)
    else:
        peak = usage(graph.tasks, order).peak
        ordering = Ordering(order, peak, peak)
    if only == "order":
        return plan_of(graph, ordering, None, start)
    begun, given = (time.monotonic(), SECONDS) if seconds is None else (start, seconds)
    end, own = begun + given, order is None and params.own_order
    reserve = params.own_order_share * given if own else 0.0
    left = max(end - reserve - time.monotonic(), 0.0)
    problem = instance_of(graph, ordering.order)
    placed = place(problem, None, left, workers, watch, keep, params)
    if own and placed.height > ordering.peak and not placed.is_interrupted:
        filed = tuple(graph.tasks.topological())
        left = max(end - time.monotonic(), 0.0)
        other = place(instance_of(graph, filed), None, left, workers, params=params)
        if other.height < placed.height:
            peak = usage(graph.tasks, filed).peak
            ordering, placed = Ordering(filed, peak, min(ordering.bound, peak)), other
    plan = plan_of(graph, ordering, placed, start)
    return plan if order is None else replace(plan, bound=max(plan.bound, placed.bound))


def plan_of(
    graph: NamedGraph, ordering: Ordering, placed: Allocation | None, start: float
) -> GraphPlan:
    """The plan of an order and of offsets, if there are any. start: of time.monotonic()."""
    height = placed.height if placed else ordering.peak
    return GraphPlan(
        tuple(graph.nodes[number] for number in ordering.order),
        offsets_of(graph, placed.offsets) if placed else None,
        height,
        ordering.peak,
        min(ordering.bound, height),
        time.monotonic() - start,
        ordering.is_interrupted or bool(placed and placed.is_interrupted),
    )


def offsets_of(graph: NamedGraph, offsets: dict[str, int]) -> dict[str, int]:
    """Offsets by name of tensor, from those of the buffers."""
    names = [graph.tensors[root].name for root in graph.roots]
    pairs = zip(graph.tensors, names, strict=True)
    return {tensor.name: offsets.get(name, 0) for tensor, name in pairs}


def prove(graph: NamedGraph, plan: GraphPlan, solver: str, seconds: float = SECONDS) -> GraphPlan:
    """The plan, or a lower one, with the proof of the integer program. solver: "highs" or "cbc"."""
    start = time.monotonic()
    proof = program.solve_within(program.Job(graph, plan.height, solver), seconds)
    plan = replace(plan, seconds=plan.seconds + time.monotonic() - start)
    if proof is None:
        return replace(
            plan, proof=f"{solver}: found nothing in {seconds:g} seconds", is_unproven=True
        )
    least = min(proof.bound, plan.height)
    plan = replace(
        plan,
        bound=max(plan.bound, least),
        proof=f"{solver}: none takes less than {least:,} bytes",
    )
    if proof.order is None:
        return plan
    offsets = {one.name: proof.offsets.get(one.number, 0) for one in graph.buffers}
    height = check(instance_of(graph, proof.order), offsets)
    if height >= plan.height:
        return plan
    return replace(
        plan,
        order=tuple(graph.nodes[n] for n in proof.order),
        offsets=offsets_of(graph, offsets),
        height=height,
        peak=usage(graph.tasks, proof.order).peak,
        bound=min(plan.bound, height),
    )
