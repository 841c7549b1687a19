# SPDX-License-Identifier: Apache-2.0
"""Places in several memories: each has a pool, and each pool is a circle of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...plan.plan import Plan
from ...plan.pools import Region, pools_of
from ..places import circular_pool
from ..places.layout import Layout
from ..places.pieces import Piece, pieces_of, scratch_of
from ..places.sequential import SequentialPlacement, plan_of
from .assign import Assigner, Assignment, Problem, restricted

# Of ejection search, for each pool.
MEMORY_INSERTIONS = 16_000
# By which part less of a memory is used each time that there are no places in it, and how often.
MEMORY_STEP, MEMORY_TRIES = 0.03, 12


@dataclass(frozen=True, eq=False)
class Places:
    """An assignment, and by memory where its pieces are: a finished search."""

    assignment: Assignment
    walks: tuple[SequentialPlacement, ...]


def placed(problem: Problem, regions: Sequence[Region]) -> Places | None:
    """The best assignment that has places; None if none was found."""
    assigner = Assigner(problem, regions)
    sizes = [region.capacity for region in regions]
    for _ in range(MEMORY_TRIES):
        assignment = assigner.solve(sizes)
        if assignment is None:
            return None
        walks = [
            in_one(of_memory(problem, assignment.memory, memory), region.capacity)
            for memory, region in enumerate(regions)
        ]
        short = [memory for memory, walk in enumerate(walks) if walk is None]
        if not short:
            return Places(assignment, tuple(walk for walk in walks if walk is not None))
        for memory in short:
            sizes[memory] -= int(MEMORY_STEP * regions[memory].capacity)
    return None


def of_memory(problem: Problem, chosen: Mapping[str, int], memory: int) -> list[Piece]:
    """The pieces of one memory, as if there were no others."""
    names = {name for name, number in chosen.items() if number == memory}
    floors: dict[str, int] = {}
    for levels in problem.levels.values():
        here = {name: level for name, level in levels.items() if name in names}
        most = int(sum(here.values(), start=np.zeros(1, np.int64)).max())
        floors |= {name: max(most, floors.get(name, 0)) for name in here}
    return restricted(problem.pieces, names, floors)


def in_one(pieces: Sequence[Piece], capacity: int) -> SequentialPlacement | None:
    """Places in a circle of at most `capacity` bytes, of few where that is easy."""
    if not pieces:
        return SequentialPlacement(pieces, 0, False)
    bound = max(piece.bound() for piece in pieces)
    if bound > capacity:
        return None
    ascending = [_ascending(piece) for piece in pieces]
    for tried, wraps in ((pieces, False), (pieces, True), (ascending, True)):
        search = SequentialPlacement(tried, bound, wraps)
        if search.run():
            return search
    walks = (SequentialPlacement(pieces, capacity, wraps) for wraps in (False, True))
    placement = circular_pool.fits(pieces, bound, MEMORY_INSERTIONS // 4)
    placement = placement or circular_pool.fits(pieces, capacity, MEMORY_INSERTIONS)
    placement = placement or next((walk for walk in walks if walk.run()), None)
    if placement is None or placement.pool == bound:
        return placement
    return circular_pool.smallest(pieces, bound, capacity, MEMORY_INSERTIONS // 10) or placement


def _ascending(piece: Piece) -> Piece:
    return replace(piece, ways=piece.ways[:1])


def plan_from(layout: Layout, places: Places, regions: Sequence[Region]) -> Plan:
    """The plan of what has been placed."""
    pools = [walk.pool for walk in places.walks]
    pieces = pieces_of(layout, both_ways=True)
    circles = pools_of(pools)
    whole = SequentialPlacement(pieces, circles[-1].stop, False)
    for pool, walk in zip(circles, places.walks, strict=True):
        whole.bases |= {name: pool.start + base for name, base in walk.bases.items()}
        whole.descending |= walk.descending
    whole.scratch = {
        piece.name: whole.bases[scratch_of(piece.name)] for piece in pieces if piece.scratch
    }
    plan = plan_of("vmcu", layout, whole, whole.pool)
    sized = zip(regions, pools, strict=True)
    return replace(
        plan, regions=tuple(replace(region, pool_bytes=pool) for region, pool in sized), notes=()
    )
