# SPDX-License-Identifier: Apache-2.0
"""Cycles by the written timing rules of the cores, evaluated on the instructions that ran.

A model: it knows instructions and branches, not the bus. What a memory adds is modelled apart
(flash.py), so figures of one memory can be turned into another's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..cores.dual_issue import DualIssue
from ..cores.instructions import BRANCH, LOAD, STORE, Instruction, Spent
from ..runners.qemu import QemuRunner


@dataclass(frozen=True)
class Timing:
    """The rules of a core; doc/cycles.md has their sources. load: of one that stands alone; behind
    another load, whose result it does not need, it takes `pipelined`. several: LDM, STM, LDRD,
    STRD, PUSH and POP take one for each register and so many more. refill: what a taken branch
    adds, the middle of the written range. returning: what a POP that returns adds besides. others:
    instructions that do not take one cycle, by mnemonic. known: how good the cycles are."""

    core: str
    load: float = 2
    pipelined: float = 1
    store: float = 1
    several: float = 1
    refill: float = 1.5
    returning: float = 0
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
            cost = words + self.several + self.returning * ("pc" in instruction.operands)
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
TIMINGS: Mapping[str, Timing | DualIssue] = {
    "cortex-m0plus": Timing(
        *("Cortex-M0+", 2, 2, 2),
        refill=1,
        returning=1,
        others={"bl": 2, "dmb": 3, "dsb": 3, "isb": 3, "mrs": 3, "msr": 3},
        # Others have one of 32 cycles.
        known="modelled with a multiplier of one cycle, not measured",
    ),
    "cortex-m3": Timing(
        "Cortex-M3",
        others={
            **{"udiv": DIVISION, "sdiv": DIVISION, "mla": 2, "mls": 2},
            # They end early, after 3 to 5 and 4 to 7 cycles.
            **{"smull": 4, "umull": 4, "smlal": 5.5, "umlal": 5.5},
        },
    ),
    "cortex-m4": M4,
    # Its cycles are not published; it issues some pairs of instructions together.
    "cortex-m33": replace(M4, core="Cortex-M33", known=UPPER_BOUND),
    "cortex-m7": DualIssue("Cortex-M7"),
}


def timing_of(machine: QemuRunner) -> Timing | DualIssue | None:
    """The rules of an emulated board's core; None where only instructions are counted."""
    return TIMINGS.get(machine.core)


def said_of(machine: QemuRunner) -> str:
    """How the cycles of an emulated board are known."""
    timing = timing_of(machine)
    return f"no model of {machine.core}, instructions only" if timing is None else timing.said
