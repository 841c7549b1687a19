# SPDX-License-Identifier: Apache-2.0
"""Placement of a few pieces at a time in a circle of given size."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import pytest
from builders.dags import Dag
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.planner.places import circular_pool, rolling_horizon, smallest_pool
from vmcu_tools.planner.places.layout import Layout
from vmcu_tools.planner.places.pieces import Piece, Way, pieces_of
from vmcu_tools.planner.places.sequential import SequentialPlacement

COUNT = 40
# Of the solver's effort.
LITTLE = 0.001


@functools.cache
def layout(seed: int) -> Layout:
    return Layout.singles(Dag(seed, COUNT).graph())


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few pieces at a time, of few: many times over."""
    monkeypatch.setattr(rolling_horizon, "SPAN", 8)
    monkeypatch.setattr(rolling_horizon, "KEPT", 3)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_found_is_right(seed: int, narrow: None) -> None:
    free = pieces_of(layout(seed), both_ways=True)
    bound = max(piece.bound() for piece in free)
    size = smallest_pool.smallest_sequential(free, bound).pool
    plan = smallest_pool.rolled("vmcu", layout(seed), size)
    assert plan is not None and plan.pool_bytes == size
    assert len(free) > 4 * rolling_horizon.SPAN
    VirtualMcu(plan).prove()


def test_the_search_leaves_dead_ends() -> None:
    """The first bases for the pieces before may leave none for a later piece."""
    free = pieces_of(layout(1), both_ways=True)
    found = smallest_pool.smallest_sequential(free, max(piece.bound() for piece in free))
    assert found.backtracks > 0


def test_what_has_no_places_is_given_up(narrow: None) -> None:
    free = pieces_of(layout(0), both_ways=True)
    bound = max(piece.bound() for piece in free)
    assert smallest_pool.rolled("vmcu", layout(0), bound - 1) is None
    assert rolling_horizon.fits(free, bound - 1, LITTLE) is None
    assert rolling_horizon.fits(free, max(piece.size for piece in free) - 1) is None


class Narrow:
    """In place of the constraint model: pieces from number `hard` on have places only together
    with at least `wanted` of those before them."""

    hard, wanted = 12, 7

    def __init__(self, pieces: Sequence[Piece], size: int, fixed: Mapping[str, int]):
        self.names = [piece.name for piece in pieces]
        self.fixed = fixed
        asked.append((int(self.names[0]), len(pieces)))
        assert sorted(fixed, key=int) == [str(number) for number in range(int(self.names[0]))]

    def solve(self, effort: float) -> SequentialPlacement | None:
        numbers = [*map(int, self.names)]
        if numbers[-1] >= self.hard and self.hard - numbers[0] < self.wanted:
            return None
        found = SequentialPlacement((), 1, True)
        found.bases = dict.fromkeys(self.names, numbers[0])
        return found


asked: list[tuple[int, int]] = []


def chain(count: int) -> list[Piece]:
    return [Piece(str(number), 1, 1, (Way(False, ()),), True) for number in range(count)]


def test_places_are_given_up_again(monkeypatch: pytest.MonkeyPatch, narrow: None) -> None:
    """Ever more of them, and those that are tried anew are the ones that count."""
    asked.clear()
    monkeypatch.setattr(circular_pool, "CircularPool", Narrow)
    search = rolling_horizon.fits(chain(14), 100)
    # From 6 on there are 6 in front of the hard ones, which is one too few.
    assert asked == [(0, 8), (3, 8), (6, 8), (3, 11)]
    assert search is not None and len(search.bases) == 14
    assert search.bases["2"] == 0 and search.bases["6"] == 3


@pytest.mark.parametrize("name, value, last", [("WIDEST", 11, (3, 11)), ("MOST_FAILED", 0, (6, 8))])
def test_it_ends(
    name: str, value: int, last: tuple[int, int], monkeypatch: pytest.MonkeyPatch, narrow: None
) -> None:
    asked.clear()
    monkeypatch.setattr(circular_pool, "CircularPool", Narrow)
    monkeypatch.setattr(Narrow, "wanted", 100)
    monkeypatch.setattr(rolling_horizon, name, value)
    assert rolling_horizon.fits(chain(14), 100) is None
    assert asked[-1] == last
