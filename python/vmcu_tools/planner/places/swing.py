# SPDX-License-Identifier: Apache-2.0
"""Placing a layout's tensors in the smallest pool, by order, directions and overlap.

In the layout's order a walk that places each tensor against its neighbours (walk.py) tries to fit
everything into the worst step's bytes; for chains it does. Where branches stand in its way, the
constraint solver takes over: first for a circle of that size (circle.py), then for the smallest
linear pool (solve.py), from there down to the smallest circle. A linear pool is tried first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...graph import Graph
from ...plan.plan import Plan
from . import circle
from .cpsat import can_solve
from .layout import Layout
from .order import reordered
from .pieces import Piece, most_of, pieces_of
from .walk import Walk, plan_of

# About how many circles are tried.
CIRCLES = 10
# Of more pieces the solver finds no linear pool within seconds; of more pairs that are alive
# together, each counted in both directions of a step, no circular one either.
MOST_PIECES, MOST_PAIRS = 160, 4000
# How exact the walk's smallest pool is; whether tensors may reach around its end.
STEP, WRAPS = 0.002, (False, True)


def plan(graph: Graph, seconds: float) -> Plan:
    """The smallest pool found for layers one by one, in the order whose worst step is smallest."""
    order = reordered(graph)
    return order.noted(place("vmcu", Layout.singles(order.graph), seconds))


def place(planner: str, layout: Layout, seconds: float, below: int | None = None) -> Plan:
    """The smallest pool found for a layout.

    `seconds` bounds the constraint solver, in its deterministic measure of time: about so many on
    a desktop computer, and the same outcome on every machine. below: as packed() has it.
    """
    return walked(planner, layout) or packed(planner, layout, seconds, below)


def linear(planner: str, layout: Layout, seconds: float) -> Plan:
    """The smallest pool found whose end no tensor reaches around."""
    free = pieces_of(layout, both_ways=True)
    bound = max(piece.bound() for piece in free)
    search = Walk(free, bound, False)
    if search.run():
        return plan_of(planner, layout, search, bound)
    if len(free) > MOST_PIECES:
        return plan_of(planner, layout, walked_least(free, bound, WRAPS[:1]), bound)
    search, proven = solved(free, bound, seconds)
    return plan_of(planner, layout, search, proven)


def packed(
    planner: str,
    layout: Layout,
    seconds: float,
    below: int | None = None,
    worth: int | None = None,
) -> Plan:
    """The constraint solver's plan. below: bytes that another plan takes: of a pool that needs as
    many, no solver is asked for more than whether it can be smaller. worth: the same of circles
    alone."""
    free = pieces_of(layout, both_ways=True)
    bound = max(piece.bound() for piece in free)
    if len(free) > MOST_PIECES:
        return plan_of(planner, layout, walked_least(free, bound), bound)
    search, _ = solved(free, bound, seconds, below)
    least = min(size for size in (search.pool, below, worth) if size is not None)
    effort = seconds / CIRCLES
    # Where one byte less is too little, a smaller circle is not worth the time that it takes.
    round_ = circle.fits(free, least - 1, effort) if least > bound else None
    if round_ is None:
        # What is proven of lines is no bound for circles.
        return plan_of(planner, layout, search, bound)
    round_ = circle.smallest(free, bound, round_.pool, effort) or round_
    return plan_of(planner, layout, round_, bound)


def walked(
    planner: str,
    layout: Layout,
    limit: int = 0,
    hopeful: Callable[[int], bool] = lambda size: True,
) -> Plan | None:
    """A plan in no more than the worst step's bytes, or `limit` if that is more, if the walk or the
    solver finds one. hopeful: whether the solver is worth asking for so many bytes."""
    free, ascending = pieces_of(layout, both_ways=True), pieces_of(layout, both_ways=False)
    bound = max(piece.bound() for piece in free)
    for pieces, wraps in ((free, False), (free, True), (ascending, True)):
        search = Walk(pieces, bound, wraps)
        if search.run():
            return plan_of(planner, layout, search, bound)
    if sum(len(way.live) for piece in free for way in piece.ways) > MOST_PAIRS:
        return None
    size = max(bound, limit)
    found = circle.fits(free, size) if hopeful(size) else None
    return None if found is None else plan_of(planner, layout, found, bound)


def walked_least(pieces: list[Piece], bound: int, wraps: Sequence[bool] = WRAPS) -> Walk:
    """The walk's placement in the smallest pool that bisection finds, in steps of a part STEP."""
    best = None
    low, high = bound, most_of(pieces)
    while best is None or high - low > max(low * STEP, 1):
        size = high if best is None else (low + high) // 2
        found = next((w for w in (Walk(pieces, size, wrap) for wrap in wraps) if w.run()), None)
        assert found is not None or best is not None, "side by side is a placement"
        if found is None:
            low = size
        else:
            best, high = found, size
    return best


def least(plan: Plan) -> int:
    """The bytes of the worst step of a plan's order, below which no placement of layers one by one
    can go."""
    return max(piece.bound() for piece in pieces_of(plan.graph, both_ways=True))


def solved(
    pieces: list[Piece], bound: int, seconds: float, below: int | None = None
) -> tuple[Walk, int]:
    """The solver's placement as a finished search, and the bound it proved: none in fewer than
    `below` bytes found, the walk's placement."""
    known = walked_least(pieces, bound, WRAPS[:1])
    most = known.pool if below is None else min(known.pool, below - 1)
    if most < bound or not can_solve():
        return known, bound
    # OR-tools takes longer to load than most plans take, which ask no solver.
    from .solve import ConstraintModel

    model = ConstraintModel(pieces, bound, most)
    if most == known.pool:
        # A solver that begins high up comes down in many steps, and not far.
        model.begin_with(known)
    solution = model.solve(seconds)
    if solution is None:
        return known, bound
    search = Walk(pieces, solution.pool, False)
    search.bases, search.descending = solution.bases, solution.descending
    search.scratch = solution.scratch
    return search, max(bound, solution.bound)
