# SPDX-License-Identifier: Apache-2.0
"""Cycles by the written timing rules of the cores, evaluated on the instructions that ran.

A model: it knows instructions and branches, not the bus. What a memory adds is modelled apart
(flash.py), so figures of one memory can be turned into another's.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from ..runners.qemu import QemuRunner

# A line of objdump -d without the code itself: address, mnemonic, operands.
LINE = re.compile(r"^\s*([0-9a-f]+):\t(\S+)\t?([^;@<]*)")
LOAD = re.compile(r"ldr(b|h|sb|sh|t|bt|ht|sbt|sht|ex|exb|exh)?$")
STORE = re.compile(r"str(b|h|t|bt|ht|ex|exb|exh)?$")
BRANCH = re.compile(r"(b|bl|bx|blx|cbz|cbnz|tbb|tbh)$")
SEVERAL = re.compile(r"(ldrd|strd|push|pop|(ldm|stm)(ia|db)?)$")
MULTIPLY = re.compile(r"(udiv|sdiv|mla|mls|[us]mull|[us]mlal)$")
SPECIAL = (LOAD, STORE, BRANCH, SEVERAL, MULTIPLY)
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

    @property
    def registers(self) -> tuple[str, ...]:
        """Of a list in braces, ranges written out."""
        listed = self.operands[self.operands.index("{") + 1 : self.operands.index("}")]
        found: list[str] = []
        for part in (part.strip() for part in listed.split(",")):
            first, _, last = part.partition("-")
            if last:
                kind = first.rstrip("0123456789")
                numbers = range(int(first[len(kind) :]), int(last[len(kind) :]) + 1)
                found += [f"{kind}{number}" for number in numbers]
            else:
                found.append(first)
        return tuple(found)

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
        """What stands in brackets."""
        return self.operands.partition("[")[2]


@dataclass(frozen=True)
class Spent:
    """Where cycles go. `branches`: of branch instructions and of refilling the pipeline."""

    arithmetic: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    branches: float = 0.0

    @property
    def total(self) -> float:
        found: float = sum(getattr(self, part.name) for part in fields(self))
        return found

    def __add__(self, other: Spent) -> Spent:
        return Spent(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def times(self, count: float) -> Spent:
        return Spent(*(getattr(self, part.name) * count for part in fields(self)))


@dataclass(frozen=True)
class Timing:
    """The rules of a core; doc/cycles.md has their sources. load: of one that stands alone; behind
    another load, whose result it does not need, it takes `pipelined`. several: LDM, STM, LDRD,
    STRD, PUSH and POP take one for each register and so many more. refill: what a taken branch
    adds, the middle of the written range. others: instructions that do not take one cycle, by
    mnemonic. known: how good the cycles are."""

    core: str
    load: float = 2
    pipelined: float = 1
    store: float = 1
    several: float = 1
    refill: float = 1.5
    others: Mapping[str, float] = field(default_factory=dict)
    known: str = "modelled, not measured"

    @property
    def said(self) -> str:
        """How the cycles are known."""
        return f"{self.core}, {self.known} (doc/cycles.md)"

    def cost(self, instruction: Instruction, before: Instruction | None) -> Spent:
        """Of an instruction that does not branch, or whose branch is not taken."""
        name = instruction.mnemonic
        if LOAD.match(name):
            if before is None or not LOAD.match(before.mnemonic):
                return Spent(loads=self.load)
            needed = before.destination in re.findall(r"\w+", instruction.address)
            return Spent(loads=self.load if needed else self.pipelined)
        if STORE.match(name):
            return Spent(stores=self.store)
        words = instruction.words
        if words:
            stored = name.startswith(("st", "push", "vpush", "vst"))
            cost = words + self.several
            return Spent(stores=cost) if stored else Spent(loads=cost)
        cost = self.others.get(name, self.others.get(name.split(".")[0], 1.0))
        return Spent(branches=cost) if BRANCH.match(name) else Spent(arithmetic=cost)

    def block(self, run: Sequence[Instruction]) -> Spent:
        """Of instructions one behind the other."""
        previous = (None, *run)
        return sum((self.cost(one, old) for one, old in zip(run, previous, strict=False)), Spent())

    def taken(self, count: float) -> Spent:
        return Spent(branches=self.refill * count)


# Division ends early: 2 to 12 cycles. Few divide by little.
DIVISION = 7
FLOATS = {"vdiv": 14, "vsqrt": 14, "vmla": 3, "vmls": 3, "vfma": 3, "vfms": 3}
UPPER_BOUND = "an upper bound, modelled as a Cortex-M4"

M4 = Timing(
    "Cortex-M4",
    others={"udiv": DIVISION, "sdiv": DIVISION, **FLOATS},
)
# By what compilers call a core.
TIMINGS = {
    "cortex-m3": Timing(
        "Cortex-M3",
        others={
            **{"udiv": DIVISION, "sdiv": DIVISION, "mla": 2, "mls": 2},
            # They end early, after 3 to 5 and 4 to 7 cycles.
            **{"smull": 4, "umull": 4, "smlal": 5.5, "umlal": 5.5},
        },
    ),
    "cortex-m4": M4,
    # Their cycles are not published; both issue pairs of instructions together.
    "cortex-m33": replace(M4, core="Cortex-M33", known=UPPER_BOUND),
    "cortex-m7": replace(M4, core="Cortex-M7", known=UPPER_BOUND),
}


def timing_of(machine: QemuRunner) -> Timing | None:
    """The rules of an emulated board's core; None where only instructions are counted."""
    return TIMINGS.get(machine.core)


def said_of(machine: QemuRunner) -> str:
    """How the cycles of an emulated board are known."""
    timing = timing_of(machine)
    return f"no model of {machine.core}, instructions only" if timing is None else timing.said


def disassembled(objdump: str, image: Path) -> dict[int, Instruction]:
    """The instructions of an image by address."""
    done = subprocess.run(
        [objdump, "-d", "--no-show-raw-insn", str(image)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = {}
    for line in done.stdout.splitlines():
        match = LINE.match(line)
        if match:
            found[int(match[1], 16)] = Instruction.of(match[2], match[3])
    return found
