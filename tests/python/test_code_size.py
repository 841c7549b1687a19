# SPDX-License-Identifier: Apache-2.0
"""What the runtime's code takes on a Cortex-M4, as the emulated boards are built: at -O2."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from vmcu_tools import paths, runners
from vmcu_tools.runners.qemu import ARM, QemuRunner

KB = 1024
EXECUTOR = ("vmcu_init", "vmcu_input", "vmcu_invoke", "vmcu_output")
SMALL = ("vmcu_pointwise", "vmcu_depthwise_3_1", "vmcu_depthwise_3_2", "vmcu_add")


def board() -> QemuRunner:
    target = runners.get("qemu:m4")
    assert isinstance(target, QemuRunner)
    return target


def declared(header: str) -> list[str]:
    """The kernels of a public header."""
    text = (paths.runtime() / "include" / "vmcu" / header).read_text()
    return re.findall(r"^void (vmcu_\w+)\(const struct vmcu_call \*call\);", text, re.MULTILINE)


def linked(symbols: tuple[str, ...] | list[str], folder: Path) -> int:
    """Bytes of code and constants that a link takes from the runtime for these functions."""
    image = folder / "part.elf"
    wanted = [f"-Wl,--undefined={symbol}" for symbol in symbols]
    # Copying memory is the application's.
    flags = ["-nostdlib", "-Wl,--gc-sections", f"-Wl,--entry={symbols[0]}"]
    flags.append("-Wl,--unresolved-symbols=ignore-all")
    command = [ARM.tool("gcc"), *board().flags, *flags, *wanted, str(board().archive())]
    subprocess.run([*command, "-o", str(image)], check=True, capture_output=True)
    done = subprocess.run(
        [ARM.tool("size"), str(image)], check=True, capture_output=True, text=True
    )
    return int(done.stdout.splitlines()[1].split()[0])


@pytest.mark.parametrize(
    ("symbols", "limit"),
    [
        pytest.param(declared("kernels.h"), 30 * KB, id="all kernels"),
        pytest.param([*EXECUTOR, *SMALL], 10 * KB, id="1x1, depthwise 3x3 and Add"),
    ],
)
def test_code_fits(symbols: list[str], limit: int, tmp_path: Path) -> None:
    size = linked(symbols, tmp_path)
    assert limit // 2 < size <= limit
