# SPDX-License-Identifier: Apache-2.0
"""The page on placement has the figures of random graphs and training steps that commands print."""

from __future__ import annotations

import json
import sys
from itertools import takewhile
from types import ModuleType

import pytest

from scripts import ROOT, script

PAGE = ROOT / "doc" / "placement.md"
STEPS = ROOT / "benchmarks" / "training" / "steps"


def dags() -> ModuleType:
    return script("dags", "benchmarks/dags/run.py")


def training() -> ModuleType:
    return script("training", "benchmarks/training/run.py")


def line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


def rows(heading: str) -> list[list[str]]:
    """The cells of the table that begins with a heading."""
    lines = PAGE.read_text(encoding="utf-8").split(f"| {heading} |")[1].splitlines()[2:]
    table = takewhile(lambda line: line.startswith("|"), lines)
    return [row.strip("| ").split(" | ") for row in table]


def without(row: list[str], column: int) -> list[str]:
    """A row but for one of its cells."""
    return [*row[:column], *row[column + 1 :]]


@pytest.mark.parametrize("count", [20, 40])
def test_random_graphs_come_out_as_on_the_page(count: int) -> None:
    cells = dags().row(count, 2)
    found = [row for row in rows("nodes") if row[0] == str(count)]
    assert [row[:-1] for row in found] == [list(cells[:-1])]


def test_no_simple_order_of_a_random_graph_is_better_and_small_ones_are_proven() -> None:
    columns = dags().COLUMNS
    for row in rows("nodes"):
        cells = dict(zip(columns, row, strict=True))
        assert cells["worse"] == "0"
        if int(cells["nodes"].replace(",", "")) <= 60:
            assert cells["proven"] == cells["graphs"]
    assert {int(row[0].replace(",", "")) for row in rows("nodes")} == {*dags().NODES}


def test_large_random_graphs_are_placed_close_to_their_worst_step() -> None:
    module = dags()
    found = rows(" | ".join(module.LARGE_COLUMNS))
    for row in found:
        cells = dict(zip(module.LARGE_COLUMNS, row, strict=True))
        peak, height = (int(cells[name].replace(",", "")) for name in ("worst step", "placed"))
        assert peak <= height <= 1.12 * peak
        assert cells["above"] == f"{height / peak - 1:.1%}"
    assert {row[1] for row in found} == {"2,000", "5,000"}


@pytest.mark.parametrize("name", ["alexnet-1", "resnet18-1", "vgg11-1"])
def test_training_steps_come_out_as_on_the_page(name: str) -> None:
    found = training().saved(STEPS / f"{name}.json", 20.0)
    seconds = training().COLUMNS.index("seconds")
    page = [row for row in rows("step") if row[0] == name]
    assert [without(row, seconds) for row in page] == [without(list(found.row), seconds)]
    # Weights are there from the start to the end: their updates come behind all that read them.
    assert found.height == found.peak == found.bound


@pytest.mark.parametrize("name", ["alexnet-1", "resnet18-1"])
def test_limited_steps_come_out_as_on_the_page(name: str) -> None:
    module = script("limits", "benchmarks/training/limits.py")
    found = module.limited(STEPS / f"{name}.json")
    page = [row for row in rows("step, limited") if row[0] == name]
    assert [row[:-1] for row in page] == [list(found.row[:-1])]
    # The goal of the limit: a part of the step's time.
    shares = [float(row[5].strip("+%")) for row in rows("step, limited")]
    assert len(shares) == 26 and max(shares) <= 15


def test_figures_are_those_of_the_steps() -> None:
    """All 13 networks at both batch sizes, of the files that the steps are of."""
    steps = rows("step")
    assert [list(row) for row in training().figures(steps).rows] == rows("figure")
    networks = {name.rpartition("-")[0] for name, *_ in steps}
    names = sorted(f"{network}-{batch}" for network in networks for batch in (1, 32))
    assert (len(networks), [row[0] for row in steps]) == (13, names)
    for table in ("training", "training-figures"):
        manifest = PAGE.parent / "manifests" / "placement" / f"{table}.json"
        models = json.loads(manifest.read_text(encoding="utf-8"))["models"]
        assert sorted(models) == [f"{name}.json" for name in names]


def test_tables_stand_under_the_commands_that_print_them() -> None:
    text = PAGE.read_text(encoding="utf-8")
    limits = script("limits", "benchmarks/training/limits.py")
    blocks = [
        *((dags(), "python benchmarks/dags/run.py"), (training(), training().COMMAND)),
        (limits, limits.COMMAND),
    ]
    for module, command in blocks:
        assert sys.modules["pages"].Table("", module.COLUMNS, ()).markdown(command) in text
