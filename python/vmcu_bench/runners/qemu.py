# SPDX-License-Identifier: Apache-2.0
"""Emulated Cortex-M and RISC-V boards, without an operating system, talking by semihosting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vmcu_tools import paths

from .archive import GC
from .compiled import IMAGE, CompiledRunner, Toolchain, find_program

# Of most boards.
RAM_START = 0x20000000
ARM = Toolchain("arm-none-eabi-", "gcc-arm-none-eabi libnewlib-arm-none-eabi")
RISCV = Toolchain("riscv64-unknown-elf-", "gcc-riscv64-unknown-elf libnewlib-dev")
LLVM = Toolchain("llvm-", "clang lld llvm libnewlib-dev", clang=True)
# Headers of a C library for compilers that have none.
NEWLIB = "-isystem/usr/include/newlib"
# The Debian packages of emulators.
PACKAGES = {
    "qemu-system-arm": "qemu-system-arm",
    "qemu-system-aarch64": "qemu-system-arm",
    "qemu-system-riscv32": "qemu-system-misc",
    "qemu-system-riscv64": "qemu-system-misc",
    "qemu-system-xtensa": "qemu-system-misc",
}


def _port() -> Path:
    return paths.runtime() / "port" / "freestanding"


@dataclass(frozen=True)
class QemuRunner(CompiledRunner):
    """`emulator` is QEMU's program, `machine` its name of the board, with options. The board's
    memories are as large as linker.ld assumes, at `flash_start` and `ram_start`. `ram`: bytes of
    RAM that images get, stack included; None for all that the board has. `flash`: bytes of code
    memory, likewise. `uart`: the address of the board's first UART. `probed`: over it, images serve
    a probe in place of files, see vmcu/probe.h."""

    machine: str = ""
    emulator: str = "qemu-system-arm"
    pointer_bytes: int = 4
    ram: int | None = None
    flash: int | None = None
    flash_start: int = 0
    ram_start: int = RAM_START
    uart: int = 0x40004000
    probed: bool = False

    @property
    def core(self) -> str:
        """Returns the core's name in compilers."""
        named = ("-mcpu=", "-march=")
        return next(flag for flag in self.flags if flag.startswith(named)).partition("=")[2]

    def programs(self) -> dict[str, str]:
        return super().programs() | {self.emulator: PACKAGES[self.emulator]}

    def command(self, image: Path) -> list[str]:
        return [
            find_program(self.emulator, PACKAGES[self.emulator]),
            *("-M", *self.machine.split(), "-nographic", "-monitor", "none"),
            *("-serial", "stdio" if self.probed else "none"),
            *("-semihosting-config", "enable=on,target=native", "-kernel", str(image)),
        ]

    @property
    def main(self) -> Path:
        return IMAGE / "probe_main.c" if self.probed else super().main

    def probing(self) -> QemuRunner:
        """The target whose images serve a probe."""
        flags = (*self.flags, "-DVMCU_PROBE", f"-DIMAGE_UART={self.uart:#x}U")
        return replace(self, flags=flags, probed=True)

    def roomy(self) -> QemuRunner:
        return replace(self, ram=None)

    def sources(self) -> list[Path]:
        names = ("startup.c", "semihosting.c", "memory.c")
        return [IMAGE / "io_semihosting.c", *(_port() / name for name in names)]

    def include_flags(self) -> list[str]:
        return [*super().include_flags(), f"-I{_port()}"]

    def link_flags(self) -> list[str]:
        symbols = {"vmcu_flash_base": self.flash_start, "vmcu_ram_base": self.ram_start}
        sizes = {"vmcu_ram_size": self.ram, "vmcu_flash_size": self.flash}
        symbols |= {name: size for name, size in sizes.items() if size is not None}
        return [
            *("-nostdlib", f"-T{_port() / 'linker.ld'}", GC),
            *(f"-Wl,--defsym={name}={value:#x}" for name, value in symbols.items()),
            *(
                ("-fuse-ld=lld",)
                if self.toolchain.clang
                else ("-Wl,--no-warn-rwx-segments", "-lgcc")
            ),
        ]


def _board(name: str, machine: str, summary: str, *cpu: str, **memory: Any) -> QemuRunner:
    flags = ("-mthumb", "-ffreestanding", *cpu)
    return QemuRunner(name, summary, ARM, flags, machine=machine, **memory)


M4_FPU = ("-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")

M4 = ("-mcpu=cortex-m4", *M4_FPU)
M7 = ("-mcpu=cortex-m7", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16", "-DVMCU_CORTEX_M7")
M33 = ("-mcpu=cortex-m33", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16")
# Where that board's secure side, in which it starts, sees its memories.
M33_MEMORY = {"flash_start": 0x10000000, "ram_start": 0x38000000, "uart": 0x50200000}
# Its tightly coupled memory for code; RAM is the static RAM of its subsystem, seen as above.
M55 = ("-mcpu=cortex-m55", "-mfloat-abi=hard")
M55_BOARD: dict[str, Any] = {
    "flash": 512 * 1024,
    "ram_start": 0x31000000,
    "uart": 0x59303000,
    "family": "helium",
}

# All of that board's memory is RAM; images keep the first 4 MB for the sections that are in flash
# on others.
RV32 = QemuRunner(
    "qemu:rv32",
    "RV32IMC on an emulated board of QEMU's own",
    RISCV,
    ("-march=rv32imc", "-mabi=ilp32", "-ffreestanding", NEWLIB),
    machine="virt -bios none",
    emulator="qemu-system-riscv32",
    flash_start=0x80000000,
    ram_start=0x80400000,
    uart=0x10000000,
    family="rv32",
)
# No board with this core has the RAM; a Cortex-M3 executes all of its instructions.
M0 = "Cortex-M0+ code on an emulated Cortex-M3"

RV64 = replace(
    RV32,
    name="qemu:rv64",
    summary="RV64IMAC on an emulated board of QEMU's own",
    flags=("-march=rv64imac", "-mabi=lp64", "-mcmodel=medany", "-ffreestanding", NEWLIB),
    emulator="qemu-system-riscv64",
    pointer_bytes=8,
    family=None,
)
# Without a memory management unit, all memory is a device's, and devices want aligned accesses.
A53 = QemuRunner(
    "qemu:a53",
    "Cortex-A53 in AArch64 state on an emulated board of QEMU's own",
    LLVM,
    (
        *("--target=aarch64-none-elf", "-mcpu=cortex-a53", "-mstrict-align", "-ffreestanding"),
        NEWLIB,
    ),
    machine="virt -cpu cortex-a53",
    emulator="qemu-system-aarch64",
    pointer_bytes=8,
    flash_start=0x40000000,
    ram_start=0x41000000,
    uart=0x09000000,
)
BOARDS = (
    _board("qemu:m0", "mps2-an385", M0, "-mcpu=cortex-m0plus", family="v6m"),
    _board("qemu:m3", "mps2-an385", "Cortex-M3 on an emulated MPS2", "-mcpu=cortex-m3"),
    _board("qemu:m4", "mps2-an386", "Cortex-M4F on an emulated MPS2", *M4),
    _board("qemu:m4-64k", "mps2-an386", "the same with 64 KB of RAM", *M4, ram=64 * 1024),
    _board("qemu:m7", "mps2-an500", "Cortex-M7F on an emulated MPS2", *M7),
    _board("qemu:m33", "mps2-an505", "Cortex-M33F on an emulated MPS2", *M33, **M33_MEMORY),
    _board("qemu:m55", "mps3-an547", "Cortex-M55 on an emulated MPS3", *M55, **M55_BOARD),
    RV32,
    RV64,
    A53,
)
