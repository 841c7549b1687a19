# SPDX-License-Identifier: Apache-2.0
"""What is asked of solvers where the walk finds no places in the bytes of the worst step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from builders.dags import Dag
from random_builder import Builder
from random_graphs import convolution
from vmcu_tools.graph import Window
from vmcu_tools.ops.concat import Concat
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.places import circle, joint, swing
from vmcu_tools.planner.places.layout import Cut, Layout
from vmcu_tools.planner.places.order import Ordered, reordered
from vmcu_tools.planner.places.pieces import Piece, pieces_in, pieces_of, stage_memory
from vmcu_tools.planner.places.walk import Walk
from vmcu_tools.planner.stages import placing
from vmcu_tools.planner.stages.cuts import Cutter

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


def test_a_stages_pieces_have_what_is_alive_beside_it() -> None:
    """A tensor that is neither read nor written in the stage, but behind it."""
    b = Builder(np.random.default_rng(2))
    x = b.input((6, 6, 4))
    late, first = (convolution(b, x, Window(), 6, 6, 4) for _ in range(2))
    last = convolution(b, first, Window(), 6, 6, 4)
    both = b.node(Concat(2, (None, None)), [late, last], (6, 6, 8))
    graph = b.graph([both.name])
    layout = Layout(graph, tuple(Cut(*ends) for ends in ((0, 1), (1, 3), (3, 4))))
    found = {piece.name for piece in pieces_in(layout, pieces_of(layout, True), 1)}
    assert found == {x.name, late.name, first.name, last.name, stage_memory(1)}


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
    asked.clear()
    swing.packed("vmcu", singles(), LONGER, worth=plan.pool_bytes)
    assert asked == [(plan.pool_bytes - 1, False)]


def test_no_solver_is_asked_for_places_that_the_walk_finds(asked: list[tuple[int, bool]]) -> None:
    free, bound = pieces()
    known: Any = SimpleNamespace(placed={}, failed=0)
    assert Cutter.places(known, tuple(free), 2 * bound) and not asked
    assert not Cutter.places(known, tuple(free), bound) and known.failed == 1
    assert asked == [(bound, False)]
    assert not Cutter.places(known, tuple(free), bound) and len(asked) == 1


def test_layouts_are_packed_until_one_is_small_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    layout, most_given = singles(), []
    solved = swing.solved

    def logged(pieces: list[Piece], bound: int, seconds: float, below: int | None) -> object:
        most_given.append(below)
        return solved(pieces, bound, seconds, below)

    monkeypatch.setattr(swing, "solved", logged)
    thrice = {(Cut(0, number),): (layout, 0) for number in range(3)}
    plan = swing.packed("vmcu", layout, SECONDS)
    most_given.clear()
    cutter: Any = SimpleNamespace(lodged=lambda *_: True)
    best = placing.packed_best(cutter, thrice, plan.pool_bytes, 3 * SECONDS)
    assert best.placements == plan.placements and most_given == [None]
    most_given.clear()
    assert placing.packed_best(cutter, thrice, 0, 3 * SECONDS).pool_bytes <= plan.pool_bytes
    assert most_given[:2] == [None, plan.pool_bytes] and len(most_given) == 3
    most_given.clear()
    cutter.lodged = lambda cuts, limit: cuts == (Cut(0, 2),) or limit >= plan.pool_bytes
    assert placing.packed_best(cutter, thrice, 0, 3 * SECONDS).pool_bytes <= plan.pool_bytes
    assert most_given == [None, plan.pool_bytes], "a stage has no places in fewer bytes"


def test_no_more_bytes_are_tried_than_a_line_takes() -> None:
    """A stage whose tensors have places from 104 bytes on, where 100 are allowed at first."""
    sizes: list[int] = []

    def places(_: object, size: int) -> bool:
        sizes.append(size)
        return size >= 104

    cutter: Any = SimpleNamespace(
        alone=lambda _: {0: ()}, others=lambda *_: [None], with_other=lambda *_: (), places=places
    )
    assert Cutter.stretched(cutter, (Cut(0, 2),), 100, 1000) == 104 and 110 not in sizes
    sizes.clear()
    assert Cutter.stretched(cutter, (Cut(0, 2),), 100, 106) == 104 and max(sizes) == 105
    sizes.clear()
    assert Cutter.stretched(cutter, (Cut(0, 2),), 100, 104) == 104 and sizes == [100, 103]


@pytest.mark.parametrize(
    "line, stretched, wanted", [(100, 0, 100), (104, 104, 104), (104, 102, 102)]
)
def test_lines_are_tried_before_more_bytes_are_allowed(
    line: int, stretched: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 100 bytes, in which circles have no places."""

    limits = []

    def placed(_: object, limit: int, *others: object) -> SimpleNamespace | None:
        limits.append(limit)
        return SimpleNamespace(pool_bytes=limit) if limit > 100 else None

    cutter: Any = SimpleNamespace(
        bands={}, cheapest=lambda _: (), stretched=lambda *_: max(stretched, 100)
    )
    monkeypatch.setattr(placing, "placed_within", placed)
    monkeypatch.setattr(placing, "packed_best", lambda *_: SimpleNamespace(pool_bytes=line))
    monkeypatch.setattr(placing, "lodged_cuts", lambda *_: ())
    monkeypatch.setattr(placing, "closest", lambda *_: None)
    assert placing.placed(cutter, 100, CompileOptions()).pool_bytes == wanted
    assert limits == [100, *([wanted] if wanted < line else [])]


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
