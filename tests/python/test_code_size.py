# SPDX-License-Identifier: Apache-2.0
"""What the runtime's code takes on a Cortex-M4 and on RV32IMC, as the emulated boards are built: at
-O2."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from vmcu_tools import paths, runners
from vmcu_tools.runners.qemu import QemuRunner

KB = 1024
EXECUTOR = ("vmcu_init", "vmcu_input", "vmcu_invoke", "vmcu_output")
SMALL = ("vmcu_pointwise", "vmcu_depthwise_3_1", "vmcu_depthwise_3_2", "vmcu_add")


def board(name: str) -> QemuRunner:
    target = runners.get(name)
    assert isinstance(target, QemuRunner)
    return target


def declared(header: str) -> list[str]:
    """The kernels of a public header."""
    text = (paths.runtime() / "include" / "vmcu" / header).read_text()
    return re.findall(r"^void (vmcu_\w+)\(const struct vmcu_call \*call\);", text, re.MULTILINE)


def of_pairs(symbols: Sequence[str]) -> list[str]:
    """Those that a core has that pairs pixels."""
    return of_packing(symbols, "_pairs")


def of_packing(symbols: Sequence[str], suffix: str) -> list[str]:
    """Without those of which a packing has its own."""
    packed = {name.removesuffix(suffix) for name in symbols if name.endswith(suffix)}
    return [name for name in symbols if name not in packed]


def of_helium() -> list[str]:
    """The kernels of --target helium."""
    names = of_packing(declared("kernels.h"), "_helium")
    return [name for name in names if not name.endswith("_pairs")]


def linked(symbols: Sequence[str], folder: Path, name: str) -> int:
    """Bytes of code and constants that a link takes from the runtime for these functions."""
    image = folder / "part.elf"
    wanted = [f"-Wl,--undefined={symbol}" for symbol in symbols]
    # Copying memory is the application's.
    flags = ["-nostdlib", "-Wl,--gc-sections", f"-Wl,--entry={symbols[0]}"]
    flags.append("-Wl,--unresolved-symbols=ignore-all")
    tools, archive = board(name).toolchain, str(board(name).archive())
    command = [tools.tool("gcc"), *board(name).flags, *flags, *wanted, archive]
    subprocess.run([*command, "-o", str(image)], check=True, capture_output=True)
    done = subprocess.run(
        [tools.tool("size"), str(image)], check=True, capture_output=True, text=True
    )
    return int(done.stdout.splitlines()[1].split()[0])


@pytest.mark.parametrize(
    ("name", "symbols", "limit"),
    [
        pytest.param("qemu:m4", declared("kernels.h"), 30 * KB, id="all kernels"),
        pytest.param("qemu:m4", [*EXECUTOR, *SMALL], 10 * KB, id="1x1, depthwise 3x3 and Add"),
        pytest.param("qemu:m0", of_pairs(declared("kernels.h")), 43 * KB, id="v6m"),
        pytest.param("qemu:m55", of_helium(), 32 * KB, id="helium"),
        pytest.param("qemu:rv32", of_pairs(declared("kernels.h")), 41 * KB, id="rv32"),
    ],
)
def test_code_fits(name: str, symbols: list[str], limit: int, tmp_path: Path) -> None:
    size = linked(symbols, tmp_path, name)
    assert limit // 2 < size <= limit
