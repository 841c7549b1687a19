# SPDX-License-Identifier: Apache-2.0
"""Times of networks on a board whose code and constants are in serial flash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from vmcu_bench.cycles.model import bench, emulated
from vmcu_tools.boards.table import flash_of, known
from vmcu_tools.compiler import compile_model
from vmcu_tools.frontends import load
from vmcu_tools.passes import optimize
from vmcu_tools.passes.int4_weights import use_int4_weights
from vmcu_tools.plan.chunks import WeightStore
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.params import DEFAULT_PARAMS
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.report.cycles import printed
from vmcu_tools.report.time import board_seconds

# A board that runs from serial flash, and its flash as a weights file's memory.
BOARD = "rpi_pico2/rp2350a/m33"
AHEAD = WeightStore(18e6, 2e-6)


def serial_row(
    name: str, file: Path, published: Mapping[str, str], int4: bool = False
) -> tuple[str, ...]:
    """The cells of a network's row in the table of serial flash."""
    place = known()[BOARD]
    flash = flash_of(place, None)
    assert flash is not None and place.megahertz is not None
    graph = optimize(load(file))
    options = CompileOptions(params=replace(DEFAULT_PARAMS, flash=flash))
    plan = make_plan(use_int4_weights(graph) if int4 else graph, options, prove=False)
    report = bench(plan, file.stem, emulated(place.cpu), flash=flash)
    assert report.cycles is not None and report.flash_waits is not None
    spent, waits = (1e-3 * n / place.megahertz for n in (report.cycles, report.flash_waits))
    ahead = compile_model(file, CompileOptions(external_weights=AHEAD))
    return (
        name + ", int4 weights" * int4,
        f"{spent - waits:.2f}",
        f"{report.flash_bytes:,}",
        f"{spent:.2f}",
        printed(1000 * board_seconds(plan, place)[0]),
        "" if int4 else printed(1000 * board_seconds(ahead, place)[0]),
        published.get("ms", ""),
        f"{spent / float(published['ms']):.2f}" if published else "",
    )
