# SPDX-License-Identifier: Apache-2.0
"""Placement of many pieces in a circle of given size, a few at a time (a rolling horizon).

The solver of circle.py soon finds places for some dozen pieces and not for hundreds. So it is asked
for the next SPAN of them beside those that have places, of which the first few keep theirs; the
others have seen to it that something fits behind. Where there are no places, pieces that had some
give them up again, ever more of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import circle
from .cpsat import can_solve
from .pieces import Piece
from .walk import Walk

# Pieces that are looked at together, and of those how many then keep their places.
SPAN, KEPT = 40, 20
# The most pieces that are looked at together, and how often there may be no places for some.
WIDEST, MOST_FAILED = 120, 12


def fits(pieces: Sequence[Piece], size: int, effort: float = circle.EFFORT) -> Walk | None:
    """A placement in a circle of `size` bytes, None if none was found with so much effort for each
    part of the pieces."""
    if any(max(piece.size, piece.scratch) > size for piece in pieces) or not can_solve():
        return None
    search = Walk(pieces, size, True)
    start, back, failed = 0, 0, 0
    while start < len(pieces):
        first, stop = max(start - back, 0), min(start + SPAN, len(pieces))
        fixed = {piece.name: search.bases[piece.name] for piece in pieces[:first]}
        found = circle.Circle(pieces[first:stop], size, fixed).solve(effort)
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
