# SPDX-License-Identifier: Apache-2.0
"""Blocks of channels of pairs of pixels in assembly, from bias to store.

Only R0 to R7 multiply, so a turn of the loop works on few sums: of one channel and two pairs of
pixels, or of two channels and one pair. R8 to R11 have, for each pair P of sums, all of it and its
upper half, see language/packing.py. P starts at 2**15; the excess in the sums is subtracted at
their start.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from vmcu_tools.kernels.language.packing import PAIRED_TAPS, PAIRS
from vmcu_tools.kernels.targets.portable.shapes import SHAPES, Shape
from vmcu_tools.kernels.targets.portable.tile import SEVERAL

from ...assembly import WORD, Function, note, registers, release, reserve
from .frame import (
    BLOCK,
    CHANNELS,
    CODE,
    ENTRY,
    EXCESS,
    HALF_OF_PAIR,
    LAST,
    NAMES,
    OUT,
    PITCH,
    PLACE,
    SLOTS,
    STREAM,
    SUMS,
    TILE,
    T,
    leave,
    save,
)
from .requant import factor, stored

LANES = PAIRS.lanes


def byte(to: str, word: str, number: int) -> list[str]:
    """A byte of a word, with its sign."""
    if number == 0:
        return [f"sxtb {to}, {word}"]
    if number == LANES - 1:
        return [f"asrs {to}, {word}, #24"]
    return [f"lsls {to}, {word}, #{24 - 8 * number}", f"asrs {to}, {to}, #24"]


def kept(sums: Sequence[str]) -> list[str]:
    """Adds two pairs of sums, which are in two registers, to their stored totals."""
    code = []
    for pair, (whole, upper) in zip(sums, SUMS, strict=True):
        code += [f"add {whole}, {pair}", f"asrs {pair}, {pair}, #16", f"add {upper}, {pair}"]
    return code


@dataclass(frozen=True)
class Blocks:
    """Code for a shape."""

    shape: Shape
    suffix: ClassVar[str] = ""

    @property
    def at_once(self) -> int:
        """Channels of a turn of the loop."""
        return 2 * len(SUMS) // self.shape.pixels

    @property
    def channels(self) -> int:
        return self.shape.channels(PAIRS)

    def weights(self, at: int) -> list[str]:
        """The next words of the channels; `at`: of how many steps they are not the first."""
        if self.at_once == 1:
            return [f"ldr r2, [{STREAM}, #{WORD * self.channels * at}]"]
        other = WORD * (self.channels - 2)
        return [f"ldm {STREAM}!, {{r2, r3}}", *[f"adds {STREAM}, #{other}"] * (other > 0)]

    def weight(self, to: str, n: int, number: int) -> list[str]:
        """That of a tap and of channel n of a turn, from the words that weights() has loaded."""
        return byte(to, ("r2", "r3")[n], number)

    def passed(self, steps: int) -> list[str]:
        """Moves the stream past so many steps."""
        return [f"adds {STREAM}, #{WORD * self.channels * steps}"] * (self.at_once == 1)

    def tap(self, number: int, first: bool) -> list[str]:
        """A tap of a step. first: of those that are added up together."""
        start = [f"add {pair}, {HALF_OF_PAIR}" for pair in self.pairs]
        if self.at_once == 1:
            taps = self.pairs if first else ("r6", "r7")
            code = [f"ldm {T}!, {registers(taps)}", *self.weight("r3", 0, number)]
            code += [f"muls {tap}, r3, {tap}" for tap in taps]
            adds = [f"adds {a}, {a}, {x}" for a, x in zip(self.pairs, taps, strict=True)]
            return code + (start if first else adds)
        code = [f"ldm {T}!, {{r4}}"]
        for n, pair in enumerate(self.pairs):
            weight = pair if first else "r5"
            code += [*self.weight(weight, n, number), f"muls {weight}, r4, {weight}"]
            code += [] if first else [f"adds {pair}, {pair}, r5"]
        return code + (start if first else [])

    @property
    def pairs(self) -> tuple[str, str]:
        """The two pairs of sums that are being added up."""
        return ("r4", "r5") if self.at_once == 1 else ("r6", "r7")

    def steps(self, count: int, together: int) -> list[str]:
        code = []
        for tap in range(count * LANES):
            step, number = divmod(tap, LANES)
            code += self.weights(step) if number == 0 else []
            code += self.tap(number, tap % together == 0)
            code += kept(self.pairs) if tap % together == together - 1 else []
        return code + self.passed(count)

    def loop(self, code: int) -> list[str]:
        """All taps; eight in a turn, if they are not a multiple of that, four before."""
        together, turn, odd = PAIRED_TAPS[code], f"<turn_{code}>", f"<odd_{code}>"
        return [
            note(f"All taps, {together} at a time: the first step of an odd number, then two."),
            f"{odd}:",
            *self.steps(1, min(together, LANES)),
            f"cmp {T}, {LAST}",
            f"bne {turn}",
            "b <done>",
            ".p2align 2",
            f"{turn}:",
            *self.steps(2, together),
            f"cmp {T}, {LAST}",
            f"bne {turn}",
            "b <done>",
        ]

    def loops(self) -> list[str]:
        codes = range(len(PAIRED_TAPS))
        # The last one ends where they all go on.
        return [*itertools.chain.from_iterable(self.loop(code) for code in codes)][:-1]

    def begin(self) -> list[str]:
        """Locals, of which the arguments are in R0 to R3."""
        size = 2 * self.shape.pixels * LANES
        return [
            note("Locals, and the end of the tile."),
            *save(),
            *reserve(len(NAMES)),
            f"str r0, {BLOCK}",
            f"str r1, {TILE}",
            f"str r3, {OUT}",
            f"movs r4, #{WORD * self.channels}",
            f"str r4, {PLACE}",
            f"lsls r4, r2, #{size.bit_length() - 1}",
            "adds r4, r1",
            f"mov {LAST}, r4",
            *self.prepare(),
            "b <channel>",
            ".p2align 2",
            *self.entries(),
        ]

    def prepare(self) -> list[str]:
        """Prepares the loops; R2 has the number of steps."""
        return [
            note("How often 2**15 is added to a pair of sums."),
            f"ldr r3, {CODE}",
            "adds r4, r2, #1",
            "lsrs r4, r4, #1",
            "cmp r3, #3",
            "beq <excess>",
            "movs r5, #2",
            "subs r5, r5, r3",
            "movs r4, r2",
            "lsls r4, r5",
            "<excess>:",
            "lsls r4, r4, #15",
            f"str r4, {EXCESS}",
            note("Where the loop begins: by the taps added up together and by odd steps."),
            "movs r4, #1",
            "ands r2, r4",
            "lsls r3, r3, #1",
            "adds r3, r3, r2",
            "lsls r3, r3, #1",
            "adr r4, <entries>",
            "ldrh r3, [r4, r3]",
            "adds r3, r3, r4",
            f"str r3, {ENTRY}",
        ]

    def entries(self) -> list[str]:
        """Lists the entries of loops."""
        return [
            "<entries>:",
            *(
                f".short <{place}_{code}> - <entries>"
                for code, place in itertools.product(range(len(PAIRED_TAPS)), ("turn", "odd"))
            ),
        ]

    def start(self) -> list[str]:
        """The sums at their biases."""
        code = [note("Start the sums of a channel or two at their biases."), "<channel>:"]
        code += [f"ldr {STREAM}, {BLOCK}", f"ldr r5, {EXCESS}"]
        for n in range(self.at_once):
            code += [f"ldr r4, [{STREAM}, #{WORD * n}]", "lsls r6, r4, #16", "adds r6, r6, r4"]
            code += ["subs r6, r6, r5"]
            for whole, upper in SUMS if self.at_once == 1 else SUMS[n : n + 1]:
                code += [f"mov {whole}, r6", f"mov {upper}, r4"]
        return [
            *code,
            f"adds {STREAM}, #{WORD * self.channels}",
            "movs r4, #1",
            "lsls r4, r4, #15",
            f"mov {HALF_OF_PAIR}, r4",
            f"ldr {T}, {TILE}",
            *self.enter(),
        ]

    def enter(self) -> list[str]:
        """Jumps to the loop that has the taps."""
        return [f"ldr r3, {ENTRY}", "mov pc, r3"]

    def sums(self, number: int, to: str, spare: str) -> list[str]:
        """That of a pair's first pixel."""
        whole, upper = SUMS[number]
        code = [f"mov {to}, {upper}", f"lsls {to}, {to}, #16", f"mov {spare}, {whole}"]
        return [*code, f"subs {to}, {spare}, {to}"]

    def shift(self, n: int) -> list[str]:
        add = [f"adds r5, #{n}"] * (n > 0)
        return [f"ldr r5, {PLACE}", *add, f"ldrb r7, [{STREAM}, r5]"]

    def bytes(self) -> list[str]:
        """Computes bytes from sums: four pixels of a channel, or two of each of two."""
        code = [note("Requantise and store."), "<bytes>:", f"ldr r1, {OUT}"]
        for number, (whole, upper) in enumerate(SUMS):
            code += factor(number, self.shift(number)) if number < self.at_once else []
            code += self.sums(number, "r4", "r5")
            # Its first register is free for the pitch.
            code += [f"ldr r5, {PITCH}", f"mov {whole}, r5"] if number < self.at_once else []
            pitch = SUMS[min(number, self.at_once - 1)][0]
            code += [*stored(), f"add r1, {pitch}"]
            code += [f"mov r4, {upper}", *stored()]
            if number == 0:
                other = [f"ldr r1, {OUT}", "adds r1, #1"]
                code += [f"add r1, {pitch}"] if self.at_once == 1 else other
        return [
            *code,
            note("Go on with the next channels of the block, or with the next block."),
            f"ldr r1, {OUT}",
            f"adds r1, #{self.at_once}",
            f"str r1, {OUT}",
            f"ldr r6, {CHANNELS}",
            f"subs r6, #{self.at_once}",
            f"str r6, {CHANNELS}",
            *self.next(),
            "cmp r6, #0",
            "beq <end>",
            "b <channel>",
        ]

    def next(self) -> list[str]:
        """Finds the next channels' biases: behind the block if these were its last."""
        behind = f"adds {STREAM}, #{WORD + WORD * self.at_once}"
        if self.at_once == self.channels:
            return [behind, f"str {STREAM}, {BLOCK}"]
        return [
            behind,
            f"ldr r4, {PLACE}",
            f"subs r4, #{3 * self.at_once}",
            f"cmp r4, #{self.channels}",
            "beq <whole>",
            f"ldr {STREAM}, {BLOCK}",
            f"adds {STREAM}, #{WORD * self.at_once}",
            f"subs r4, #{3 * self.channels}",
            "<whole>:",
            f"adds r4, #{3 * self.channels}",
            f"str r4, {PLACE}",
            f"str {STREAM}, {BLOCK}",
        ]

    def words(self) -> list[str]:
        """The sums of one block as they are."""
        sums = ("r4", "r5", "r6", "r7")
        code = [note("Without channels: store the sums of one block."), f"ldr r1, {OUT}"]
        for number, (_, upper) in enumerate(SUMS):
            low, high = sums[2 * number : 2 * number + 2]
            code += [*self.sums(number, low, high), f"mov {high}, {upper}"]
        code += [f"stm r1!, {registers(sums)}", f"str r1, {OUT}"]
        if self.at_once < self.channels:
            code += [
                f"ldr r4, {PLACE}",
                f"subs r4, #{3 * self.at_once}",
                f"str r4, {PLACE}",
                f"cmp r4, #{self.channels}",
                "beq <last>",
                f"ldr {STREAM}, {BLOCK}",
                f"adds {STREAM}, #{WORD * self.at_once}",
                f"str {STREAM}, {BLOCK}",
                "b <channel>",
                "<last>:",
                f"subs {STREAM}, #{WORD * (self.channels - self.at_once)}",
            ]
        return [*code, "b <end>"]

    def function(self) -> Function:
        code = [
            *self.begin(),
            *self.start(),
            *self.loops(),
            "<done>:",
            f"ldr r4, {CHANNELS}",
            "cmp r4, #0",
            "bne <bytes>",
            *self.words(),
            *self.bytes(),
            "<end>:",
            *release(len(NAMES)),
            *leave(),
        ]
        return Function(
            f"vmcu_paired_{self.shape.name}{self.suffix}",
            f"So many channels of {SEVERAL[self.shape.pixels]}, a multiple of a block's, from bias "
            "to store; with none, the sums of one block as words. Returns where the flash stream "
            "goes on.",
            code,
            SLOTS,
        )


FUNCTIONS = [Blocks(shape).function() for shape in SHAPES if shape.pixels > 1]
