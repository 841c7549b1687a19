# SPDX-License-Identifier: Apache-2.0
"""What the runtime's code takes on each target, as the emulated boards are built: at -O2."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from vmcu_bench import runners
from vmcu_bench.runners.qemu import QemuRunner
from vmcu_tools import paths
from vmcu_tools.kernels.language.packing import WORDS
from vmcu_tools.kernels.programs import PACKED
from vmcu_tools.kernels.targets import SUFFIXES, named

KB = 1024
EXECUTOR = ("vmcu_init", "vmcu_input", "vmcu_invoke", "vmcu_output")
# Of all kernels, by a board of each target, in KB. RV32 scales in integers instead of the library's
# float functions, which are not counted here: images are smaller.
LIMITS = {"qemu:m4": 30, "qemu:m3": 34, "qemu:m55": 32, "qemu:m0": 32, "qemu:rv32": 33}
SMALL = ("vmcu_pointwise", "vmcu_depthwise_3_1", "vmcu_depthwise_3_2", "vmcu_add")


def board(name: str) -> QemuRunner:
    target = runners.get(name)
    assert isinstance(target, QemuRunner)
    return target


def declared(header: str) -> list[str]:
    """The kernels of a public header."""
    text = (paths.runtime() / "include" / "vmcu" / header).read_text()
    return re.findall(r"^void (vmcu_\w+)\(const struct vmcu_call \*call\);", text, re.MULTILINE)


def kernels(name: str) -> list[str]:
    """The kernels of kernels.h for a board: those of its packing instead of the default ones."""
    symbols, suffix = declared("kernels.h"), named(board(name).family).packing.suffix
    of = {one: next((s for s in SUFFIXES if one.endswith(s)), "") for one in symbols}
    packed = {one.removesuffix(suffix) for one in symbols if suffix and of[one] == suffix}
    # Those that read a packing which is another target's.
    packed |= {p.symbol for made in PACKED.values() for p in made(WORDS) if suffix}
    return [one for one in symbols if of[one] in ("", suffix) and one not in packed]


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
        *(
            pytest.param(name, kernels(name), limit * KB, id=f"all kernels, {name}")
            for name, limit in LIMITS.items()
        ),
        pytest.param(
            "qemu:m4", [*EXECUTOR, *SMALL], 10 * KB + 256, id="1x1, depthwise 3x3 and Add"
        ),
    ],
)
def test_code_fits(name: str, symbols: list[str], limit: int, tmp_path: Path) -> None:
    size = linked(symbols, tmp_path, name)
    assert limit // 2 < size <= limit
