# SPDX-License-Identifier: Apache-2.0
"""Blocks of channels of one pixel in assembly, from bias to store: four taps stay in registers that
multiply, the sums are in R8 to R11."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from vmcu_tools.kernels.language.packing import PAIRS, packed_shifts

from ...assembly import WORD, Function, note, registers, release, reserve
from .blocks import byte
from .frame import CHANNELS, HIGH, LAST, NAMES, OUT, SLOTS, STREAM, TILE, T, leave, save
from .requant import factor, stored

TAPS = ("r4", "r5", "r6", "r7")


def bytes_in_order(to: Sequence[str]) -> list[str]:
    """The bytes of the last register into all of them."""
    return [line for number, one in enumerate(to) for line in byte(one, to[-1], number)]


# Loads four taps from their source, and C of their type.
WORDS_OF_BYTES = [f"ldm {T}!, {{{TAPS[-1]}}}", *bytes_in_order(TAPS)]
SINGLE_BYTES = [
    *(f"ldrb {tap}, [{T}, #{at}]" for at, tap in enumerate(TAPS)),
    *(f"sxtb {tap}, {tap}" for tap in TAPS),
    f"adds {T}, #{len(TAPS)}",
]


@dataclass(frozen=True)
class Single:
    """A function. channels: of a block; loops: how four taps come into registers, by label; of two
    the first is for addresses of words."""

    channels: int
    loops: dict[str, list[str]]
    suffix: ClassVar[str] = ""

    @property
    def sums(self) -> tuple[str, ...]:
        return HIGH[: self.channels]

    def by_word(self) -> list[tuple[str, ...]]:
        """The sums of the channels that a word has weights of."""
        return [(acc,) for acc in self.sums]

    def weight(self, number: int, part: int) -> list[str]:
        """That of a tap from the word in R2 to R3; part: which of the word's channels."""
        return byte("r3", "r2", number)

    def turn(self, label: str, taps: Sequence[str]) -> list[str]:
        """All taps, four at a time."""
        code = []
        for accs in self.by_word():
            code += [f"ldm {STREAM}!, {{r2}}"]
            for part, acc in enumerate(accs):
                for number, tap in enumerate(TAPS):
                    weight = self.weight(number, part)
                    code += [*weight, f"muls r3, {tap}, r3", f"add {acc}, r3"]
        end = [f"cmp {T}, {LAST}", f"bne <{label}>"]
        return [note("Four taps times those of all channels."), f"<{label}>:", *taps, *code, *end]

    def function(self) -> Function:
        first, *others = self.loops
        code = [
            note("Locals, and the end of the taps."),
            *save(),
            *reserve(len(NAMES)),
            f"str r1, {TILE}",
            f"str r3, {OUT}",
            f"lsls r2, r2, #{len(TAPS).bit_length() - 1}",
            "adds r2, r2, r1",
            f"mov {LAST}, r2",
            note("Start the sums of a block at their biases."),
            "<block>:",
            f"ldm {STREAM}!, {registers(TAPS[: self.channels])}",
            *(f"mov {acc}, {bias}" for acc, bias in zip(self.sums, TAPS, strict=False)),
            f"ldr {T}, {TILE}",
        ]
        if others:
            code += [f"lsls r4, {T}, #30", f"bne <{others[0]}>"]
        code += self.turn(first, self.loops[first])
        code += ["b <done>"] * len(others)
        for label in others:
            code += self.turn(label, self.loops[label])
        code += [
            "<done>:",
            f"ldr r1, {OUT}",
            f"ldr r4, {CHANNELS}",
            "cmp r4, #0",
            "bne <bytes>",
            note("Without channels: store the sums of one block."),
            *(f"mov {low}, {acc}" for low, acc in zip(TAPS, self.sums, strict=False)),
            f"stm r1!, {registers(TAPS[: self.channels])}",
            "b <end>",
            note("Requantise and store."),
            "<bytes>:",
        ]
        for n, acc in enumerate(self.sums):
            code += factor(n, [f"ldrb r7, [{STREAM}, #{WORD * self.channels + n}]"])
            code += [f"mov r4, {acc}", *stored(n)]
        code += [
            f"adds {STREAM}, #{WORD * self.channels + packed_shifts(self.channels)}",
            f"adds r1, #{self.channels}",
            f"str r1, {OUT}",
            f"ldr r4, {CHANNELS}",
            f"subs r4, #{self.channels}",
            f"str r4, {CHANNELS}",
            "beq <end>",
            "b <block>",
            "<end>:",
            *release(len(NAMES)),
            *leave(),
        ]
        return Function(
            f"vmcu_paired_1x{self.channels}{self.suffix}",
            f"So many channels of one pixel, a multiple of {self.channels}, from bias to store; "
            "with none, the sums of one block as words. Returns where the flash stream goes on.",
            code,
            SLOTS,
        )


def functions(kind: type[Single]) -> list[Function]:
    """Lists the functions for a block of two channels, and for one of four."""
    return [
        kind(PAIRS.channels, {"words": WORDS_OF_BYTES}).function(),
        kind(PAIRS.dense, {"words": WORDS_OF_BYTES, "single": SINGLE_BYTES}).function(),
    ]


FUNCTIONS = functions(Single)
