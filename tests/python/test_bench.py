# SPDX-License-Identifier: Apache-2.0
"""That what `vmcu bench` counts is what runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_graphs import disjoint, random_layers
from vmcu_bench.cycles import kernels, measured
from vmcu_bench.cycles.energy import FLASH_LOAD, INSTRUCTION, RAM_ACCESS, estimate
from vmcu_bench.cycles.model import BenchReport, bench, board, check_outputs
from vmcu_bench.report.costs import print_bench
from vmcu_bench.runners import RUNNERS, counting
from vmcu_bench.runners.base import RunnerError
from vmcu_bench.runners.counting import CountingRunner, Markers
from vmcu_bench.runners.samples import make_samples
from vmcu_bench.runners.stream import streamed
from vmcu_bench.runners.zephyr import Measured
from vmcu_tools import paths
from vmcu_tools.boards.counts import Counts
from vmcu_tools.boards.flash import ART
from vmcu_tools.boards.flash import BOARDS as PARTS
from vmcu_tools.boards.table import known
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.errors import UserError
from vmcu_tools.frontends import load
from vmcu_tools.machine import reference
from vmcu_tools.ops import bind
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.report.terminal import console

MISSING = [
    program
    for program in ("qemu-system-arm", "arm-none-eabi-gcc", "gcc")
    if shutil.which(program) is None
]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

HELLO = str(paths.root() / "samples" / "hello" / "hello.onnx")
ON_PICO = ["hello.onnx", "--board", "rpi_pico2"]
SMALL = kernels.Case("small", "conv", 4, 5, 6, 3)


@pytest.fixture(scope="module")
def small() -> BenchReport:
    return bench(make_plan(kernels.case_graph(SMALL, 0)), "small", "qemu:m4")


def test_bench_without_cycles() -> None:
    """Of a core that has no timing rules."""
    plan = make_plan(kernels.case_graph(SMALL, 0))
    report = bench(plan, "small", "qemu:rv32")
    assert report.instructions > 0
    assert report.cycles is report.spent is report.layers[0].cycles_per_mac is None
    assert "instructions only" in report.timing


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--board", "nucleo_l4r5zi"], "name one"),
        (["--flash-wait", "5"], "name one"),
        (["hello.onnx", "--measure"], "add --board NAME, which"),
        (["hello.onnx", "--on", "zephyr:b"], "add --measure"),
        (["hello.onnx", "--serial", "/dev/null"], "add --measure"),
        ([*ON_PICO, "--measure", "--flash-wait", "1"], "cannot be combined with --measure"),
        (["hello.onnx", "--flash-bus", "qspi:40MB/s"], "add --board NAME"),
        ([*ON_PICO, "--flash-bus", "qspi:40MB/s", "--flash-wait", "1"], "leave out --flash-wait"),
    ],
)
def test_options_that_do_not_go_together(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *options]) == 1
    assert said in capsys.readouterr().err


def benched(tmp_path: Path, *words: str) -> dict[str, Any]:
    """The figures that `vmcu bench` writes of samples/hello."""
    assert main(["bench", HELLO, *words, "--json", str(tmp_path / "out.json")]) == 0
    return json.loads((tmp_path / "out.json").read_text())  # type: ignore[no-any-return]


def test_a_board_takes_its_cycles_at_its_clock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same as with its wait states given by hand; another clock or flash would be seen."""
    there = benched(tmp_path, "--board", "nucleo_l4r5zi/stm32l4r5xx")
    assert "ms at 80 MHz on nucleo_l4r5zi: model, not measured" in (
        " ".join(capsys.readouterr().out.split())
    )
    here = benched(tmp_path, "--flash-wait", "3")
    assert there["cycles"] == here["cycles"] > 0 and here["time"] is None
    assert there["time"]["milliseconds"] == pytest.approx(here["cycles"] / 80e3, abs=6e-4)


@pytest.mark.parametrize(
    "text", ["qspi", "qspi:40", "qspi:0MB/s", "qspi:4MB/s,cache", "qspi:4MB/s,way=2", ":4MB/s"]
)
def test_what_is_no_serial_flash(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *ON_PICO, "--flash-bus", text]) == 2
    assert "is no serial flash; write for example" in capsys.readouterr().err
    assert main(["bench", "--flash-wait", "-1"]) == 2


@pytest.mark.parametrize("size", ["16K,line=8", "64K,line=32"])
def test_a_cache_of_serial_flash_has_an_end(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", HELLO, *ON_PICO[1:], "--flash-bus"]
    assert main([*words, f"qspi:40MB/s,cache={size}"]) == 0
    assert main([*words, f"qspi:40MB/s,cache={size.replace('K', '.5K')}"]) == 2
    assert "a cache has at most 2,048 lines here" in capsys.readouterr().err


def test_serial_flash_takes_the_time_of_its_reads(tmp_path: Path) -> None:
    """Each line that is missed is a read of its bytes and those before its data, at the bus's
    rate; a larger cache misses no more, and code reads at least its own bytes once."""
    slow, fast, long = (
        benched(tmp_path, *ON_PICO[1:], "--flash-bus", flash)
        for flash in ("qspi:15MB/s,line=8", "qspi:30MB/s,line=8", "qspi:15MB/s")
    )
    lines = slow["flash_bytes"] / 8
    assert lines > 100 and slow["flash_waits"] == lines * 180
    assert fast["flash_waits"] == lines * 90
    assert slow["cycles"] - slow["flash_waits"] == fast["cycles"] - fast["flash_waits"]
    assert long["flash_waits"] == long["flash_bytes"] / 32 * 420
    assert slow["time"]["milliseconds"] == pytest.approx(slow["cycles"] / 150e3, abs=6e-4)


def test_a_board_whose_flash_is_unknown_counts_no_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = benched(tmp_path, "--board", "nrf52840dk")
    assert "model, not measured; flash wait states not included" in (
        " ".join(capsys.readouterr().out.split())
    )
    assert figures["flash_waits"] == 0
    assert figures["time"]["milliseconds"] == pytest.approx(figures["cycles"] / 64e3, abs=6e-4)


@pytest.mark.parametrize("name", [name for name, part in PARTS.items() if not part.at(1.0).bus])
def test_every_part_has_the_clock_that_zephyr_runs_it_at(name: str) -> None:
    trees = [t for t in Path.home().glob("zephyrproject*/zephyr") if (t / "VERSION").is_file()]
    if not trees:
        pytest.skip("no Zephyr tree, whose devicetree says which clock it is")
    for tree in trees:
        files = (tree / "boards" / "st" / name).glob("*.dts*")
        text = "".join(file.read_text(encoding="utf-8") for file in files)
        clocks = re.findall(r"&rcc \{[^}]*?clock-frequency = <DT_FREQ_M\((\d+)\)>", text)
        assert {int(clock) for clock in clocks} == {known()[name].megahertz}


def test_a_flash_with_caches_waits_for_what_it_has_not_seen(small: BenchReport) -> None:
    plan = make_plan(kernels.case_graph(SMALL, 0))
    slow = {
        waits: bench(plan, "small", "qemu:m4", flash=replace(ART, waits=waits))
        for waits in (0, 5, 10)
    }
    assert slow[0].flash_waits == 0 and slow[0].cycles == small.cycles
    assert bench(plan, "small", "qemu:m4") == small
    # The image is small: a few lines of code, and each line of weights once for each pixel pair.
    assert 0 < slow[5].flash_waits < slow[10].flash_waits
    assert slow[5].cycles == small.cycles + slow[5].flash_waits


@pytest.mark.parametrize("options", [[], ["--hop", "4"]], ids=["a window", "a stream"])
def test_the_kept_image_runs(tmp_path: Path, options: list[str]) -> None:
    """As a user runs it: its bytes are the meaning of the input beside it."""
    model = paths.root() / "samples" / "gesture" / "gesture.onnx"
    kept = tmp_path / "kept"
    assert main(["bench", str(model), "--on", "qemu:m3", "--keep", str(kept), *options]) == 0
    subprocess.run([kept / "run.sh"], cwd=tmp_path, check=True, timeout=60)
    given = np.fromfile(kept / "inputs.bin", np.int8)
    if options:
        plan = compile_model(model, CompileOptions(hop=4))
        _, width, channels = plan.model.tensors[plan.model.inputs[0].tensor].shape
        wanted = streamed(RUNNERS["virtual"], plan, given.reshape(-1, width, channels))
    else:
        graph = load(model)
        x = given.reshape(graph.tensors[graph.inputs[0].tensor].shape)
        wanted = reference.run(graph, [x])[graph.outputs[0].tensor]
    assert (kept / "outputs.bin").read_bytes() == wanted.astype(np.int8).tobytes()


def test_each_energy_says_that_it_is_of_the_memories(
    small: BenchReport, capsys: pytest.CaptureFixture[str]
) -> None:
    print_bench(small, console())
    told = f"energy, memories only, estimated: {small.energy.microjoule:,.2f}"
    assert told in capsys.readouterr().out
    assert small.energy.scope == "memories only" and "3.4 to 4.9 times" in small.energy.caveat
    for page in (paths.root() / "doc").glob("*.md"):
        tables = re.findall(r"<!-- ([\w-]+) -->\n(.*?)<!-- end of \1 -->", page.read_text(), re.S)
        assert all("memories only" in one for _, one in tables if "uJ" in one), page


def test_totals_are_the_sum_of_layers_and_executor() -> None:
    plan = disjoint(random_layers("conv2d", 4, seed=1))
    report = bench(plan, "m", "qemu:m3")
    assert len(report.layers) == len(plan.steps) == 4
    rows = [*report.layers, report.executor]
    for name in ("instructions", "loads_ram", "loads_flash", "stores"):
        assert getattr(report, name) == sum(getattr(row, name) for row in rows)
    assert abs(report.cycles - sum(row.cycles for row in rows)) <= len(rows) / 2
    assert report.cycles == round(report.spent.total) > report.instructions
    for step, entry in zip(plan.steps, report.layers, strict=True):
        layer = bind(plan.graph, step.node)
        assert (entry.name, entry.op) == (step.node.name, step.node.kind)
        assert entry.macs == layer.macs
        assert entry.calls == layer.height
        assert entry.stores > 0 and entry.loads_ram > 0 and entry.loads_flash > 0
    assert report.executor.calls == 1
    assert 256 < report.stack_bytes <= 1536
    assert 0 < report.executor.instructions < report.instructions / 10


def test_energy_is_the_sum_of_its_assumptions(small: BenchReport) -> None:
    assert estimate(Counts(1, 1_000_000, 0, 0, 0)).microjoule == INSTRUCTION.picojoule
    assert estimate(Counts(1, 0, 600_000, 0, 400_000)).microjoule == RAM_ACCESS.picojoule
    assert estimate(Counts(1, 0, 0, 1_000_000, 0)).microjoule == FLASH_LOAD.picojoule
    assert [one.picojoule for one in (RAM_ACCESS, FLASH_LOAD, INSTRUCTION)] == [5, 15, 15]
    nanojoule = 1000 * estimate(Counts(1, 111_111, 0, 0, 0)).microjoule
    assert nanojoule == pytest.approx(round(nanojoule)) and nanojoule > 0
    assert all(assumption.source for assumption in small.energy.assumptions)
    assert small.macs == 4 * 4 * 6 * 3 * 3 * 5
    assert small.instructions_per_mac == round(small.instructions / small.macs, 4) > 0.25


def test_wrong_outputs_are_no_benchmark() -> None:
    plan = make_plan(kernels.case_graph(SMALL, 0))
    sample = make_samples(plan.graph, 1, 0, 0)[0]
    right = reference.run(plan.graph, sample)["out"]
    check_outputs(plan, sample, [right], "here")
    wrong = right.copy()
    wrong[0, 0, 0] ^= 1
    with pytest.raises(RunnerError, match="1 bytes of output 'out' are wrong"):
        check_outputs(plan, sample, [wrong], "here")


class Board:
    """A board that computes what is right and whose counter says what it is told to."""

    name, board = "zephyr:here", "here"

    def __init__(self, counted: Measured, wrong: int = 0):
        self.counted, self.wrong = counted, wrong
        self.samples: list[list[np.ndarray]] = []

    def measure(self, plan: Plan, sample: list[np.ndarray]) -> tuple[list[np.ndarray], Measured]:
        self.samples.append(sample)
        found = reference.run(plan.graph, sample)
        return [found[port.tensor] ^ self.wrong for port in plan.graph.outputs], self.counted


@pytest.mark.parametrize("cycles", [1000, 600, 590])
def test_what_a_board_counts_is_told_apart(cycles: int) -> None:
    """What its layers do not take is the executor's, and never less than nothing."""
    plan = disjoint(random_layers("conv2d", 2, seed=1))
    here: Any = Board(Measured(48_000_000, cycles, ((3, 400), (5, 200))))
    report = measured.measure(plan, "m", here)
    assert (report.model, report.target, report.cycles) == ("m", "zephyr:here", cycles)
    assert [(one.calls, one.cycles) for one in report.layers] == [(3, 400), (5, 200)]
    assert (report.executor.calls, report.executor.cycles) == (1, max(cycles - 600, 0))
    macs = [step.bind(plan.graph).macs for step in plan.steps]
    assert [one.macs for one in report.layers] == macs and report.macs == sum(macs)
    assert report.cycles_per_mac == round(cycles / sum(macs), 4)
    assert (report.time.board, report.time.megahertz) == ("here", 48.0)
    assert report.time.milliseconds == round(cycles / 48_000, 3)
    # One sample, the same every time.
    again: Any = Board(here.counted)
    measured.measure(plan, "m", again, 0)
    for one, other in zip(here.samples[0], again.samples[0], strict=True):
        np.testing.assert_array_equal(one, other)
    wrong: Any = Board(here.counted, 1)
    with pytest.raises(RunnerError):
        measured.measure(plan, "m", wrong)


def test_kernel_cases_are_what_their_names_say() -> None:
    for case in kernels.CASES:
        graph = kernels.case_graph(case, 0)
        op = graph.nodes[0].op
        depth = 1 if case.kind == "depthwise" else case.inputs
        pixels, taps = case.out_size**2, case.kernel**2
        assert bind(graph, graph.nodes[0]).macs == pixels * taps * depth * case.outputs, case
        real = op.requant.multiplier / 2.0**31 * 2.0**op.requant.shift
        assert np.all((real >= 2.0**-12) & (real <= 2.0**-2)), case


def test_kernels_stand_beside_their_figures() -> None:
    peers = {"qemu:m3": 2.0, "qemu:m4": 1.5}
    case = kernels.Case("fc", "dense", 1, 8, 4, peer=peers, peer_cycles=3.0, goal=1.0)
    for on, expected in (("qemu:m3", (2.0, None, None)), ("qemu:m4", (1.5, 3.0, 1.0))):
        (result,) = kernels.bench_kernels(on, cases=(case,))
        assert (result.cmsis_nn, result.cmsis_nn_cycles, result.goal) == expected
        assert (result.name, result.report.macs) == ("fc", 32)


def test_only_emulated_boards_count() -> None:
    with pytest.raises(UserError, match=r"'host' cannot count(.|\n)*qemu:m3, qemu:m4,"):
        board("host")


def test_qemu_without_plugins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(target: CountingRunner) -> None:
        raise RunnerError("qemu-system-arm: plugin interface not enabled in this build")

    target = CountingRunner.of(board("qemu:m4"), Markers(()))
    with pytest.raises(UserError, match="--enable-plugins"):
        target.count(tmp_path, refuse)


def test_a_plugin_that_does_not_compile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "count.c").write_text("#error no headers\n")
    monkeypatch.setattr(counting, "SOURCE", tmp_path / "count.c")
    with pytest.raises(RunnerError, match=r"does not compile(.|\n)*no headers"):
        counting._plugin.__wrapped__(1)


def test_a_newer_qemu_gets_the_version_it_wants(tmp_path: Path) -> None:
    def run(target: CountingRunner) -> int:
        if target.api < 4:
            raise RunnerError("API version 1, but this QEMU supports only a minimum version of 4")
        (tmp_path / counting.COUNTS_FILE).write_text("1 2 3 4 5\n")
        return target.api

    target = CountingRunner.of(board("qemu:m4"), Markers(()))
    assert target.count(tmp_path, run) == (4, [Counts(1, 2, 3, 4, 5)])


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = paths.root() / "samples" / "digits" / "digits.onnx"
    file = tmp_path / "bench.json"
    assert main(["bench", str(model), "--on", "qemu:m3", "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    assert figures["model"] == "digits" and figures["target"] == "qemu:m3"
    assert figures["instructions"] == figures["executor"]["instructions"] + sum(
        layer["instructions"] for layer in figures["layers"]
    )
    assert {"macs", "loads_ram", "loads_flash", "stores"} <= set(figures)
    text = capsys.readouterr().out
    assert f"{figures['instructions']:,}" in text
    assert "PMC8934428" not in text and "`vmcu help cycles.md`" in text


def test_caches_of_flash_are_whole_lines() -> None:
    for name, part in PARTS.items():
        one = part.at(100.0)
        assert one.code_bytes % one.granule == 0 == one.data_bytes % one.granule, name
