# SPDX-License-Identifier: Apache-2.0
"""The same bytes on cores that have no kernels of their own: portable C."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from random_graphs import LAYERS, disjoint, random_inputs, random_layers
from vmcu_tools import paths, runners
from vmcu_tools.graph import Graph
from vmcu_tools.machine import reference
from vmcu_tools.runners.compiled import IMAGE, CompiledRunner, Toolchain
from vmcu_tools.runners.qemu import QemuRunner

PORT = paths.runtime() / "port" / "freestanding"
XTENSA = Toolchain("xtensa-lx106-elf-", "gcc-xtensa-lx106 picolibc-xtensa-lx106-elf")


@dataclass(frozen=True)
class Xtensa(QemuRunner):
    """QEMU's simulator board; all of its memory is RAM."""

    def sources(self) -> list[Path]:
        own = Path(__file__).parent / "xtensa.c"
        return [IMAGE / "io_semihosting.c", own, PORT / "memory.c"]


LX106 = Xtensa(
    "xtensa",
    "Xtensa LX106",
    XTENSA,
    ("-mtext-section-literals", "-ffreestanding"),
    machine="sim -cpu lx106",
    emulator="qemu-system-xtensa",
    seconds=60,
    flash_start=0x50000000,
    ram_start=0x60000000,
)


def found(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"not installed: {program}")


def expect_layers(graph: Graph, board: CompiledRunner) -> None:
    sample = random_inputs(graph, 9)
    (outputs,) = board.run(disjoint(graph), [sample])
    wanted = reference.run(graph, sample)
    for port, output in zip(graph.outputs, outputs, strict=True):
        np.testing.assert_array_equal(output, wanted[port.tensor])


@found("xtensa-lx106-elf-gcc")
@found("qemu-system-xtensa")
@pytest.mark.parametrize("kind", LAYERS)
def test_xtensa(kind: str) -> None:
    expect_layers(random_layers(kind, 6, seed=9), LX106)


@found("clang")
@found("llvm-ar")
@found("ld.lld")
@found("qemu-system-aarch64")
@pytest.mark.parametrize("kind", LAYERS)
def test_aarch64(kind: str) -> None:
    board = runners.get("qemu:a53")
    assert isinstance(board, CompiledRunner)
    expect_layers(random_layers(kind, 6, seed=9), board)


@found("riscv64-unknown-elf-gcc")
@found("qemu-system-riscv64")
@pytest.mark.parametrize("kind", LAYERS)
def test_rv64(kind: str) -> None:
    board = runners.get("qemu:rv64")
    assert isinstance(board, CompiledRunner)
    expect_layers(random_layers(kind, 6, seed=9), board)
