# SPDX-License-Identifier: Apache-2.0
"""Assembly for RISC-V: which cores it is for, and that debuggers find the callers."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from vmcu_bench.runners.qemu import ARM, RISCV, RV32
from vmcu_kernelgen.families import rv32
from vmcu_kernelgen.families.rv32.frame import SAVED
from vmcu_tools import paths

pytestmark = pytest.mark.skipif(
    not (shutil.which("riscv64-unknown-elf-gcc") and shutil.which("arm-none-eabi-gcc")),
    reason="needs riscv64-unknown-elf-gcc and arm-none-eabi-gcc",
)

FILES = sorted((paths.runtime() / "kernels" / "gen").glob("*_rv32*.S"))
FUNCTIONS = {
    f.name
    for family in (rv32.RV32, rv32.INT4)
    for functions in family.assembly.values()
    for f in functions
}
OTHERS = (
    (ARM, ("-mcpu=cortex-m4",)),
    (ARM, ("-mcpu=cortex-m0", "-mthumb")),
    (RISCV, ("-march=rv64imac", "-mabi=lp64")),
    (RISCV, ("-march=rv32ic", "-mabi=ilp32")),
    (RISCV, (*RV32.flags, "-DVMCU_PORTABLE")),
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_other_cores_get_nothing(path: Path, tmp_path: Path) -> None:
    made = tmp_path / "one.o"
    for tools, flags in OTHERS:
        subprocess.run([tools.tool("gcc"), *flags, "-c", str(path), "-o", str(made)], check=True)
        command = [tools.tool("size"), str(made)]
        size = subprocess.run(command, check=True, capture_output=True, text=True)
        assert size.stdout.splitlines()[1].split()[:3] == ["0"] * 3, flags


def test_frames_follow_the_stack(tmp_path: Path) -> None:
    """At each instruction the frame information says how far SP has moved, and which registers of
    the caller have been saved."""
    image = tmp_path / "all.elf"
    flags = [flag for flag in RV32.flags if not flag.startswith("--specs")]
    link = ["-nostdlib", "-Wl,--entry=0", "-Wl,--unresolved-symbols=ignore-all"]
    command = [RISCV.tool("gcc"), *flags, *link, *map(str, FILES), "-o", str(image)]
    subprocess.run(command, check=True)
    with image.open("rb") as file:
        dwarf = ELFFile(file).get_dwarf_info()
        rows = {
            entry["initial_location"]: entry.get_decoded()
            for entry in dwarf.CFI_entries()
            if isinstance(entry, FDE)
        }
    command = [RISCV.tool("objdump"), "-d", "-M", "no-aliases", "--no-show-raw-insn", str(image)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seen = set()
    for body in re.split(r"\n(?=[0-9a-f]+ <\w+>:\n)", text)[1:]:
        head, *lines = body.splitlines()
        start, name = re.fullmatch(r"([0-9a-f]+) <(\w+)>:", head).groups()  # type: ignore[union-attr]
        table, depth, saved = rows[int(start, 16)], 0, set[str]()
        entry, behind = (depth, saved), False
        seen.add(name)
        for line in lines:
            found = re.match(r" *([0-9a-f]+):\t(\S+)\s*([^#<]*)", line)
            if not found:
                continue
            address, operands = int(found[1], 16), found[3].strip()
            if behind:
                # Code behind a return belongs to what was before it.
                depth, saved, behind = *entry, False
            row = [one for one in table.table if one["pc"] <= address][-1]
            assert row["cfa"].offset == depth, f"{name} at {address:#x}"
            rules = [number for number in row if isinstance(number, int)]
            assert len(rules) == len(saved), f"{name} at {address:#x}"
            moved = re.fullmatch(r"sp,(?:sp,)?(-?\d+)", operands)
            if moved and "addi" in found[2]:
                depth -= int(moved[1])
                saved = set() if depth == 0 else saved
            if found[2].startswith(("sw", "c.sw")) and operands.endswith("(sp)"):
                register = operands.partition(",")[0]
                saved = (
                    saved | {register} if register in SAVED and len(saved) < len(SAVED) else saved
                )
                entry = depth, saved
            behind = found[2] in ("c.jr", "jalr") and operands in ("ra", "zero,0(ra)")
    assert seen == FUNCTIONS
