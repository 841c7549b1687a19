# SPDX-License-Identifier: Apache-2.0
"""Networks with many branches are planned as the page on stages has it, and soon."""

from __future__ import annotations

import re
from types import ModuleType

import pytest
from vmcu_tools.planner.params import TILES, SearchParams
from vmcu_tools.planner.places import smallest_pool
from vmcu_tools.planner.places.layout import Layout
from vmcu_tools.planner.places.order import reordered
from vmcu_tools.planner.places.pieces import pieces_of
from vmcu_tools.planner.stages.partition import UNLIMITED, Partitioner

from scripts import ROOT, script

PAGE = ROOT / "doc" / "fusion.md"
# The others take too long for a test.
SOON = ("GRU, 16 steps", "GhostNet", "YOLO head")
# Computers that do other things as well take longer than the page says.
SLOWER, AT_LEAST = 4.0, 10.0


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return script("graphs", "benchmarks/graphs/run.py")


def on_page(benchmark: ModuleType) -> dict[str, tuple[str, ...]]:
    """The table's rows by network, seconds last."""
    page = PAGE.read_text(encoding="utf-8")
    found = re.search("<!-- graphs -->(.*?)<!-- end of graphs -->", page, re.DOTALL)
    assert found is not None and benchmark.command(benchmark.TABLE) in found[1]
    rows = [line.strip("| ").split(" | ") for line in found[1].splitlines() if "|" in line]
    assert tuple(rows[0]) == benchmark.COLUMNS
    return {name: tuple(cells) for name, *cells in rows[2:]}


def test_the_page_has_all_networks(benchmark: ModuleType) -> None:
    assert [*on_page(benchmark)] == benchmark.on_page()


@pytest.mark.parametrize("name", SOON)
def test_pools_are_those_of_the_page(name: str, benchmark: ModuleType) -> None:
    found = benchmark.planned(name)
    _, *cells, _ = found.row
    *expected, seconds = on_page(benchmark)[name]
    assert cells == expected, f"{benchmark.command('graphs')} --write doc/{PAGE.name}"
    assert found.seconds <= max(SLOWER * float(seconds), AT_LEAST)


def test_the_walk_ends_in_pools_of_few_bytes(benchmark: ModuleType) -> None:
    """A part of a byte is no step."""
    layout = Layout.singles(benchmark.NETWORKS["GRU, 16 steps"]())
    pieces = pieces_of(layout, both_ways=True)
    bound = max(piece.bound() for piece in pieces)
    assert bound <= smallest_pool.smallest_sequential(pieces, bound).pool <= 1.2 * bound


def test_a_stage_goes_over_the_branches_of_two_cells(benchmark: ModuleType) -> None:
    graph = reordered(benchmark.NETWORKS["NASNet, 2 cells"]()).graph
    partitioner = Partitioner(graph, False, SearchParams(tiles=TILES[:1]))
    least = partitioner.least_peak(TILES[:1], UNLIMITED)
    longest = max(cut.stop - cut.first for cut in partitioner.cheapest(least))
    # Cell by cell it takes 36,604 bytes at least, with whatever tiles.
    assert longest > 64 and least < 36_500
