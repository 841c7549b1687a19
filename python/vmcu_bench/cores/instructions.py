# SPDX-License-Identifier: Apache-2.0
"""Instructions as a disassembler shows them, and where their cycles go."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, fields
from pathlib import Path

# A line of objdump -d without the code itself: address, mnemonic, operands.
LINE = re.compile(r"^\s*([0-9a-f]+):\t(\S+)\t?([^;@<]*)")
LOAD = re.compile(r"ldr(b|h|sb|sh|t|bt|ht|sbt|sht|ex|exb|exh)?$")
STORE = re.compile(r"str(b|h|t|bt|ht|ex|exb|exh)?$")
BRANCH = re.compile(r"(b|bl|bx|blx|cbz|cbnz|tbb|tbh)$")
SEVERAL = re.compile(r"(ldrd|strd|push|pop|(ldm|stm)(ia|db)?)$")
MULTIPLY = re.compile(r"(udiv|sdiv|mla|mls|[us]mull|[us]mlal)$")
SPECIAL = (LOAD, STORE, BRANCH, SEVERAL, MULTIPLY)
# Division ends early: 2 to 12 cycles. Few divide by little.
DIVISION = 7
CONDITIONS = frozenset(
    ["eq", "ne", "cs", "hs", "cc", "lo", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le"]
)


@dataclass(frozen=True)
class Instruction:
    """One instruction as a disassembler shows it, its condition and width left out."""

    mnemonic: str
    operands: str

    @staticmethod
    def of(mnemonic: str, operands: str) -> Instruction:
        name = mnemonic if mnemonic.startswith("v") else mnemonic.split(".")[0]
        known = any(kind.match(name) for kind in SPECIAL)
        if not known and name[-2:] in CONDITIONS:
            name = name[:-2] if any(kind.match(name[:-2]) for kind in SPECIAL) else name
        return Instruction(name, operands.strip())

    @staticmethod
    def parse(line: str) -> Instruction:
        """Parses a line of assembly."""
        mnemonic, _, operands = line.partition(" ")
        return Instruction.of(mnemonic, operands)

    @property
    def registers(self) -> tuple[str, ...]:
        """Lists the registers in braces, ranges written out."""
        listed = self.operands[self.operands.index("{") + 1 : self.operands.index("}")]
        registers: list[str] = []
        for part in (part.strip() for part in listed.split(",")):
            first, _, last = part.partition("-")
            if last:
                kind = first.rstrip("0123456789")
                numbers = range(int(first[len(kind) :]), int(last[len(kind) :]) + 1)
                registers += [f"{kind}{number}" for number in numbers]
            else:
                registers.append(first)
        return tuple(registers)

    @property
    def words(self) -> int:
        """Registers that it loads or stores, if it is one that may do so with several; else 0."""
        if "{" in self.operands:
            return len(self.registers)
        if self.mnemonic in ("ldrd", "strd"):
            return 2
        if self.mnemonic.startswith(("vldr", "vstr")):
            return 2 if self.destination.startswith("d") else 1
        return 0

    @property
    def destination(self) -> str:
        return self.operands.split(",")[0].strip()

    @property
    def address(self) -> str:
        """Returns the operands in brackets."""
        return self.operands.partition("[")[2]


@dataclass(frozen=True)
class Spent:
    """Cycles by kind of instruction. `branches`: of branch instructions and of refilling the
    pipeline."""

    arithmetic: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    branches: float = 0.0

    @property
    def total(self) -> float:
        cycles: float = sum(getattr(self, part.name) for part in fields(self))
        return cycles

    def __add__(self, other: Spent) -> Spent:
        return Spent(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def times(self, count: float) -> Spent:
        return Spent(*(getattr(self, part.name) * count for part in fields(self)))


def kind_of(instruction: Instruction) -> Spent:
    """A cycle of an instruction."""
    name = instruction.mnemonic
    stores = name.startswith(("st", "push", "vst", "vpush"))
    if BRANCH.match(name):
        return Spent(branches=1)
    if stores:
        return Spent(stores=1)
    if LOAD.match(name) or instruction.words or name.startswith("vldr"):
        return Spent(loads=1)
    return Spent(arithmetic=1)


def disassembled(objdump: str, image: Path) -> dict[int, Instruction]:
    """The instructions of an image by address."""
    done = subprocess.run(
        [objdump, "-d", "--no-show-raw-insn", str(image)],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    instructions = {}
    for line in done.stdout.splitlines():
        match = LINE.match(line)
        if match:
            instructions[int(match[1], 16)] = Instruction.of(match[2], match[3])
    return instructions
