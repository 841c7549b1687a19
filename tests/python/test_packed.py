# SPDX-License-Identifier: Apache-2.0
"""Ejection search for the smallest pool, where no placement is found in the worst step's bytes."""

from __future__ import annotations

import numpy as np
import pytest
from builders.dags import Dag
from random_builder import Builder
from random_graphs import convolution
from vmcu_tools.graph import Window
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.ops.concat import Concat
from vmcu_tools.planner.places import circular_pool, smallest_pool
from vmcu_tools.planner.places.layout import Cut, Layout
from vmcu_tools.planner.places.order import reordered
from vmcu_tools.planner.places.pieces import Piece, pieces_in, pieces_of, stage_memory
from vmcu_tools.planner.places.sequential import SequentialPlacement

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
    fits = circular_pool.fits

    def logged(
        pieces: list[Piece], size: int, insertions: int = 4_000
    ) -> SequentialPlacement | None:
        found = fits(pieces, size, insertions)
        sizes.append((size, found is not None))
        return found

    monkeypatch.setattr(circular_pool, "fits", logged)
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


def test_no_search_for_what_is_known(asked: list[tuple[int, bool]]) -> None:
    plan = smallest_pool.packed("vmcu", singles())
    assert plan.pool_bytes > smallest_pool.least(plan), "this one has no gap any more"
    free, bound = pieces()
    walked = smallest_pool.smallest_sequential(free, bound).pool
    assert asked[0][0] == walked - 1 and all(bound <= size < walked for size, _ in asked)
    asked.clear()
    smallest_pool.packed("vmcu", singles(), plan.pool_bytes)
    assert asked == [(plan.pool_bytes - 1, False)]


def test_nothing_reaches_around_the_end_of_a_linear_pool() -> None:
    plan = smallest_pool.linear("vmcu", singles())
    bound = smallest_pool.smallest_sequential(*pieces(), (False,)).pool
    assert plan.pool_bytes <= bound
    for placement in plan.placements.values():
        assert 0 <= placement.base <= plan.pool_bytes - placement.ring
    VirtualMcu(plan).prove()
