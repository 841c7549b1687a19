# SPDX-License-Identifier: Apache-2.0
"""Cells of the ablations on the pages that cost little CPU time are computed again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders.networks import SHARED, present
from test_tables_again import block_of, lines
from vmcu_lab.placement.params import DEFAULT_PLACEMENT
from vmcu_tools.planner.params import DEFAULT_PARAMS

from scripts import script

ablation = script("ablation", "benchmarks/decisions/ablation.py")
placing = script("ablation_placement", "benchmarks/decisions/ablation_placement.py")


def named(technique: str) -> str:
    """The row where a technique is off, none if it has no name."""
    return f"without {technique}" if technique else "all techniques"


def row_of(table: str, name: str) -> dict[str, str]:
    """The cells of a row, by column."""
    # Rules between columns and rows are lines of the block, too.
    columns, _, *rows = (line for line in lines(block_of(table)) if len(line) > 1)
    return dict(zip(columns, next(row for row in rows if row[0] == name), strict=True))


def cell(table: str, technique: str, case: str) -> str:
    return row_of(table, named(technique))[case]


@pytest.mark.parametrize(
    ("technique", "case"),
    [
        ("execution order", "GRU, 16 steps"),
        pytest.param("fused stages", "GhostNet, BlazeFace", marks=pytest.mark.slow),
        ("in-place alias in stages", "GhostNet, BlazeFace"),
    ],
)
def test_cells_of_the_page_are_computed_again(technique: str, case: str, tmp_path: Path) -> None:
    found = ablation.cases(Path("nowhere"), str(tmp_path))[case]
    usual = ablation.figures(found, {})
    without = ablation.figures(found, ablation.OFF[technique])
    assert ablation.change(without, usual) == cell("planner/ablation", technique, case)


@pytest.mark.parametrize("technique", ["", "recomputation"])
def test_a_limit_is_met_as_on_the_page(technique: str, tmp_path: Path) -> None:
    present(SHARED / f"{ablation.VWW}.tflite")
    case, found = list(ablation.limited(SHARED, str(tmp_path)).items())[-1]
    figures = ablation.figures(found, ablation.OFF.get(technique, {}))
    assert ablation.told(figures) == cell("fusion/ablation-limits", technique, case)


def test_each_technique_can_be_switched_off() -> None:
    """Each field of SearchParams that is a switch has a row."""
    switches = {name for name, value in vars(DEFAULT_PARAMS).items() if value is True}
    off = {name for changes in ablation.OFF.values() for name in changes}
    assert switches <= off


@pytest.mark.parametrize(
    ("group", "technique"),
    [
        ("hundreds of buffers", "branch and bound"),
        ("buffers with gaps", "local search of orders"),
        ("two memories (cost)", "more than two orders"),
    ],
)
def test_placements_are_computed_again(group: str, technique: str) -> None:
    """Those that no clock ends."""
    measure, off = placing.GROUPS[group]
    found = measure(replace(DEFAULT_PLACEMENT, **off[technique]))
    row = row_of("placement/ablation-placement", f"{group}: {named(technique)}")
    assert (row["bytes"], row["bound"]) == (f"{found.found:,}", f"{found.bound:,}")


def test_each_technique_of_placement_can_be_switched_off() -> None:
    switches = {name for name, value in vars(DEFAULT_PLACEMENT).items() if value is True}
    off = {name for _, group in placing.GROUPS.values() for one in group.values() for name in one}
    assert switches <= off
