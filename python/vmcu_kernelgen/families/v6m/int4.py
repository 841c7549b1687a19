# SPDX-License-Identifier: Apache-2.0
"""Blocks of channels whose weights have 4 bits: a byte has in its upper half one of the first half
of a block's channels, in its lower half one of the second. A turn of channels of one half has a
loop of its own. Products of eight taps are always added up together.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import ClassVar

from vmcu_tools.kernels.targets.portable.dense import whole_dense
from vmcu_tools.kernels.targets.portable.shapes import SHAPES

from ...assembly import WORD, note, registers
from .. import pairs
from .blocks import LANES, Blocks
from .frame import ENTRY, EXCESS, LAST, PLACE, STREAM, T
from .single import Single, functions

SUFFIX = "_int4"


def nibble(to: str, word: str, number: int, lower: int) -> list[str]:
    """Half of a byte of a word, with its sign."""
    left = 24 - 8 * number + 4 * lower
    if left == 0:
        return [f"asrs {to}, {word}, #28"]
    return [f"lsls {to}, {word}, #{left}", f"asrs {to}, {to}, #28"]


@dataclass(frozen=True)
class Nibbles(Blocks):
    """A shape's blocks of such weights; turn: of a block, whose loop it is."""

    suffix: ClassVar[str] = SUFFIX
    turn: int = 0

    @property
    def turns(self) -> int:
        """Counts the turns of a block."""
        return self.channels // self.at_once

    def weights(self, at: int) -> list[str]:
        return [f"ldm {STREAM}!, {registers(('r2', 'r3')[: self.channels // 2])}"]

    def passed(self, steps: int) -> list[str]:
        return []

    def weight(self, to: str, n: int, number: int) -> list[str]:
        if self.turns == 1:
            return nibble(to, "r2", number, n)
        return nibble(to, ("r2", "r3")[n], number, self.turn)

    def loops(self) -> list[str]:
        code = []
        for turn in range(self.turns):
            of_turn = replace(self, turn=turn)
            end = [f"cmp {T}, {LAST}", f"bne <turn_{turn}>"]
            code += [
                note("All taps: the first step of an odd number, then two."),
                f"<odd_{turn}>:",
                *of_turn.steps(1, LANES),
                *end,
                f"b <taken_{turn}>",
                ".p2align 2",
                f"<turn_{turn}>:",
                *of_turn.steps(2, 2 * LANES),
                *end,
                f"<taken_{turn}>:",
            ]
            # Factors are behind the weights of the whole block.
            code += [f"adds {STREAM}, #{WORD * self.at_once}"] * turn + ["b <done>"]
        return code

    def prepare(self) -> list[str]:
        return [
            note("How often 2**15 is added to a pair of sums, and whether the steps are odd."),
            "adds r4, r2, #1",
            "lsrs r4, r4, #1",
            "lsls r4, r4, #15",
            f"str r4, {EXCESS}",
            "movs r4, #1",
            "ands r2, r4",
            "lsls r2, r2, #1",
            f"str r2, {ENTRY}",
        ]

    def entries(self) -> list[str]:
        return []

    def enter(self) -> list[str]:
        code = [f"ldr r3, {ENTRY}"]
        if self.turns > 1:
            code += [
                f"ldr r4, {PLACE}",
                f"cmp r4, #{WORD * self.channels}",
                "beq <first>",
                "adds r3, #4",
                f"subs {STREAM}, #{WORD * self.at_once}",
                "<first>:",
            ]
        places = itertools.product(range(self.turns), ("turn", "odd"))
        return [
            *code,
            "adr r4, <entries>",
            "ldrh r3, [r4, r3]",
            "adds r3, r3, r4",
            "mov pc, r3",
            ".p2align 2",
            "<entries>:",
            *(f".short <{place}_{turn}> - <entries>" for turn, place in places),
        ]


class SingleNibbles(Single):
    """A pixel's blocks of such weights."""

    suffix: ClassVar[str] = SUFFIX

    def by_word(self) -> list[tuple[str, ...]]:
        half = self.channels // 2
        return [*zip(self.sums[:half], self.sums[half:], strict=True)]

    def weight(self, number: int, part: int) -> list[str]:
        return nibble("r3", "r2", number, part)


FUNCTIONS = [
    *(Nibbles(shape).function() for shape in SHAPES if shape.pixels > 1),
    *functions(SingleNibbles),
]
HELPERS = {
    **pairs.HELPERS,
    "paired_runs": pairs.paired_runs(SUFFIX),
    "dense_whole": whole_dense(f"vmcu_paired_1x4{SUFFIX}", ", 0, 0"),
}
