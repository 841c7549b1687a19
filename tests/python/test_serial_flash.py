# SPDX-License-Identifier: Apache-2.0
"""What `vmcu build` estimates of constants in serial flash and in a weights file."""

from __future__ import annotations

import re
import shutil

import pytest
from builders.networks import network_file
from vmcu_bench.cycles.model import bench
from vmcu_tools.boards.flash import Flash, SerialFlash
from vmcu_tools.boards.table import known
from vmcu_tools.cli import main, parser
from vmcu_tools.commands.models import options_of
from vmcu_tools.compiler import compile_model
from vmcu_tools.paths import root
from vmcu_tools.plan.chunks import WeightStore
from vmcu_tools.plan.weights import constant_bytes
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.stages.costs import fetched_bytes
from vmcu_tools.report.time import board_seconds, wait_seconds
from vmcu_tools.report.weights import weights_report

DIGITS = root() / "samples" / "digits" / "digits.onnx"
PICO = known()["rpi_pico2/rp2350a/m33"]
MISSING = [p for p in ("qemu-system-arm", "arm-none-eabi-gcc") if shutil.which(p) is None]


def test_constants_are_read_once_or_by_call_or_by_block() -> None:
    plan = compile_model(DIGITS)
    layers = [step.bind(plan.graph) for step in plan.steps]
    sizes = [constant_bytes(plan.graph, layer) for layer in layers]
    assert fetched_bytes(plan, 1 << 20) == sum(sizes)
    blocks = [layer.height * layer.blocks(layer.sharing) for layer in layers]
    read = sum(size * count for size, count in zip(sizes, blocks, strict=True))
    assert fetched_bytes(plan, 0) == read > 2 * sum(sizes)
    amounts = [fetched_bytes(plan, size) for size in range(0, 1 << 14, 512)]
    assert amounts == sorted(amounts, reverse=True)


def test_a_line_waits_for_its_command_and_its_bytes() -> None:
    plan = compile_model(DIGITS)
    waits = [wait_seconds(plan, PICO, SerialFlash("qspi", 15e6, 1 << 20, n)) for n in (8, 32)]
    # 10 bytes before the data: (10 + line) / 15 MB/s for each line, in whole cycles.
    lines = [-(-fetched_bytes(plan, 1 << 19) // line) for line in (8, 32)]
    assert waits == pytest.approx([lines[0] * 1.2e-6, lines[1] * 2.8e-6])
    assert board_seconds(plan, PICO)[1] > 0
    assert board_seconds(plan, known()["nrf52840dk/nrf52840"])[1] == 0


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
@pytest.mark.parametrize("name", ["digits", "mlperf-tiny-kws"])
@pytest.mark.parametrize("cache", [1024, 4096])
def test_the_emulator_reads_as_much(name: str, cache: int) -> None:
    """Past a cache that keeps all code: what is read more often than once."""
    plan = compile_model(DIGITS if name == "digits" else network_file(name))
    sizes = cache, 1 << 16
    counted = [bench(plan, "m", "qemu:m33", flash=Flash(64, 1 << 16, n, 10, "qspi")) for n in sizes]
    small, large = (report.flash_bytes or 0 for report in counted)
    estimated = fetched_bytes(plan, cache) - fetched_bytes(plan, 1 << 16)
    # Above it where layers take turns in a cache that has room for a part of their constants, below
    # it where a kernel reads constants that do not fit several times in a call.
    assert 0.65 < estimated / (small - large) < 2


def test_the_time_has_the_waits_for_a_weights_file() -> None:
    plan = compile_model(DIGITS, CompileOptions(external_weights=WeightStore(1e5)))
    report = weights_report(plan, board_seconds(plan, PICO)[0])
    seconds, waits = board_seconds(plan, PICO)
    assert report is not None and 0 < waits < seconds
    slow = compile_model(DIGITS, CompileOptions(external_weights=WeightStore(1e4)))
    more, longer = board_seconds(slow, PICO)
    assert longer > 9 * waits and more - longer == pytest.approx(seconds - waits)


def test_build_says_how_long_flash_takes(capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> str:
        assert main(["build", str(DIGITS), *words]) == 0
        return " ".join(capsys.readouterr().out.split())

    slow = said("--board", "rpi_pico2", "--flash-bus", "qspi:1MB/s")
    ms, waited = map(float, re.findall(r"estimated ([\d.]+) ms .*?, ([\d.]+) of them", slow)[0])
    assert waited < ms and "--external-weights reads constants once" in slow
    fast = said("--board", "rpi_pico2", "--flash-bus", "qspi:1000MB/s,cache=64K")
    assert "--external-weights" not in fast
    assert "no estimate" in said("--board", "esp32c3_devkitm", "--flash-bus", "qspi:40MB/s")
    assert " ms at 600 MHz on teensy41" in said("--board", "teensy41", "--flash-bus", "qspi:50MB/s")
    assert main(["build", str(DIGITS), "--flash-bus", "qspi:1MB/s"]) == 1
    assert "add --board NAME" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "share"), [("kws", 0.1), pytest.param("resnet8", 0.8, marks=pytest.mark.slow)]
)
def test_plans_for_serial_flash_read_less(name: str, share: float) -> None:
    """A plan may have 8 KB more where constants are in serial flash; another board's may not."""
    model = network_file(f"mlperf-tiny-{name}")
    boards = [], ["--board", "rpi_pico2"], ["--board", "nrf52840dk"]
    given = [parser().parse_args(["build", str(model), *words]) for words in boards]
    usual, pico, nordic = (compile_model(model, options_of(args)) for args in given)
    assert usual.pool_bytes == nordic.pool_bytes < pico.pool_bytes
    assert pico.pool_bytes <= 1.15 * usual.pool_bytes + 8192
    waits = [wait_seconds(plan, PICO, None) for plan in (usual, pico)]
    assert waits[1] < share * waits[0]
