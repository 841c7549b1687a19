# SPDX-License-Identifier: Apache-2.0
"""The smallest pool for a layout, by sequential placement and ejection search.

Input: a layout. Output: a plan. Sequential placement (sequential.py) tries to fit everything into
the peak live bytes; for chains it does. Else ejection search (circular_pool.py) looks for offsets
in a circular pool of that size, then for ever smaller pools, by bisection from the smallest pool of
sequential placement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...graph import Graph
from ...plan.plan import Plan
from ..params import DEFAULT_PARAMS, SearchParams
from . import circular_pool
from .layout import Layout
from .order import reordered
from .pieces import Piece, most_of, pieces_of
from .sequential import SequentialPlacement, plan_of

# How exact the walk's smallest pool is; whether tensors may reach around its end.
POOL_STEP, WRAPS = 0.002, (False, True)


def plan(graph: Graph) -> Plan:
    """The smallest pool found for layers one by one, in the order whose worst step is smallest."""
    order = reordered(graph)
    return order.noted(place("vmcu", Layout.singles(order.graph)))


def place(planner: str, layout: Layout, below: int | None = None) -> Plan:
    """The smallest pool found for a layout. below: as packed() has it."""
    return walked(planner, layout) or packed(planner, layout, below)


def linear(planner: str, layout: Layout) -> Plan:
    """The smallest pool found whose end no tensor reaches around."""
    rigid = linear_pieces(pieces_of(layout, both_ways=True))
    bound = max(piece.bound() for piece in rigid)
    return plan_of(planner, layout, smallest_found(rigid, bound), bound)


def linear_pieces(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces for a linear pool: a circular one in which none may be split."""
    return [replace(piece, whole=True) for piece in pieces]


def packed(
    planner: str,
    layout: Layout,
    below: int | None = None,
    params: SearchParams = DEFAULT_PARAMS,
) -> Plan:
    """The smallest pool found by sequential placement or by ejection search. below: bytes of
    another plan: ejection search looks for fewer only."""
    pieces = pieces_of(layout, params.descending)
    bound = max(piece.bound() for piece in pieces)
    return plan_of(planner, layout, smallest_found(pieces, bound, below, params), bound)


def smallest_found(
    pieces: Sequence[Piece],
    bound: int,
    below: int | None = None,
    params: SearchParams = DEFAULT_PARAMS,
) -> SequentialPlacement:
    """The smallest pool that sequential placement finds, or ejection search in fewer than `below`
    bytes."""
    known = smallest_sequential(pieces, bound)
    most = known.pool if below is None else min(known.pool, below)
    if not params.ejection or most <= bound:
        return known
    # Where one byte less is too little, a smaller pool is not worth the time that it takes.
    first = circular_pool.fits(pieces, most - 1, params.packing_insertions)
    if first is None:
        return known
    return circular_pool.smallest(pieces, bound, most - 1, params.packing_insertions) or first


def walked(
    planner: str,
    layout: Layout,
    limit: int = 0,
    hopeful: Callable[[int], bool] = lambda size: True,
    params: SearchParams = DEFAULT_PARAMS,
) -> Plan | None:
    """A plan in no more than the worst step's bytes, or `limit` if that is more, if one is found.
    hopeful: whether ejection search is worth its time in so many bytes."""
    free, ascending = pieces_of(layout, params.descending), pieces_of(layout, both_ways=False)
    bound = max(piece.bound() for piece in free)
    size = max(bound, limit)
    for tried in dict.fromkeys((bound, size)):
        for pieces, wraps in ((free, False), (free, True), (ascending, True)):
            search = SequentialPlacement(pieces, tried, wraps)
            if search.run():
                return plan_of(planner, layout, search, bound)
    asked = params.ejection and hopeful(size)
    insertions = len(free) * params.pool_insertions
    placement = circular_pool.fits(free, size, insertions) if asked else None
    return None if placement is None else plan_of(planner, layout, placement, bound)


def smallest_sequential(
    pieces: Sequence[Piece], bound: int, wraps: Sequence[bool] = WRAPS
) -> SequentialPlacement:
    """Sequential placement in the smallest pool that bisection finds, exact to POOL_STEP."""
    best = None
    low, high = bound, most_of(pieces)
    while best is None or high - low > max(low * POOL_STEP, 1):
        size = high if best is None else (low + high) // 2
        placement = next(
            (w for w in (SequentialPlacement(pieces, size, wrap) for wrap in wraps) if w.run()),
            None,
        )
        assert placement is not None or best is not None, "side by side is a placement"
        if placement is None:
            low = size
        else:
            best, high = placement, size
    return best


def least(plan: Plan) -> int:
    """The bytes of the worst step of a plan's order, below which no placement of layers one by one
    can go."""
    return max(piece.bound() for piece in pieces_of(plan.graph, both_ways=True))
