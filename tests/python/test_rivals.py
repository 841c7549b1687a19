# SPDX-License-Identifier: Apache-2.0
"""Figures beside other projects': 1-D layers beside 2-D ones, CMSIS-NN's kernels, boards."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest
from vmcu_bench.cycles.model import bench, on_board
from vmcu_bench.cycles.timing import PER_INSTRUCTION
from vmcu_tools.boards.table import known
from vmcu_tools.compiler import compile_model
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.report.time import BOARD_FACTORS, board_seconds, estimated_time

from scripts import ROOT, script

sys.path[:0] = [str(ROOT / "benchmarks" / folder) for folder in ("paper", "rivals")]
MISSING = [p for p in ("qemu-system-arm", "arm-none-eabi-gcc") if shutil.which(p) is None]
needs_qemu = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
CMSIS_NN = Path(
    os.environ.get("VMCU_CMSIS_NN", Path.home() / "zephyrproject" / "modules" / "lib" / "cmsis-nn")
)
needs_cmsis_nn = pytest.mark.skipif(
    not (CMSIS_NN / "Include").is_dir(), reason="set VMCU_CMSIS_NN to CMSIS-NN's sources"
)
E8 = "ensemble_e8_dk/ae822fa0e5597ls0/rtss_hp"


@pytest.fixture(scope="module")
def boards() -> ModuleType:
    return script("boards", "benchmarks/rivals/boards.py")


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    return script("rival_kernels", "benchmarks/rivals/kernels.py")


@needs_qemu
@pytest.mark.parametrize(
    ("machine", "channels", "taps", "stride", "dilation"),
    [
        ("qemu:m4", 1, 9, 2, 1),
        ("qemu:m4", 3, 3, 1, 4),
        ("qemu:m55", 8, 3, 1, 1),
        ("qemu:m0", 1, 3, 1, 1),
        ("qemu:m3", 1, 25, 8, 1),
        ("qemu:rv32", 6, 9, 2, 1),
    ],
)
def test_cells_of_sequences_are_counted_again(
    machine: str, channels: int, taps: int, stride: int, dilation: int
) -> None:
    page = script("one_dimension", "benchmarks/sequences/run.py")
    if machine == "qemu:rv32" and shutil.which("qemu-system-riscv32") is None:
        pytest.skip("not installed: qemu-system-riscv32")
    asked = page.Cell(machine, channels, taps, stride, dilation)
    assert page.counted(asked) in page.read(), "python benchmarks/sequences/run.py --count"


def test_the_cells_are_the_whole_grid() -> None:
    page = script("one_dimension", "benchmarks/sequences/run.py")
    assert [*map(page.place, page.read())] == sorted(map(page.place, page.grid(page.MACHINES)))


def test_cycles_of_an_instruction_are_those_of_the_board(boards: ModuleType) -> None:
    pairs = [pair for pair in boards.read() if pair.core == "m55"]
    deep = [pair for pair in pairs if pair.network.startswith("dw")]
    others = [pair for pair in pairs if pair not in deep]

    def mean(some: Sequence[object]) -> float:
        return round(sum(p.published for p in some) / sum(p.counted for p in some), 2)  # type: ignore[attr-defined]

    assert PER_INSTRUCTION["cortex-m55"] == {"": mean(others), "DepthwiseConv2D": mean(deep)}


@needs_qemu
@pytest.mark.parametrize("sample", ["digits", "gesture", "keyword", "wake_word"])
def test_a_board_with_mve_has_an_estimate(sample: str) -> None:
    """Counted milliseconds are as near to the estimate as it says; without MVE there is none."""
    file = ROOT / "samples" / sample / f"{sample}.onnx"
    plan = compile_model(file, CompileOptions(target="helium"))
    counted = on_board(bench(plan, sample, "qemu:m55"), known()[E8], None, "").time
    assert counted is not None
    least, most = BOARD_FACTORS
    assert least < counted.milliseconds / 1000 / board_seconds(plan, known()[E8])[0] < most
    assert "add --target helium" in estimated_time(compile_model(file), known()[E8])


@needs_qemu
@needs_cmsis_nn
def test_a_board_is_modelled_again(boards: ModuleType) -> None:
    """The network of the series, whose layers are of four kinds."""
    pair = next(p for p in boards.read() if (p.board, p.network) == ("F446", "series"))
    assert next(boards.count(CMSIS_NN, [pair])) == pair


@needs_qemu
@needs_cmsis_nn
def test_every_kind_of_layer_has_a_peer(kernels: ModuleType) -> None:
    names = ["fc 32->32", "1x1 3->16", "1-D 9 1->16, stride 2", "max 2x2 48", "add 48", "mul 48"]
    rows = kernels.compared(CMSIS_NN, "qemu:m55", names).rows
    assert [row[0] for row in rows] == names and "-" not in {cell for row in rows for cell in row}


def test_a_folder_that_is_no_cmsis_nn_is_refused(
    kernels: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert kernels.main([str(tmp_path)]) == 2
    assert "name the folder of CMSIS-NN's sources" in capsys.readouterr().err
