# SPDX-License-Identifier: Apache-2.0
"""Cycles of a core that issues an instruction a cycle."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .instructions import LOAD, STORE, Instruction, Spent, kind_of
from .timing import Timing


@dataclass(frozen=True, kw_only=True)
class SingleIssue(Timing):
    """The rules of such a core. load: of one that stands alone; behind another load, whose result
    it does not need, it takes `pipelined`. several: LDM, STM, LDRD, STRD, PUSH and POP take one for
    each register and so many more. refill: the middle of the written range. returning: the
    additional cycles of a POP that returns. others: instructions that do not take one cycle, by
    mnemonic."""

    load: float = 2
    pipelined: float = 1
    store: float = 1
    several: float = 1
    refill: float = 1.5
    returning: float = 0
    others: Mapping[str, float] = field(default_factory=dict)

    def cost(self, instruction: Instruction, before: Instruction | None) -> Spent:
        """Times an instruction that does not branch, or whose branch is not taken."""
        return kind_of(instruction).times(self.cycles(instruction, before))

    def cycles(self, instruction: Instruction, before: Instruction | None) -> float:
        """The same in all."""
        name, words = instruction.mnemonic, instruction.words
        if LOAD.match(name):
            if before is None or not LOAD.match(before.mnemonic):
                return self.load
            needed = before.destination in re.findall(r"\w+", instruction.address)
            return self.load if needed else self.pipelined
        if STORE.match(name):
            return self.store
        if words:
            return words + self.several + self.returning * ("pc" in instruction.operands)
        return self.others.get(name, self.others.get(name.split(".")[0], 1.0))

    def block(self, run: Sequence[Instruction]) -> Spent:
        previous = (None, *run)
        return sum((self.cost(one, old) for one, old in zip(run, previous, strict=False)), Spent())
