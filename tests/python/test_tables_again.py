# SPDX-License-Identifier: Apache-2.0
"""Tables of pages are computed again: the whole table, or some of its rows if it costs much CPU
time. Each table with a manifest has a test that CI runs, or a reason why it has none."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from builders.networks import SHARED, present
from vmcu_bench.cycles.model import bench
from vmcu_tools.compiler import compile_model

from scripts import ROOT, script

sys.path.insert(0, str(ROOT / "benchmarks" / "paper"))
import bottlenecks
import figures
import manifests
from pages import Table

DOC = ROOT / "doc"
MISSING = [p for p in ("qemu-system-arm", "arm-none-eabi-gcc") if shutil.which(p) is None]
VWW, IMAGENET = f"{bottlenecks.VWW}.tflite", f"{bottlenecks.IMAGENET}.tflite"
TINY = tuple(f"mlperf-tiny-{name}.tflite" for name in ("ad", "kws", "resnet8", "sww", "vww"))
# Measured on the computer that wrote the page. No other figure depends on a clock.
TIMED = ("seconds", "CPU seconds")


def graphs() -> Table:
    """The row whose input is streamed; test_graphs.py computes three others."""
    page = script("graphs", "benchmarks/graphs/run.py")
    return page.table(list(sys.modules["networks"].STREAMED))  # type: ignore[no-any-return]


def engines() -> Table:
    """The cheapest rows."""
    published = script("published", "benchmarks/published/run.py")
    return published.engines(SHARED, ["ad", "kws"])  # type: ignore[no-any-return]


def dual() -> Table:
    """The cheapest row."""
    published = script("published", "benchmarks/published/run.py")
    return published.dual(SHARED, ["ad"])  # type: ignore[no-any-return]


def cores(table: str) -> Table:
    """The machines with kernels of their own whose compiler is that of Arm."""
    page = script("cores", "benchmarks/cores/run.py")
    machines = ["qemu:m55"] if table == "networks" else ["qemu:m0", "qemu:m55"]
    return getattr(page, table)(SHARED, machines)  # type: ignore[no-any-return]


def fronts() -> Table:
    """The points that are planned in seconds: the largest of each MCUNet file."""
    page = script("fronts", "benchmarks/published/fronts.py")
    largest = {p.file: p for p in reversed(page.points()) if p.file in (VWW, IMAGENET)}
    return Table("", page.COLUMNS, tuple(page.row(p, SHARED) for p in largest.values()))


def overhead() -> Table:
    """The sample's rows without Zephyr, whose images take a minute each."""
    page = script("overhead", "benchmarks/zephyr/overhead.py")
    plan, name = compile_model(page.DEFAULT_MODEL), page.DEFAULT_MODEL.stem
    counts = {target: bench(plan, name, target).instructions for target in ("qemu:m3", "qemu:m4")}
    rows = tuple((f"{name}, {target}", f"{count:,}") for target, count in counts.items())
    return Table("", page.COLUMNS[:2], rows)


def compression() -> Table:
    page = script("compression", "benchmarks/compression/run.py")
    return page.compression(SHARED, ["mlperf-tiny-ad"])  # type: ignore[no-any-return]


def widths() -> Table:
    """All rows. What ONNX Runtime computes in float differs from processor to processor."""
    pytest.importorskip("sklearn")
    return script("widths", "benchmarks/widths/run.py").table()  # type: ignore[no-any-return]


def rivals() -> ModuleType:
    """CMSIS-NN beside boards; test_rivals.py counts with its sources again."""
    return script("boards", "benchmarks/rivals/boards.py")


@dataclass(frozen=True)
class Again:
    """How a table is computed again. files: the networks it needs, in SHARED; emulated: on an
    emulated core; some: some rows only, without the notes; without: columns that are not
    computed."""

    table: Callable[[], Table]
    files: Sequence[str] = ()
    emulated: bool = False
    some: bool = False
    without: Sequence[str] = TIMED


def workers() -> Table:
    """The row that is planned and counted fastest; test_two_workers.py has those of the samples."""
    page = script("workers", "benchmarks/workers/run.py")
    return page.workers(SHARED, ["mlperf-tiny-kws"])  # type: ignore[no-any-return]


def split() -> Table:
    """The rows of the sample; test_split.py has the goals of the others."""
    page = script("split", "benchmarks/split/run.py")
    return page.split(SHARED, [page.STORYTELLER])  # type: ignore[no-any-return]


COMPUTED = {
    "cores/bytewise": Again(lambda: cores("bytewise"), emulated=True, some=True),
    "cores/groups": Again(lambda: cores("groups"), emulated=True, some=True),
    "cores/int4": Again(lambda: cores("int4"), emulated=True, some=True),
    "cores/layers": Again(lambda: cores("layers"), emulated=True, some=True),
    "cores/networks": Again(lambda: cores("networks"), TINY, emulated=True, some=True),
    "cores/sequences": Again(
        lambda: script("one_dimension", "benchmarks/sequences/run.py").table()
    ),
    "cycles/boards": Again(lambda: rivals().boards()),
    "cycles/dual": Again(dual, TINY[:1], emulated=True, some=True),
    "cycles/engines": Again(engines, TINY[:2], emulated=True, some=True),
    "cycles/helium": Again(lambda: rivals().helium()),
    "memories/compression": Again(compression, TINY[:1], emulated=True, some=True),
    "fusion/graphs": Again(graphs, some=True),
    "public-models/public": Again(lambda: script("public", "benchmarks/public/run.py").public()),
    "models/floats": Again(lambda: script("floats", "benchmarks/floats/run.py").floats()),
    "models/widths": Again(widths, without=("output, dB", "accuracy")),
    "split/split": Again(split, some=True),
    "workers/workers": Again(workers, TINY[1:2], emulated=True, some=True),
    "results/channels": Again(lambda: figures.channels(["S3", "S7"]), some=True),
    "results/fronts": Again(fronts, [VWW, IMAGENET], emulated=True, some=True),
    "results/images": Again(lambda: figures.images(["S3"]), some=True),
    "results/modules-imagenet": Again(lambda: figures.TABLES["modules-imagenet"](SHARED)),
    "results/modules-vww": Again(lambda: figures.TABLES["modules-vww"](SHARED)),
    "results/overhead": Again(
        overhead, emulated=True, some=True, without=("instructions with Zephyr", "more")
    ),
    "results/planners": Again(lambda: figures.planners(SHARED), [*TINY, VWW, IMAGENET]),
    "results/pointwise": Again(lambda: figures.pointwise(SHARED), [VWW, IMAGENET]),
}

# The test that computes a table again, or some of its rows.
ELSEWHERE = {
    "audio/front-end": "test_audio.py::test_the_page_has_the_figures",
    "container/loading": "test_updates.py::test_the_table_of_costs_is_right",
    "cycles/cores": "test_published.py::test_cores_need_the_cycles_that_were_published",
    "cycles/error": "test_published.py::test_the_page_has_the_models_error",
    "cycles/estimates": "test_published.py::test_the_page_has_the_estimates_of_now",
    "cycles/random": "test_published.py::test_the_page_has_the_random_networks_of_now",
    "cycles/serial": "test_published.py::test_the_model_of_serial_flash_is_near_what_was_published",
    "design-decisions/orders": "test_decisions.py::test_figures_are_computed_again",
    "design-decisions/places": "test_decisions.py::test_figures_are_computed_again",
    "design-decisions/tiles": "test_decisions.py::test_figures_are_computed_again",
    "design-decisions/windows": "test_decisions.py::test_figures_are_computed_again",
    "memories/fast": "test_memory_figures.py::test_figures_are_counted_again",
    "planner/planning": "test_planning_calls.py::test_planning_makes_the_calls_of_the_page",
    "planner/ablation": "test_ablation.py::test_cells_of_the_page_are_computed_again",
    "fusion/ablation-limits": "test_ablation.py::test_a_limit_is_met_as_on_the_page",
    "placement/ablation-placement": "test_ablation.py::test_placements_are_computed_again",
    "placement/dags": "test_place_tables.py::test_random_graphs_come_out_as_on_the_page",
    "placement/known": "test_blocks.py::test_a_thousand_buffers_are_placed_as_the_page_says",
    "placement/limits": "test_place_tables.py::test_limited_steps_come_out_as_on_the_page",
    "placement/training": "test_place_tables.py::test_training_steps_come_out_as_on_the_page",
    "placement/training-figures": "test_place_tables.py::test_figures_are_those_of_the_steps",
    "results/figure-8": "test_orders.py::test_the_page_has_the_figures_of_now",
    "results/heads": "test_learn.py::test_the_page_has_the_cost_of_now",
    "results/own": "test_paper.py::test_the_page_has_the_figures_of_the_own_networks",
    "results/table-3": "test_orders.py::test_the_page_has_the_figures_of_now",
    "streaming/hops": "test_streams.py::test_figures_are_those_of_the_page",
    "streaming/speech": "test_speech.py::test_the_page_has_the_detectors_figures",
}

# Why no test computes a table again.
REASONS = {
    "audio/cmsis-dsp": "needs CMSIS-DSP's sources; test_audio_cmsis.py computes it where they are",
    "audio/cmsis-dsp-features": "as audio/cmsis-dsp",
    "placement/large": "what is found in 60 s is the clock's; test_place_tables.py has its limit",
    "results/challenging": "needs minimalloc's problems, and what is found in 10 s is the clock's",
    "results/tigris": "needs the compiler of another project",
}


def block_of(table: str) -> str:
    """What a page has between the markers of a table."""
    page, _, name = table.partition("/")
    text = (DOC / f"{page}.md").read_text(encoding="utf-8")
    _, start, rest = text.partition(f"<!-- {name} -->\n")
    block, end, _ = rest.partition(f"\n<!-- end of {name} -->")
    assert start and end, f"{table} has no markers"
    return block


def lines(block: str, without: Sequence[str] = TIMED) -> list[tuple[str, ...]]:
    """The lines of a block, those of the table as cells, without some columns."""
    found, left_out = [], set[int]()
    for line in filter(None, block.splitlines()):
        cells = line.strip("| ").split(" | ") if line.startswith("|") else [line]
        left_out = left_out or {number for number, cell in enumerate(cells) if cell in without}
        found.append(tuple(cell for number, cell in enumerate(cells) if number not in left_out))
    return found


def stale(table: str, found: Table, again: Again) -> list[tuple[str, ...]]:
    """Lines that the page does not have, or must not have."""
    block = block_of(table)
    page = lines(block, again.without)
    computed = lines(found.markdown(manifests.command(block)), again.without)
    if again.some:
        computed = [line for line in computed if len(line) > 1]
        return [line for line in computed if line not in page]
    return [
        *(line for line in computed if line not in page),
        *(line for line in page if line not in computed),
        *([("other order",)] if page != computed and sorted(page) == sorted(computed) else []),
    ]


@pytest.mark.parametrize("table", COMPUTED)
def test_a_table_is_computed_again(table: str) -> None:
    again = COMPUTED[table]
    for file in again.files:
        present(SHARED / file)
    if again.emulated and MISSING:
        pytest.skip(f"not installed: {', '.join(MISSING)}")
    command = manifests.command(block_of(table))
    page = table.partition("/")[0]
    found = again.table()
    assert found.rows
    assert stale(table, found, again) == [], f"{command} --write doc/{page}.md"


def test_every_table_has_a_check_or_a_reason() -> None:
    folder = DOC / manifests.FOLDER
    tables = [f"{file.parent.name}/{file.stem}" for file in folder.rglob("*.json")]
    assert sorted([*COMPUTED, *ELSEWHERE, *REASONS]) == sorted(tables)


@pytest.mark.parametrize("test", dict.fromkeys(ELSEWHERE.values()))
def test_checks_elsewhere_run_in_ci(test: str) -> None:
    """They exist, and cases of theirs are not among the slow ones, which CI leaves out."""
    file, _, name = test.partition("::")
    module = importlib.import_module(Path(file).stem)
    marks = [*marks_of(module), *marks_of(getattr(module, name))]
    assert "slow" not in {mark.name for mark in marks}
    for mark in marks:
        if mark.name == "parametrize":
            assert not all(map(is_slow, mark.args[1]))


def marks_of(marked: object) -> list[pytest.Mark]:
    found = getattr(marked, "pytestmark", [])
    return found if isinstance(found, list) else [found]


def is_slow(case: object) -> bool:
    return "slow" in {mark.name for mark in getattr(case, "marks", ())}


def test_only_the_seconds_of_a_table_are_left_out() -> None:
    block = "`python x`\n\n| a | seconds | b |\n| --- | ---: | ---: |\n| n | 1.5 | 2 |\n\nNote."
    table = [("a", "b"), ("---", "---:"), ("n", "2")]
    assert lines(block) == [("`python x`",), *table, ("Note.",)]
