# SPDX-License-Identifier: Apache-2.0
"""Two workers from the command line: what they compute, what they cost, what they refuse."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders.networks import SHARED
from random_builder import Builder
from random_graphs import convolution
from random_networks import wide
from vmcu_bench import runners
from vmcu_tools import load, paths
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.errors import UserError
from vmcu_tools.graph import Graph, Window
from vmcu_tools.machine.workers import prove
from vmcu_tools.ops.fully_connected import FullyConnected
from vmcu_tools.ops.lookup import Lookup
from vmcu_tools.passes.split_channels import divisible
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.workers.pieces import cycles_alone
from vmcu_tools.planner.workers.share import plan_shared, share

from scripts import script

ROOT = paths.root()
KEYWORD, DIGITS, HELLO, STORYTELLER = (
    ROOT / "samples" / name / f"{name}.onnx"
    for name in ("keyword", "digits", "hello", "storyteller")
)
PAGE = ROOT / "doc" / "workers.md"
MISSING = [p for p in ("qemu-system-arm", "arm-none-eabi-gcc") if shutil.which(p) is None]
needs_qemu = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
REFERENCE = ("mlperf-tiny-kws", "mlperf-tiny-vww", "mlperf-tiny-resnet8", "mcunet-vww-5fps")
needs_models = pytest.mark.skipif(
    not all((SHARED / f"{name}.tflite").is_file() for name in REFERENCE),
    reason="the networks are not there",
)


@pytest.mark.parametrize("target", ["virtual", "host", "host:sanitize"])
@pytest.mark.parametrize("model", [KEYWORD, DIGITS], ids=lambda path: path.stem)
def test_each_byte_is_that_of_one_worker(model: Path, target: str) -> None:
    words = ["verify", str(model), "--workers", "2", "-n", "4", "--on", target]
    assert main(words) == 0


@needs_qemu
def test_workers_are_counted(tmp_path: Path) -> None:
    """Both take turns on one core; together they do the work of one."""
    counts = []
    for workers in (1, 2):
        file = tmp_path / f"{workers}.json"
        assert main(["bench", str(KEYWORD), "--workers", str(workers), "--json", str(file)]) == 0
        counts.append(json.loads(file.read_text()))
    one, two = counts
    assert one["workers"] == []
    each = [worker["instructions"] for worker in two["workers"]]
    assert sum(each) == two["instructions"]
    assert 0.98 < sum(each) / one["instructions"] < 1.08
    assert max(each) < 0.7 * one["instructions"]
    assert all(worker["tasks"] and worker["waits"] for worker in two["workers"])


@needs_models
@pytest.mark.parametrize("name", REFERENCE)
def test_reference_networks_are_shared_in_halves(name: str) -> None:
    """At most 0.58 of the cycles with all waits, in at most a tenth more RAM."""
    path = SHARED / f"{name}.tflite"
    one, two = (load(path).plan(workers=workers).plan for workers in (1, 2))
    assert two.team is not None and one.team is None
    assert two.ram_bytes <= 1.1 * one.ram_bytes
    assert two.team.cycles <= 0.58 * two.team.alone


@needs_qemu
def test_the_page_has_the_figures_of_now() -> None:
    """The rows of the samples; those of other networks are in test_tables_again.py."""
    page = script("workers", "benchmarks/workers/run.py")
    text = PAGE.read_text(encoding="utf-8")
    for row in page.workers(SHARED, page.OWN).rows:
        assert f"| {' | '.join(row)} |" in text, f"{page.command('')} --write doc/workers.md"


def test_the_picture_is_that_of_the_plan() -> None:
    page = script("workers", "benchmarks/workers/run.py")
    drawn = page.picture(page.planned(page.DRAWN, 2))
    assert drawn == page.PICTURE.read_text(encoding="utf-8")
    assert drawn.count("<rect") == sum(
        page.planned(page.DRAWN, 2).team.count(worker) for worker in (0, 1)
    )


def test_one_worker_changes_nothing() -> None:
    """The files are those of a build that knows of no workers."""
    files = [load(DIGITS).plan(**given).emitted.files for given in ({}, {"workers": 1})]
    assert files[0] == files[1]
    assert "workers.h" not in files[0]["digits.c"]


def test_a_network_of_small_layers_stays_on_one_worker(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", str(HELLO), "--workers", "2"]) == 0
    assert "Worker 0 computes all layers" in " ".join(capsys.readouterr().out.split())
    assert main(["verify", str(HELLO), "--workers", "2", "-n", "2", "--on", "host"]) == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            ["build", str(STORYTELLER), "--workers", "2"],
            "a model that keeps state cannot be combined with --workers",
        ),
        (["build", str(DIGITS), "--workers", "2", "--format", "container"], "a container has no"),
        (["verify", str(DIGITS), "--workers", "2", "--on", "host+container"], "does not run two"),
        (["build", str(DIGITS), "--workers", "2", "--ram", "1K"], "does not fit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_workers_cannot_share(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 1
    said = capsys.readouterr().err
    assert reason in said and "hint: " in said


def test_a_limit_of_ram_holds_for_scratch() -> None:
    for ram in (2604, 2620, 2700, 4000):
        plan = load(DIGITS).plan(workers=2, ram=ram).plan
        assert plan.ram_bytes <= ram
    assert CompileOptions(workers=2).given() == {"workers"}


def test_a_worker_without_tasks_has_no_list() -> None:
    """C99 has no array without elements."""
    text = load(HELLO).plan(workers=2).emitted.files["hello.c"]
    assert "hello_worker0[]" in text and "hello_worker1" not in text


def dense_layers(*channels: int) -> Graph:
    """A network of dense layers with so many channels, the input's first."""
    b = Builder(np.random.default_rng(0))
    x = b.input((1, 1, channels[0]))
    for deep, count in itertools.pairwise(channels):
        op = FullyConnected(b.weights(count, deep), b.bias(count), b.requant(count, deep))
        x = b.node(op, [x], (1, 1, count))
    return b.graph([x.name])


def test_layers_of_one_pixel_can_be_divided() -> None:
    """Where they have more than one block of channels, and one group."""
    b = Builder(np.random.default_rng(0))
    x, row = b.input((1, 1, 8)), b.input((1, 2, 8))
    window, tall = Window(), Window((1, 2))
    outs = [
        convolution(b, x, window, 1, 1, 4),
        convolution(b, x, window, 1, 1, 5),
        convolution(b, x, window, 1, 1, 4, groups=2),
        convolution(b, row, window, 1, 2, 9),
        convolution(b, row, tall, 1, 1, 9),
    ]
    b.node(Lookup(np.zeros(256, np.int8)), [outs[1]], (1, 1, 5))
    graph = b.graph([out.name for out in outs])
    assert [node.outputs[0] for node in divisible(graph)] == [outs[1].name, outs[4].name]


def test_dense_layers_are_shared_by_channels() -> None:
    """All but those of 4 and 8 channels, which are too small."""
    graph = dense_layers(200, 100, 60, 4, 8)
    one, two = (make_plan(graph, prove=False), plan_shared(graph, CompileOptions(workers=2)))
    assert two.ram_bytes <= 1.1 * one.ram_bytes
    parts = [two.graph.tensors[node.outputs[0]].shape[2] for node in two.graph.nodes]
    assert parts == [52, 48, 100, 32, 28, 60, 4, 8]
    assert two.team is not None and two.team.cycles < 0.65 * two.team.alone
    # The estimates are beside the plan that one worker has.
    assert two.team.alone == cycles_alone(one)
    assert "both workers: 4 more layers" in two.notes[-1]
    assert f"{two.team.cycles / two.team.alone:.0%} of the cycles of one" in two.notes[-2]
    prove(two)
    rng = np.random.default_rng(1)
    samples = [[rng.integers(-128, 128, (1, 1, 200), np.int8)] for _ in range(20)]
    target = runners.get("host")
    for ours, alone in zip(target.run(two, samples), target.run(one, samples), strict=True):
        np.testing.assert_array_equal(ours[0], alone[0])


def test_a_layer_of_which_most_is_its_output_stays_whole() -> None:
    """The Concat of 300 bytes costs more than half of it."""
    plan = plan_shared(dense_layers(200, 100, 4, 300), CompileOptions(workers=2))
    parts = [plan.graph.tensors[node.outputs[0]].shape[2] for node in plan.graph.nodes]
    assert parts == [52, 48, 100, 4, 300]


@pytest.mark.parametrize(("graph", "plans"), [(dense_layers(200, 100), 2), (wide(0), 1)])
def test_only_layers_that_can_gain_are_planned_in_parts(
    graph: Graph, plans: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def counted(*arguments: Any, **more: Any) -> Plan:
        made.append(arguments)
        return make_plan(*arguments, **more)

    monkeypatch.setattr("vmcu_tools.planner.workers.share.make_plan", counted)
    plan_shared(graph, CompileOptions(workers=2))
    assert len(made) == plans


def test_a_plan_with_state_is_refused() -> None:
    with pytest.raises(UserError, match="two workers cannot share a model that keeps state"):
        compile_model(STORYTELLER, CompileOptions(workers=2))


@pytest.mark.parametrize(("least", "layers"), [(0.36, 6), (0.4, 2)])
def test_parts_of_dense_layers_are_worth_it(
    least: float, layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They save 0.38 of the cycles."""
    monkeypatch.setattr("vmcu_tools.planner.workers.share.LEAST_GAIN", least)
    plan = plan_shared(dense_layers(200, 100, 8), CompileOptions(workers=2))
    assert len(plan.steps) == layers


@pytest.mark.parametrize("more", [0, 2, 3])
def test_a_limit_of_ram_holds_for_dense_layers_in_parts(more: int) -> None:
    """Parts do not overwrite their input, which costs the bytes of the last block of channels."""
    graph = dense_layers(200, 100)
    ram = make_plan(graph, prove=False).pool_bytes + more
    plan = plan_shared(graph, CompileOptions(workers=2, ram=ram))
    assert plan.ram_bytes <= ram and plan.team is not None
    assert (plan.team.count(1) > 0) == (ram >= 300)


def test_a_network_without_layers() -> None:
    b = Builder(np.random.default_rng(0))
    plan = share(make_plan(b.graph([b.input((2, 3, 4)).name]), prove=False))
    samples = [[np.arange(24, dtype=np.int8).reshape(2, 3, 4) + n] for n in range(2)]
    for got, (wanted,) in zip(runners.get("host").run(plan, samples), samples, strict=True):
        np.testing.assert_array_equal(got[0].ravel(), wanted.ravel())
