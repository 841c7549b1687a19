# SPDX-License-Identifier: Apache-2.0
"""The smallest pool for a layout, by sequential placement and a constraint solver.

Input: a layout. Output: a plan. Sequential placement (sequential.py) tries to fit everything into
the peak live bytes; for chains it does. Else the constraint solver (circular_pool.py) is asked for
a circular pool of that size, then for ever smaller ones, linear before circular, by bisection from
the smallest pool of sequential placement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...graph import Graph
from ...plan.plan import Plan
from ..params import DEFAULT_PARAMS, SearchParams
from . import circular_pool, rolling_horizon
from .layout import Layout
from .order import reordered
from .pieces import Piece, most_of, pieces_of
from .sequential import SequentialPlacement, plan_of

# About how many circles are tried.
SOLVER_SIZES = 10
# Of more pieces the solver finds no linear pool within seconds; of more pairs that are alive
# together, each counted in both directions of a step, no circular one either.
SOLVER_PIECES, SOLVER_PAIRS = 160, 4000
# How exact the walk's smallest pool is; whether tensors may reach around its end.
POOL_STEP, WRAPS = 0.002, (False, True)


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
    rigid = linear_pieces(pieces_of(layout, both_ways=True))
    bound = max(piece.bound() for piece in rigid)
    return plan_of(planner, layout, smallest_found(rigid, bound, seconds / SOLVER_SIZES), bound)


def linear_pieces(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces for a linear pool: a circular one in which none may be split."""
    return [replace(piece, whole=True) for piece in pieces]


def packed(
    planner: str,
    layout: Layout,
    seconds: float,
    below: int | None = None,
    params: SearchParams = DEFAULT_PARAMS,
) -> Plan:
    """The smallest pool found by sequential placement, or by the solver for a linear, then for a
    circular pool. below: bytes of another plan: the solver is asked for fewer only."""
    pieces = pieces_of(layout, params.descending)
    bound = max(piece.bound() for piece in pieces)
    most, effort = below or most_of(pieces), seconds / SOLVER_SIZES if params.solver else 0.0
    line = smallest_found(linear_pieces(pieces), bound, effort, most)
    circle_ = smallest_found(pieces, bound, effort, min(line.pool, most))
    return plan_of(planner, layout, min(circle_, line, key=lambda found: found.pool), bound)


def smallest_found(
    pieces: Sequence[Piece], bound: int, effort: float, below: int | None = None
) -> SequentialPlacement:
    """The smallest pool that sequential placement finds, or the solver with so much effort for each
    size that it is asked for, in fewer than `below` bytes."""
    known = smallest_sequential(pieces, bound)
    if len(pieces) > SOLVER_PIECES or not effort:
        return known
    most = known.pool if below is None else min(known.pool, below)
    # Where one byte less is too little, a smaller pool is not worth the time that it takes.
    first = circular_pool.fits(pieces, most - 1, effort) if most > bound else None
    if first is None:
        return known
    return circular_pool.smallest(pieces, bound, first.pool, effort) or first


def walked(
    planner: str,
    layout: Layout,
    limit: int = 0,
    hopeful: Callable[[int], bool] = lambda size: True,
    params: SearchParams = DEFAULT_PARAMS,
) -> Plan | None:
    """A plan in no more than the worst step's bytes, or `limit` if that is more, if the walk or the
    solver finds one. hopeful: whether the solver is worth asking for so many bytes."""
    free, ascending = pieces_of(layout, params.descending), pieces_of(layout, both_ways=False)
    bound = max(piece.bound() for piece in free)
    size = max(bound, limit)
    for tried in dict.fromkeys((bound, size)):
        for pieces, wraps in ((free, False), (free, True), (ascending, True)):
            search = SequentialPlacement(pieces, tried, wraps)
            if search.run():
                return plan_of(planner, layout, search, bound)
    if sum(len(way.live) for piece in free for way in piece.ways) > SOLVER_PAIRS:
        return None
    asked = params.solver and hopeful(size)
    found = circular_pool.fits(free, size, params.pool_effort) if asked else None
    return None if found is None else plan_of(planner, layout, found, bound)


def rolled(
    planner: str, layout: Layout, size: int, params: SearchParams = DEFAULT_PARAMS
) -> Plan | None:
    """A plan in `size` bytes, if the solver finds one for some pieces at a time."""
    pieces = pieces_of(layout, params.descending)
    bound = max(piece.bound() for piece in pieces)
    found = rolling_horizon.fits(pieces, size, params.pool_effort) if bound <= size else None
    return None if found is None else plan_of(planner, layout, found, bound)


def smallest_sequential(
    pieces: Sequence[Piece], bound: int, wraps: Sequence[bool] = WRAPS
) -> SequentialPlacement:
    """Sequential placement in the smallest pool that bisection finds, exact to POOL_STEP."""
    best = None
    low, high = bound, most_of(pieces)
    while best is None or high - low > max(low * POOL_STEP, 1):
        size = high if best is None else (low + high) // 2
        found = next(
            (w for w in (SequentialPlacement(pieces, size, wrap) for wrap in wraps) if w.run()),
            None,
        )
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
