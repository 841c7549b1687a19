# SPDX-License-Identifier: Apache-2.0
"""The C and assembly files of packages compile wherever a tool chain compiles all of them, without
options on the command line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from packed import CORTEX_M4, compile_all, need, run, sources

Unpacked = Callable[[str], Path]
RISC_V = ("riscv64-unknown-elf-gcc",)
THUMB = ("arm-none-eabi-gcc", "-mthumb")
# A compiler, and in the names of the assembly files that are not empty for it, the kernels' family.
CORES = {
    "host": (("gcc",), []),
    "cortex-m0plus": ((*THUMB, "-mcpu=cortex-m0plus"), ["v6m"]),
    "cortex-m3": ((*THUMB, "-mcpu=cortex-m3"), ["v7m"]),
    "cortex-m4": (CORTEX_M4, ["dsp"]),
    "cortex-m33": ((*THUMB, "-mcpu=cortex-m33"), ["dsp"]),
    "cortex-m55": ((*THUMB, "-mcpu=cortex-m55", "-mfloat-abi=hard"), ["dsp", "helium"]),
    "cortex-a9": (("arm-none-eabi-gcc", "-mcpu=cortex-a9"), []),
    "rv32imac": ((*RISC_V, "-march=rv32imac", "-mabi=ilp32"), ["rv32"]),
    "rv32ec": ((*RISC_V, "-march=rv32ec", "-mabi=ilp32e"), []),
    "rv64": (RISC_V, []),
}
FUSED = "float fused(float a, float b, float c)\n{\n\treturn a * b + c;\n}\n"
OPTIONS = ("VMCU_CORTEX_M7", "VMCU_CONTAINERS", "VMCU_ONLINE_PLANNER", "VMCU_CONTAINER_REPLAY")
OPTIONS += ("VMCU_EXTERNAL_WEIGHTS", "VMCU_SEVERAL_POOLS")


@pytest.fixture
def library(unpacked: Unpacked) -> Path:
    """The folder src of the Arduino library."""
    return unpacked("arduino") / "vmcu" / "src"


@pytest.mark.parametrize("core", CORES)
def test_assembly_for_other_cores_is_empty(core: str, library: Path, tmp_path: Path) -> None:
    compiler, families = CORES[core]
    need(compiler[0])
    files = sorted(library.rglob("*.S"))
    objects = compile_all(compiler, files, tmp_path, f"-I{library}")
    size = "size" if core == "host" else compiler[0].replace("-gcc", "-size")
    rows = run([size, *objects]).splitlines()[1:]
    full = {path.stem for path, row in zip(files, rows, strict=True) if int(row.split()[3])}
    assert all(any(family in name for family in families) for name in full)
    assert all(any(family in name for name in full) for family in families)


def test_no_product_is_fused_without_an_option(library: Path, tmp_path: Path) -> None:
    """GCC fuses by default in its own C, which Arduino and CMSIS-Pack use: no object changes."""
    need(CORTEX_M4[0])
    (tmp_path / "fused.c").write_text(FUSED)
    files = [tmp_path / "fused.c", *sorted(library.rglob("*.c"))]
    flags = [f"-I{library}", "-DVMCU_CONTAINERS"]
    usual = compile_all(CORTEX_M4, files, tmp_path / "usual", *flags)
    apart = compile_all(CORTEX_M4, files, tmp_path / "apart", *flags, "-ffp-contract=off")
    changed = [
        file.name
        for file, one, other in zip(files, usual, apart, strict=True)
        if one.read_bytes() != other.read_bytes()
    ]
    assert changed == ["fused.c"]


def test_the_options_of_the_header_reach_each_file(library: Path, tmp_path: Path) -> None:
    """Objects are those of the same options on the command line, and no name is missing."""
    need("arm-none-eabi-gcc")
    edited = Path(shutil.copytree(library, tmp_path / "edited"))
    header = edited / "vmcu_options.h"
    text = header.read_text()
    for name in OPTIONS:
        assert f"/* #define {name} */" in text
        text = text.replace(f"/* #define {name} */", f"#define {name} 1")
    header.write_text(text)
    core = (*THUMB, "-mcpu=cortex-m7", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16")
    defined = [f"-D{name}" for name in OPTIONS]
    usual = compile_all(core, sources(library), tmp_path / "usual", f"-I{library}", *defined)
    others = compile_all(core, sources(edited), tmp_path / "others", f"-I{edited}")
    assert [
        one.name
        for one, other in zip(usual, others, strict=True)
        if one.read_bytes() != other.read_bytes()
    ] == []
    run([*core, "-nostdlib", "-r", *others, "-o", tmp_path / "all.o"])
    missing = run(["arm-none-eabi-nm", "-u", tmp_path / "all.o"]).split()
    assert [name for name in missing if name.startswith("vmcu_")] == []
