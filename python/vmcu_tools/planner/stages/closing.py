# SPDX-License-Identifier: Apache-2.0
"""Gaps between what is alive and what has places, closed by other stages.

Tensors lie in one piece each, so that a stage may have no places for them in the bytes that are
alive. Others of its layers may: with another tile, or with the first layer ahead (layout.Cut).
Where none does, there are cuts without such a stage.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..places.layout import Cut
from ..places.pieces import Piece
from .cheapest import Span
from .cuts import Cutter

# How often there are cuts without some stages, and the part of a model's cycles that what is tried
# may cost more.
AGAIN, AS_CHEAP = 4, 0.02
# Of the usual effort of a solver, with which places are nearly always found where there are some.
PART = 0.3
Cuts = tuple[Cut, ...]
Pieces = tuple[Piece, ...]


def lodged_cuts(cutter: Cutter, limit: int) -> Iterator[Cuts]:
    """Cuts of which each stage by itself has places for its tensors in `limit` bytes, if some are
    found that cost little more than the cheapest."""
    first = cutter.cheapest(limit)
    most = cutter.cost(first) + AS_CHEAP * cutter.cycles
    cuts: Cuts | None = first
    without: frozenset[Span] = frozenset()
    for _ in range(AGAIN):
        if cuts is None or cutter.cost(cuts) > most:
            return
        found, homeless = lodged(cutter, cuts, limit)
        if not homeless:
            yield found
            return
        without |= homeless
        cuts = cutter.cheapest_without(limit, without)


def lodged(cutter: Cutter, cuts: Cuts, limit: int) -> tuple[Cuts, frozenset[Span]]:
    """The cuts with other stages in place of those without places in `limit` bytes, and the nodes
    of stages for which there are none."""
    found, homeless = list(cuts), set()
    for number, pieces in cutter.alone(cuts).items():
        if cutter.places(pieces, limit, PART):
            continue
        other = fitting(cutter, cuts, number, limit)
        if other is None:
            homeless.add((cuts[number].first, cuts[number].stop))
        else:
            found[number] = other
    return tuple(found), frozenset(homeless)


def closest(cutter: Cutter, limit: int, known: int) -> tuple[Cuts, int] | None:
    """The cheapest cuts with other stages where they have no places, and the fewest bytes from
    `limit` on in which each stage by itself has some, with its first layer ahead if need be; None
    if they are no fewer than `known`."""
    cuts = cutter.cheapest(limit)
    found, least = list(cuts), limit
    for number, pieces in cutter.alone(cuts).items():
        if cutter.places(pieces, least):
            continue
        other = fitting(cutter, cuts, number, least)
        if other is not None:
            found[number] = other
            continue
        early = ahead(cutter, cuts, number, pieces)
        if early is None or not cutter.places(early, known - 1, PART):
            return None
        most, found[number] = known - 1, cutter.ahead(cuts[number])
        least = max(least, *(piece.bound() for piece in early))
        while least < most:
            size = (least + most) // 2
            if cutter.places(early, size, PART):
                most = size
            else:
                least = size + 1
    return tuple(found), least


def fitting(cutter: Cutter, cuts: Cuts, number: int, limit: int) -> Cut | None:
    """The first of the choices that has places in `limit` bytes."""
    tried = choices(cutter, cuts, number, limit)
    return next((cut for cut, pieces in tried if cutter.places(pieces, limit, PART)), None)


def choices(cutter: Cutter, cuts: Cuts, number: int, limit: int) -> Iterator[tuple[Cut, Pieces]]:
    """Other stages of a stage's layers within `limit` bytes that cost little more, the cheap ones
    first, each as it is and with the first layer ahead, where that helps; with their pieces."""
    own = cuts[number]
    most = cutter.cost((own,)) + AS_CHEAP * cutter.cycles
    for cut in dict.fromkeys((own, *cutter.others(cuts, number, limit))):
        if cutter.cost((cut,)) > most:
            return
        pieces = cutter.with_other(cuts, number, cut)
        if cut != own:
            yield cut, pieces
        early = ahead(cutter, (*cuts[:number], cut, *cuts[number + 1 :]), number, pieces)
        if early is not None:
            yield cutter.ahead(cut), early


def ahead(cutter: Cutter, cuts: Cuts, number: int, pieces: Pieces) -> Pieces | None:
    """What a stage has to place with its first layer ahead; None if that brings nothing closer
    together than `pieces`, which it has without."""
    early = cutter.with_other(cuts, number, cutter.ahead(cuts[number]))
    return early if closer(early, pieces) else None


def closer(pieces: Pieces, others: Pieces) -> bool:
    """True if one of the pieces may trail closer below another than it may among the others."""
    below = {
        (piece.name, live.name): live.clearance.below
        for piece in others
        for live in piece.ways[0].live
    }
    return any(
        live.clearance.below < below.get((piece.name, live.name), live.clearance.below)
        for piece in pieces
        for live in piece.ways[0].live
    )
