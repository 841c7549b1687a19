# SPDX-License-Identifier: Apache-2.0
"""Everything that an inference writes, and the page that says how long memory lasts."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders.endurance import expect_same, plain, script
from builders.networks import SHARED, present
from vmcu_bench.cycles.model import board, compiler
from vmcu_bench.image.elf import Elf
from vmcu_bench.runners.base import RunnerError
from vmcu_bench.runners.compiled import MODEL_NAME
from vmcu_bench.runners.counting import CountingRunner, markers_of, trace_of
from vmcu_bench.runners.qemu import RAM_START
from vmcu_bench.runners.samples import make_samples
from vmcu_bench.runners.workspace import zephyr_base
from vmcu_lab.wear import objects, paper, traces
from vmcu_lab.wear.heap import Setting, simulate
from vmcu_lab.wear.traces import Stored
from vmcu_tools import paths
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit import emit
from vmcu_tools.errors import UserError
from vmcu_tools.planner.options import CompileOptions

DIGITS = paths.root() / "samples" / "digits" / "digits.onnx"
CELLS = objects.Cells(100_000_000, 1.0)

pytestmark = pytest.mark.skipif(
    any(shutil.which(name) is None for name in ("gcc", "qemu-system-arm", "arm-none-eabi-gcc")),
    reason="not installed: gcc, qemu-system-arm, gcc-arm-none-eabi",
)


measure, tables = script("measure"), script("tables")


def model_of(name: str) -> Path:
    return present(measure.paths(SHARED)[name])


def test_the_page_has_what_was_measured() -> None:
    page = tables.PAGE.read_text(encoding="utf-8")
    assert tables.rendered(page) == page, "python benchmarks/endurance/tables.py --write"


def test_a_page_without_a_tables_markers_is_refused() -> None:
    page = tables.PAGE.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="end of stacks"):
        tables.rendered(page.replace("<!-- end of stacks -->", ""))


@pytest.mark.parametrize("name", ["digits", "mlperf-tiny-kws"])
def test_models_are_as_measured(name: str) -> None:
    kept = json.loads(measure.FIGURES.read_text())
    if compiler(board(measure.TARGET)) != kept["compiler"]:
        pytest.skip(f"measured with {kept['compiler']}")
    found = plain(measure.measure_model(model_of(name)))
    expect_same(found, kept["models"][name])


@pytest.mark.parametrize("name", ["digits", "mlperf-tiny-kws", "mcunet-vww-5fps"])
def test_nothing_that_stays_is_written_more_often_than_a_rotating_pool(name: str) -> None:
    plan = compile_model(model_of(name), CompileOptions(rotate=True))
    trace = traces.record(plan, "qemu:m4")
    ways = paper.measured(trace.task(name), Setting(align=8), jobs=1000)
    found = objects.objects(plan, trace, ways, CELLS)
    fixed = [one for one in found if not one.moves and one.name != "stack"]
    assert {"context.pool.origin", "supervisor's stack"} <= {one.name for one in fixed}
    mean = trace.pool.sum() / plan.ram_bytes
    assert [one for one in fixed if one.writes > mean] == []
    # Once an inference: no call of a kernel leaves anything in the context.
    assert max(field.stores for field in trace.context) == 1


@pytest.mark.slow
def test_a_moving_stack_is_that_of_zephyrs_jobs() -> None:
    """The most written word, simulated from one inference, against stores of all jobs. The
    Cortex-M3's, whose compiler flags are the same in both."""
    board = json.loads(objects.SUPERVISED.read_text())["mps2/an385"]
    staying, trace = (
        traces.record(compile_model(DIGITS, CompileOptions(rotate=rotated)), board["target"])
        for rotated in (False, True)
    )
    # A job's own frames may add a few to the word that inferences write most.
    own = board["stack_staying"]["max_writes"] / board["jobs"] - staying.stack.max()
    assert 0 <= own <= 4
    setting = Setting("walk", align=8, heap_bytes=board["stack_moving"]["bytes"])
    run = simulate(setting, (trace.task("digits"),), board["jobs"])
    assert run.writes().max() == pytest.approx(board["stack_moving"]["max_writes"], rel=0.02)


def test_rotation_costs_little() -> None:
    plans = [
        compile_model(model_of("mlperf-tiny-kws"), CompileOptions(rotate=r)) for r in (False, True)
    ]
    still, turning = (traces.record(plan, "qemu:m4").instructions for plan in plans)
    assert 1 < turning / still <= 1.003


def members_after(inferences: int) -> tuple[tuple[Stored, ...], int, int]:
    """Of the context of digits in rows, the origin moving, and the plan's circle and step."""
    plan = compile_model(DIGITS, CompileOptions(stream_input=True, rotate=True))
    assert plan.rotation is not None
    machine = board("qemu:m4").suited(plan)
    samples = make_samples(plan.graph, inferences, 0, 0)
    with tempfile.TemporaryDirectory(prefix="vmcu-") as text:
        folder = Path(text)
        image = machine.build(emit(plan, MODEL_NAME).files, MODEL_NAME, folder)
        markers = replace(markers_of(image, MODEL_NAME), trace_bytes=traces.RAM_BYTES)
        counting = CountingRunner.of(machine, markers)
        counting.count(folder, lambda target: target.execute(image, plan, samples))
        elf, stores = Elf(image), trace_of(folder, traces.RAM_BYTES)
        context = elf.find(traces.CONTEXT_SYMBOL)
        assert context is not None
        return traces.members(stores, elf, context), plan.pool_bytes, plan.rotation.step


def test_origins_share_the_contexts_positions() -> None:
    """What objects.py says of a lap, held against stores of several inferences."""
    one, circle, step = members_after(1)
    rows = [field.stores for field in one if field.name.endswith("rows")]
    assert sorted(rows)[:-1] == [0] * (len(rows) - 1) and max(rows) > 0
    inferences = 3 * len(rows)
    many, _, _ = members_after(inferences)
    origins = (np.arange(inferences) * step % circle) // 4
    visits = np.bincount((circle // 4 - origins) % len(rows), minlength=len(rows))
    found = [field.stores for field in many if field.name.endswith("rows")]
    assert found == (visits * max(rows)).tolist()
    plan = compile_model(DIGITS, CompileOptions(rotate=True))
    assert objects.position_share(plan, len(rows)) == pytest.approx(1 / len(rows), rel=0.02)


def test_a_store_to_what_has_no_name_is_an_error() -> None:
    class Nameless:
        path, symbols = Path("app.elf"), ()

    stores = np.zeros(64, np.int64)
    assert traces.variables(stores, Nameless(), ()) == ()  # type: ignore[arg-type]
    stores[12] = 1
    with pytest.raises(RunnerError, match=f"{RAM_START + 12:#x}, which has no name"):
        traces.variables(stores, Nameless(), ())  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["qemu:m3", "qemu:m4", "qemu:m4-64k", "qemu:m7", "qemu:m33"])
def test_every_core_has_a_supervisor(target: str) -> None:
    """Of a board that was measured, or the most of any."""
    found = {one.name: one.writes for one in objects.supervised(target)}
    assert found["supervisor's stack"] > 1 and found["struct vmcu_worker"] > 1


@pytest.mark.slow
def test_a_job_under_zephyr_is_as_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        tree = zephyr_base()
    except UserError:
        pytest.skip("no Zephyr tree")
    missing = [program for program in ("cmake", "ninja") if shutil.which(program) is None]
    if missing or not (tree / "boards").exists():
        pytest.skip(f"not installed: {', '.join(missing) or 'Zephyr boards'}")
    monkeypatch.setenv("ZEPHYR_BASE", os.fspath(tree))
    run, jobs, name = script("run"), 64, "mps2/an385"
    moving = run.count(name, jobs, True, 600.0)
    assert moving.wrong == 0
    kept = {one["name"]: one for one in json.loads(objects.SUPERVISED.read_text())[name]["per_job"]}
    found = {one.name: one for one in run.per_job(moving, jobs)}
    assert found.keys() == kept.keys()
    for key, one in found.items():
        # A few jobs visit some places of a stack more often than others.
        assert one.writes == pytest.approx(kept[key]["writes"], rel=0.1, abs=0.3), key
    assert moving.of("ctx").max() == jobs
