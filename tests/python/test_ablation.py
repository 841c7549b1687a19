# SPDX-License-Identifier: Apache-2.0
"""Cells of the tables of doc/planner.md that cost little CPU time are computed again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders.networks import SHARED, present
from test_tables_again import block_of, lines
from vmcu_tools.planner.params import DEFAULT_PARAMS

from scripts import script

ablation = script("ablation", "benchmarks/decisions/ablation.py")


def cell(table: str, technique: str, case: str) -> str:
    """What the page says where a technique is off, none if it has no name."""
    # Rules between columns and rows are lines of the block, too.
    columns, _, *rows = (line for line in lines(block_of(f"planner/{table}")) if len(line) > 1)
    name = f"without {technique}" if technique else "all techniques"
    row = next(row for row in rows if row[0] == name)
    return row[columns.index(case)]


@pytest.mark.parametrize(
    ("technique", "case"),
    [
        ("execution order", "GRU, 16 steps"),
        ("order of whole tensors", "GRU, 16 steps"),
        ("fused stages", "GhostNet, BlazeFace"),
        ("in-place alias in stages", "GhostNet, BlazeFace"),
    ],
)
def test_cells_of_the_page_are_computed_again(technique: str, case: str, tmp_path: Path) -> None:
    found = ablation.cases(Path("nowhere"), str(tmp_path))[case]
    usual = ablation.figures(found, DEFAULT_PARAMS)
    without = ablation.figures(found, replace(DEFAULT_PARAMS, **ablation.OFF[technique]))
    assert ablation.change(without, usual) == cell("ablation", technique, case)


@pytest.mark.parametrize("technique", ["", "recomputation"])
def test_a_limit_is_met_as_on_the_page(technique: str, tmp_path: Path) -> None:
    present(SHARED / f"{ablation.VWW}.tflite")
    case, found = list(ablation.limited(SHARED, str(tmp_path)).items())[-1]
    params = replace(DEFAULT_PARAMS, **ablation.OFF.get(technique, {}))
    figures = ablation.figures(found, params)
    assert ablation.told(figures) == cell("ablation-limits", technique, case)


def test_each_technique_can_be_switched_off() -> None:
    """Each field of SearchParams that is a switch has a row."""
    switches = {name for name, value in vars(DEFAULT_PARAMS).items() if value is True}
    off = {name for changes in ablation.OFF.values() for name in changes}
    assert switches <= off
