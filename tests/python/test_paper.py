# SPDX-License-Identifier: Apache-2.0
"""The benchmark that prints the paper's figures."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

import pytest
from builders.networks import SHARED, present

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "paper"))
import figures
import run
from bottlenecks import TABLE_2, modules

# The estimate for k rows between the layers, computed once by hand from table 2.
LINES = {"S1": 9344, "S4": 6144, "B1": 97176, "B5": 60632, "B12": 20488, "B16": 21312}


def test_configurations_are_the_papers() -> None:
    path = present(SHARED.parent / "data" / "vmcu_table2.csv")
    with path.open(newline="") as theirs, TABLE_2.open(newline="") as ours:
        expected = [{k: v for k, v in row.items() if k != "note"} for row in csv.DictReader(theirs)]
        assert list(csv.DictReader(ours)) == expected


def rows_of(table: str) -> dict[str, list[str]]:
    """A table of the page, by network."""
    page = (run.ROOT / "doc" / "results.md").read_text(encoding="utf-8")
    block = page.partition(f"<!-- {table} -->")[2].partition(f"<!-- end of {table} -->")[0]
    rows = [line.strip("| ").split(" | ") for line in block.splitlines() if "| " in line]
    return {name: pools for name, *pools in rows[2:]}


def test_the_page_has_the_own_networks() -> None:
    assert list(rows_of("own")) == list(figures.OWN)


@pytest.mark.parametrize("name", figures.OWN)
def test_the_page_has_the_figures_of_the_own_networks(name: str, tmp_path: Path) -> None:
    [row] = figures.planned("", figures.built([name], str(tmp_path))).rows
    assert row == (name, *rows_of("own")[name]), f"{run.command('own')} --write doc/results.md"


def test_the_page_of_papers_has_the_figures_of_the_tables() -> None:
    """Numbers beside the paper's, where one of these commands prints them."""
    results = (run.ROOT / "doc" / "results.md").read_text(encoding="utf-8")
    papers = (run.ROOT / "doc" / "papers.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in papers.splitlines() if run.command("") in line]
    for claim, here, _, where, _ in rows:
        name = where.partition(run.command(""))[2].rstrip("`")
        block = results.partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0]
        for number in re.findall(r"[\d,]*\d[.,]\d+", here):
            assert re.search(rf"(?<![\d.,]){number}(?!\d)", block), f"{claim}: {number}"
    assert len(rows) >= len(figures.TABLES) - 1


def test_estimates_of_rows_between_layers() -> None:
    assert {m.name: m.line_bytes() for m in modules() if m.name in LINES} == LINES


@pytest.mark.parametrize("limit", [7, 8, 9, 15, 40])
def test_the_largest_that_fits_is_found(limit: int) -> None:
    assert figures.largest(lambda size: size <= limit, 7) == min(limit, 7 * figures.MOST_TIMES)


def test_a_table_is_written_between_its_markers(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    text = "before\n<!-- pointwise -->\nold\n<!-- end of pointwise -->\nafter\n"
    page.write_text(text)
    nowhere = str(tmp_path)
    assert run.main(["pointwise", "--models", nowhere, "--write", str(page)]) == 0
    written = page.read_text()
    assert written.startswith("before\n<!-- pointwise -->\n`python benchmarks/paper/run.py pointw")
    assert written.endswith("\n<!-- end of pointwise -->\nafter\n") and "old" not in written
    assert "| 80x80, 16 -> 16 | 102,400 | 50.0 % | 204,864" in written
    assert "are missing" in written
    run.main(["pointwise", "--models", nowhere, "--write", str(page)])
    assert page.read_text() == written


def test_a_page_without_markers_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    page.write_text("nothing\n")
    with pytest.raises(SystemExit):
        run.main(["pointwise", "--models", str(tmp_path), "--write", str(page)])
    assert page.read_text() == "nothing\n"
