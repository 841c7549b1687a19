# SPDX-License-Identifier: Apache-2.0
"""The same bytes on cores that have no kernels of their own: portable C."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from random_builder import Builder
from random_graphs import LAYERS, disjoint, random_inputs
from vmcu_bench import runners
from vmcu_bench.runners.compiled import IMAGE, CompiledRunner, Toolchain
from vmcu_bench.runners.qemu import QemuRunner
from vmcu_tools import paths
from vmcu_tools.machine import reference

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


def has_library(compiler: str) -> bool:
    """Debian's compiler does not require its C library."""
    command = [compiler, "-E", "-include", "errno.h", "-x", "c", os.devnull]
    return (
        shutil.which(compiler) is None
        or not subprocess.run(command, capture_output=True).returncode
    )


def expect_layers(board: CompiledRunner) -> None:
    """Layers of every kind, in one image."""
    builder = Builder(np.random.default_rng(9))
    graph = builder.graph([LAYERS[kind](builder).name for kind in LAYERS for _ in range(5)])
    sample = random_inputs(graph, 9)
    (outputs,) = board.run(disjoint(graph), [sample])
    wanted = reference.run(graph, sample)
    for port, output in zip(graph.outputs, outputs, strict=True):
        np.testing.assert_array_equal(output, wanted[port.tensor])


@found("xtensa-lx106-elf-gcc")
@found("qemu-system-xtensa")
@pytest.mark.skipif(not has_library("xtensa-lx106-elf-gcc"), reason="no picolibc for Xtensa")
def test_xtensa() -> None:
    expect_layers(LX106)


@found("clang")
@found("llvm-ar")
@found("ld.lld")
@found("qemu-system-aarch64")
def test_aarch64() -> None:
    expect_layers(machine("qemu:a53"))


@found("riscv64-unknown-elf-gcc")
@found("qemu-system-riscv64")
def test_rv64() -> None:
    expect_layers(machine("qemu:rv64"))


def machine(name: str) -> CompiledRunner:
    board = runners.get(name)
    assert isinstance(board, CompiledRunner)
    return board
