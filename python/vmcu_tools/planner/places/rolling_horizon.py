# SPDX-License-Identifier: Apache-2.0
"""Placement of many pieces in a circular pool of given size, some at a time (a rolling horizon).

Input: pieces and a size. Output: offsets, or None. The solver of circular_pool.py soon places some
dozen pieces and not hundreds. It is asked for the next SPAN of them beside those that have offsets,
of which the first KEPT keep theirs. If there is no placement, pieces give up their offsets again,
ever more of them. doc/planner.md says what it is worth.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..params import DEFAULT_PARAMS
from . import circular_pool
from .cpsat import can_solve
from .pieces import Piece
from .sequential import SequentialPlacement

# Pieces that are looked at together, and of those how many then keep their places.
SPAN, KEPT = 40, 20
# The most pieces that are looked at together, and how often there may be no places for some.
WIDEST, MOST_FAILED = 120, 12


def fits(
    pieces: Sequence[Piece], size: int, effort: float = DEFAULT_PARAMS.pool_effort
) -> SequentialPlacement | None:
    """A placement in a circle of `size` bytes, None if none was found with so much effort for each
    part of the pieces."""
    if any(max(piece.size, piece.scratch) > size for piece in pieces) or not can_solve():
        return None
    search = SequentialPlacement(pieces, size, True)
    start, back, failed = 0, 0, 0
    while start < len(pieces):
        first, stop = max(start - back, 0), min(start + SPAN, len(pieces))
        fixed = {piece.name: search.bases[piece.name] for piece in pieces[:first]}
        found = circular_pool.CircularPool(pieces[first:stop], size, fixed).solve(effort)
        if found is not None:
            search.bases |= found.bases
            search.descending |= found.descending
            search.scratch |= found.scratch
            start, back = stop if stop == len(pieces) else start + KEPT, 0
            continue
        back, failed = back + KEPT, failed + 1
        if first == 0 or stop - first >= WIDEST or failed > MOST_FAILED:
            return None
    return search
