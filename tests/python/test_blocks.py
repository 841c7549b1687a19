# SPDX-License-Identifier: Apache-2.0
"""Placement of many buffers: blocks of several, and placements made lower by ejections."""

from __future__ import annotations

import random
import sys
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vmcu_lab.placement import Buffer, Instance, check, place
from vmcu_lab.placement.best_fit import best_fit
from vmcu_lab.placement.blocks import SIZE_BIASES, Builder, blocks_of
from vmcu_lab.placement.ejection import Ejection
from vmcu_lab.placement.geometry import Geometry
from vmcu_lab.placement.params import DEFAULT_PLACEMENT
from vmcu_lab.placement.portfolio import height_of

from scripts import ROOT, script

PAGE = ROOT / "doc" / "placement.md"
NEVER = float("inf")


def known() -> ModuleType:
    return script("known", "benchmarks/placement/known.py")


def checked(buffers: tuple[Buffer, ...], offsets: tuple[int, ...] | list[int]) -> int:
    return check(Instance(buffers), {b.id: o for b, o in zip(buffers, offsets, strict=True)})


@st.composite
def buffers(draw: st.DrawFn) -> tuple[Buffer, ...]:
    """Many that fit to each other by chance."""
    found = []
    for number in range(draw(st.integers(1, 30))):
        lower = draw(st.integers(0, 4))
        upper = draw(st.integers(lower + 1, 5))
        size, alignment = draw(st.integers(1, 5)), draw(st.sampled_from((1, 4)))
        found.append(Buffer(str(number), lower, upper, size, alignment))
    return tuple(found)


@settings(max_examples=200, deadline=None)
@given(buffers(), st.sampled_from(SIZE_BIASES), st.booleans(), st.integers(0, 9))
def test_any_placement_of_blocks_is_one_of_buffers(
    some: tuple[Buffer, ...], bias: float, paired: bool, seed: int
) -> None:
    blocks = Builder(some, bias, 0.3, paired, random.Random(seed)).run()
    roots = blocks.buffers()
    offsets = best_fit(roots)
    assert checked(some, blocks.unfold(offsets)) <= height_of(roots, offsets)
    # Nothing fits any more.
    shapes = [blocks.shapes[root] for root in blocks.roots]
    assert len({(lower, upper, align) for lower, upper, _, align in shapes}) == len(shapes)
    begins = {(lower, size, align) for lower, _, size, align in shapes}
    assert not begins & {(upper, size, align) for _, upper, size, align in shapes}


@pytest.mark.parametrize("seed", range(3))
def test_blocks_undo_cuts(seed: int) -> None:
    problem = known().cut(500, 2000, seed)
    blocks = blocks_of(problem.buffers, NEVER, DEFAULT_PLACEMENT)
    assert blocks is not None and len(blocks.roots) < 20
    again = blocks_of(problem.buffers, NEVER, DEFAULT_PLACEMENT)
    assert again == blocks


def test_buffers_that_do_not_fit_to_each_other_are_left_alone() -> None:
    dice = random.Random(1)
    some = [Buffer(str(n), 3 * n, 3 * n + dice.randint(5, 400), 1000 + n) for n in range(300)]
    assert blocks_of(some, NEVER, DEFAULT_PLACEMENT) is None


@settings(max_examples=60, deadline=None)
@given(buffers(), st.integers(0, 9))
def test_ejections_leave_a_lower_placement_or_none(some: tuple[Buffer, ...], seed: int) -> None:
    stacked, at = [], 0
    for b in some:
        at += -at % b.alignment
        stacked.append(at)
        at += b.size
    found = Ejection(Geometry(some), stacked, seed).run(1, 1, 300, NEVER)
    assert found == Ejection(Geometry(some), stacked, seed).run(1, 1, 300, NEVER)
    if found is not None:
        assert checked(some, found) < at


def test_ejections_lower_what_greedy_choices_leave() -> None:
    problem = known().cut(400, 100, 1)
    offsets = best_fit(problem.buffers)
    before = height_of(problem.buffers, offsets)
    ejection = Ejection(Geometry(problem.buffers), offsets, 1)
    found = ejection.run(known().CAPACITY, 1, 4000, NEVER)
    assert found is not None and checked(problem.buffers, found) < 0.9 * before


@pytest.mark.parametrize(("moments", "seed"), [(2000, 0), (2000, 1), (200, 1)])
def test_a_thousand_buffers_are_placed_as_the_page_says(moments: int, seed: int) -> None:
    line = known().row(1000, moments, seed, 50.0)[:-1]
    assert "| " + " | ".join(line) + " |" in PAGE.read_text(encoding="utf-8")
    assert float(line[-1]) <= 1.05


def test_the_command_on_the_page_is_that_of_its_table() -> None:
    module = known()
    table = sys.modules["pages"].Table("", module.COLUMNS, ())
    assert table.markdown(module.command("known")) in PAGE.read_text(encoding="utf-8")


def test_few_buffers_of_many_components_find_the_bound_with_blocks() -> None:
    """Blocks of several components are known to the searches' processes by number."""
    one = known().cut(120, 20, 3).buffers
    two = [Buffer(f"later {b.id}", b.lower + 99, b.upper + 99, b.size) for b in one]
    found = place(Instance((*one, *two)), seconds=20, workers=2)
    assert found.height < 1.1 * known().CAPACITY
