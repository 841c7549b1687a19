# SPDX-License-Identifier: Apache-2.0
"""What is asked of solvers where the walk finds no places in the bytes of the worst step."""

from __future__ import annotations

import pytest
from builders.dags import Dag
from vmcu_tools.planner.places import circle, joint, swing
from vmcu_tools.planner.places.layout import Layout
from vmcu_tools.planner.places.order import Ordered, reordered
from vmcu_tools.planner.places.pieces import Piece, pieces_of
from vmcu_tools.planner.places.walk import Walk
from vmcu_tools.planner.stages import fusion

# Of solvers; whoever wants nothing but a gap needs less than who wants it as small as can be.
SECONDS, LONGER = 0.05, 0.2
# Graphs of builders/dags.py that have a gap after all: seed and nodes.
WITH_GAP = (19, 28)


def singles() -> Layout:
    """Layers one by one that have no places in the bytes of their worst step."""
    return Layout.singles(reordered(Dag(*WITH_GAP).graph()).graph)


def pieces() -> tuple[list[Piece], int]:
    free = pieces_of(singles(), both_ways=True)
    return free, max(piece.bound() for piece in free)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """The sizes of circles that are asked for, and whether they had places."""
    sizes: list[tuple[int, bool]] = []
    fits = circle.fits

    def logged(pieces: list[Piece], size: int, effort: float = circle.EFFORT) -> Walk | None:
        found = fits(pieces, size, effort)
        sizes.append((size, found is not None))
        return found

    monkeypatch.setattr(circle, "fits", logged)
    return sizes


def test_the_solver_begins_with_the_walks_places() -> None:
    """However little it may do; from side by side it would take it longer to find any."""
    free, bound = pieces()
    walked = swing.walked_least(free, bound, (False,))
    assert bound < swing.solved(free, bound, 1e-3)[0].pool < walked.pool
    assert swing.solved(free, bound, 1e-9) == (walked, bound)


def test_the_solver_is_not_asked_for_what_is_known() -> None:
    free, bound = pieces()
    best, _ = swing.solved(free, bound, SECONDS)
    walked = swing.walked_least(free, bound, (False,))
    assert swing.solved(free, bound, SECONDS, best.pool)[0].pool in (walked.pool, best.pool - 1)
    assert swing.solved(free, bound, SECONDS, best.pool + 1)[0].pool <= best.pool
    assert swing.solved(free, bound, SECONDS, bound) == (walked, bound)


def test_no_smaller_circle_is_asked_for_than_one_without_places(
    asked: list[tuple[int, bool]],
) -> None:
    plan = swing.packed("vmcu", singles(), LONGER)
    assert plan.pool_bytes > swing.least(plan), "this one has no gap any more"
    asked.clear()
    swing.packed("vmcu", singles(), LONGER, plan.pool_bytes)
    assert asked == [(plan.pool_bytes - 1, False)]


def test_layouts_are_packed_until_one_is_small_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    layout, belows = singles(), []
    solved = swing.solved

    def logged(pieces: list[Piece], bound: int, seconds: float, below: int | None) -> object:
        belows.append(below)
        return solved(pieces, bound, seconds, below)

    monkeypatch.setattr(swing, "solved", logged)
    plan = fusion.packed_best([layout], 0, SECONDS)
    belows.clear()
    best = fusion.packed_best([layout] * 3, plan.pool_bytes, 3 * SECONDS)
    assert best.placements == plan.placements and belows == [None]
    belows.clear()
    best = fusion.packed_best([layout] * 3, 0, 3 * SECONDS)
    assert best.pool_bytes <= plan.pool_bytes
    assert belows[:2] == [None, plan.pool_bytes] and len(belows) == 3


def test_one_order_is_placed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    order = reordered(Dag(*WITH_GAP).graph())
    orders = []
    place = swing.place

    def logged(planner: str, layout: Layout, *others: object) -> object:
        orders.append(layout.graph.nodes)
        return place(planner, layout, *others)

    monkeypatch.setattr(swing, "place", logged)
    monkeypatch.setattr(joint, "reordered", lambda *_: Ordered(order.graph, 0, 0))
    joint.in_order(order.graph, SECONDS, 1 << 30)
    assert len(orders) == 1
