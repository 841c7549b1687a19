# SPDX-License-Identifier: Apache-2.0
"""The page on cycles has what its benchmark prints; no published time is below the model's. Spent
multiply-accumulates are held against msf-CNN's points."""

from __future__ import annotations

import itertools
import shutil
import sys
from dataclasses import replace
from types import ModuleType

import pytest
from builders.networks import SHARED, present
from vmcu_tools.boards.table import known
from vmcu_tools.compiler import compile_model
from vmcu_tools.passes import optimize
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.report.time import BOARD_FACTORS

from scripts import ROOT, script

PAGE = ROOT / "doc" / "cycles.md"
DIGITS = ROOT / "samples" / "digits"
# Of the table of random networks, whose row RANDOM is quickly made.
RATIOS, RANDOM = ("least counted/estimated", "most"), 3
MISSING = [p for p in ("qemu-system-arm", "arm-none-eabi-gcc") if shutil.which(p) is None]
needs_qemu = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return script("published", "benchmarks/published/run.py")


def test_the_page_has_the_models_error(benchmark: ModuleType) -> None:
    page = PAGE.read_text(encoding="utf-8")
    block = benchmark.error().markdown(benchmark.command("error"))
    again = f"{benchmark.command('error')} --write doc/cycles.md"
    assert sys.modules["pages"].insert(page, "error", block) == page, again


def test_the_model_is_a_bound_from_below(benchmark: ModuleType) -> None:
    """As the page says: no board was faster than the model has it."""
    found = benchmark.published()
    assert [one.network for one in found] == list(benchmark.MODELS)
    assert all(0.5 < one.predicted_ms / one.measured_ms <= 1 for one in found)


def rows_of(table: str) -> dict[str, dict[str, str]]:
    """Cells of a table of the page, by row and column."""
    text = PAGE.read_text(encoding="utf-8")
    block = text.partition(f"<!-- {table} -->")[2].partition(f"<!-- end of {table} -->")[0]
    return sys.modules["manifests"].cells(block)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["digits", "gesture", "mlperf-tiny-kws"])
def test_the_page_has_the_estimates_of_now(name: str, benchmark: ModuleType) -> None:
    own = ROOT / "samples" / name / f"{name}.onnx"
    file = own if own.is_file() else present(SHARED / f"{name}.tflite")
    found = sum(benchmark.cycles_of(compile_model(file)))
    again = f"{benchmark.command('estimates')} --write doc/cycles.md"
    assert rows_of("estimates")[name]["estimated cycles"] == f"{found:,}", again


@needs_qemu
def test_the_page_has_the_counts_of_now(benchmark: ModuleType) -> None:
    found = benchmark.estimate(DIGITS / "digits.onnx")
    again = f"{benchmark.command('estimates')} --write doc/cycles.md"
    assert rows_of("estimates")["digits"]["counted cycles"] == f"{found.counted:,}", again


def test_commands_print_the_error_of_the_page(benchmark: ModuleType) -> None:
    given = [
        int(row["counted cycles"].replace(",", "")) / int(row["estimated cycles"].replace(",", ""))
        for row in rows_of("estimates").values()
    ]
    random = rows_of("random").values()
    ratios = [*given, *(float(row[name]) for row in random for name in RATIOS)]
    assert len(given) > 15 and len(random) == benchmark.DRAWN
    least, most = benchmark.factors(ratios)
    assert (least, most) == BOARD_FACTORS
    page = PAGE.read_text(encoding="utf-8")
    assert page.count(f"needs {least:g} to {most:g} times the") == 2


@needs_qemu
def test_the_page_has_the_random_networks_of_now(benchmark: ModuleType) -> None:
    found = benchmark.drawn_network(RANDOM)
    again = f"{benchmark.command('random')} --write doc/cycles.md"
    row = rows_of("random")[found.network]
    assert [row[name] for name in RATIOS] == [f"{pick(found.ratios):.2f}" for pick in (min, max)], (
        again
    )


@needs_qemu
@pytest.mark.parametrize(("seed", "kind"), [(4, "Recomputed"), (3, "FullyConnected")])
def test_every_layer_is_estimated(seed: int, kind: str, benchmark: ModuleType) -> None:
    """Layers that are computed again, too, in the smallest pool that can be had."""
    graph = optimize(benchmark.random_nets.DrawnNetwork(seed).draw())
    least = benchmark.front(graph, CompileOptions())[-1].pool_bytes
    plan = make_plan(graph, CompileOptions(ram=least), prove=False)
    assert kind in {step.node.kind for step in plan.steps}
    layers = benchmark.bench(plan, "drawn", "qemu:m4").layers
    for layer, estimated in zip(layers, benchmark.cycles_of(plan), strict=True):
        assert 1 / 3 < layer.cycles / estimated < 3, layer


def test_cores_need_the_cycles_that_were_published(benchmark: ModuleType) -> None:
    page = PAGE.read_text(encoding="utf-8")
    block = benchmark.cores().markdown(benchmark.command("cores"))
    again = f"{benchmark.command('cores')} --write doc/cycles.md"
    assert sys.modules["pages"].insert(page, "cores", block) == page, again
    # The flash of each of the three boards is part of what was published.
    boards = {
        "cortex-m4": replace(known()["nucleo_l4r5zi"], waits=benchmark.WAITS),
        "cortex-m33": known()["nucleo_u575zi_q"],
        "cortex-m7": known()["nucleo_h7a3zi_q"],
    }
    base = boards["cortex-m4"].cycle_factor
    for name, row in rows_of("cores").items():
        factor = boards[name.partition(" on ")[2]].cycle_factor / base
        assert factor == pytest.approx(float(row["to Cortex-M4"]), rel=0.03)


def test_a_model_that_cannot_be_read_has_no_figures(benchmark: ModuleType) -> None:
    with pytest.raises(ValueError, match="nothing has no figures"):
        benchmark.modelled(ROOT / "nothing")


@pytest.fixture(scope="module")
def fronts() -> ModuleType:
    return script("fronts", "benchmarks/published/fronts.py")


def test_points_are_a_front(fronts: ModuleType) -> None:
    """Fewer bytes cost more."""
    points = fronts.points()
    assert {point.network for point in points} >= {"mcunet-vww", "mcunet-imagenet"}
    for one, other in itertools.pairwise(points):
        if one.network == other.network:
            assert one.bytes > other.bytes and one.macs < other.macs


@pytest.mark.slow
def test_what_does_not_fit_has_the_smallest_pool(fronts: ModuleType) -> None:
    found = fronts.reached(fronts.Point("digits", "digits.onnx", 8, 1.5), DIGITS)
    smallest = compile_model(
        DIGITS / "digits.onnx", CompileOptions(external_input=True, extra_macs=200)
    )
    assert found.differing is None
    assert found.bytes == smallest.pool_bytes and found.macs >= 1


@needs_qemu
def test_what_fits_runs(fronts: ModuleType) -> None:
    found = fronts.reached(fronts.Point("digits", "digits.onnx", 100_000, 1.5), DIGITS)
    assert found.differing == 0 and found.macs == 1 and found.bytes <= 100_000


@needs_qemu
@pytest.mark.parametrize(
    "more", [(), pytest.param(("kws", "ic", "vww"), marks=pytest.mark.slow)], ids=["ad", "all"]
)
def test_the_model_of_serial_flash_is_near_what_was_published(
    more: tuple[str, ...], benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {name: benchmark.MODELS[name] for name in ("ad", *more)}
    monkeypatch.setattr(benchmark, "MODELS", models)
    for file in models.values():
        present(SHARED / file)
    found = benchmark.serial(SHARED)
    again = f"{benchmark.command('serial')} --models DIR --write doc/cycles.md"
    for name, *cells in found.rows:
        assert list(rows_of("serial")[name].values()) == cells, again
    assert abs(float(found.rows[0][-1]) - 1) <= 0.2
    for name, row in rows_of("serial").items():
        assert abs(float(row["estimated"]) / float(row["modelled"]) - 1) <= 0.15, name
