# SPDX-License-Identifier: Apache-2.0
"""Blocks of four channels of one pixel in assembly, from bias to store: four taps stay in registers
that multiply, the sums are in R8 to R11."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...language.assembly import WORD, Function, note, registers, release, reserve
from ...language.packing import PAIRS, packed_shifts
from .blocks import (
    CHANNELS,
    HIGH,
    LAST,
    NAMES,
    OUT,
    SLOTS,
    STREAM,
    TILE,
    T,
    beyond,
    byte,
    factor,
    leave,
    save,
    stored,
)

TAPS = ("r4", "r5", "r6", "r7")
BLOCK = PAIRS.dense
FACTORS = WORD * BLOCK


def halves(to: Sequence[str]) -> list[str]:
    """Two taps of a tile in the last register into both."""
    first, second = to
    return [f"sxth {first}, {second}", f"asrs {second}, {second}, #16"]


def bytes_in_order(to: Sequence[str]) -> list[str]:
    """The bytes of the last register into all of them."""
    return [line for number, one in enumerate(to) for line in byte(one, to[-1], number)]


# What four taps are where they come from, and C of their type.
WORDS_OF_BYTES = [f"ldm {T}!, {{{TAPS[-1]}}}", *bytes_in_order(TAPS)]
SINGLE_BYTES = [
    *(f"ldrb {tap}, [{T}, #{at}]" for at, tap in enumerate(TAPS)),
    *(f"sxtb {tap}, {tap}" for tap in TAPS),
    f"adds {T}, #{len(TAPS)}",
]
TILE_TAPS = [
    f"ldm {T}!, {registers(TAPS[1::2])}",
    *halves(TAPS[:2]),
    *halves(TAPS[2:]),
]


@dataclass(frozen=True)
class Single:
    """A function. size: bytes of a tap; loops: how four taps come into registers, by label; of two
    the first is for addresses of words."""

    name: str
    what: str
    size: int
    loops: dict[str, list[str]]

    def turn(self, label: str, taps: Sequence[str]) -> list[str]:
        """All taps, four at a time."""
        code = []
        for acc in HIGH:
            code += [f"ldm {STREAM}!, {{r2}}"]
            for number, tap in enumerate(TAPS):
                code += [*byte("r3", "r2", number), f"muls r3, {tap}, r3", f"add {acc}, r3"]
        end = [f"cmp {T}, {LAST}", f"bne <{label}>"]
        return [note("Four taps times those of four channels."), f"<{label}>:", *taps, *code, *end]

    def function(self) -> Function:
        first, *others = self.loops
        code = [
            note("Locals, and the end of the taps."),
            *save(),
            *reserve(len(NAMES)),
            f"str r1, {TILE}",
            f"str r3, {OUT}",
            f"lsls r2, r2, #{(self.size * len(TAPS)).bit_length() - 1}",
            "adds r2, r2, r1",
            f"mov {LAST}, r2",
            note("Start the sums of four channels at their biases."),
            "<block>:",
            f"ldm {STREAM}!, {registers(TAPS)}",
            *(f"mov {acc}, {bias}" for acc, bias in zip(HIGH, TAPS, strict=True)),
            f"ldr {T}, {TILE}",
        ]
        if others:
            code += [f"lsls r4, {T}, #30", f"bne <{others[0]}>"]
        code += self.turn(first, self.loops[first])
        code += ["b <done>"] * len(others)
        for label in others:
            code += self.turn(label, self.loops[label])
        code += [
            *["b <done>"],
            *beyond(0),
            *beyond(1),
            "<done>:",
            f"ldr r1, {OUT}",
            f"ldr r4, {CHANNELS}",
            "cmp r4, #0",
            "bne <bytes>",
            note("Without channels: store the sums of one block."),
            *(f"mov {low}, {acc}" for low, acc in zip(TAPS, HIGH, strict=True)),
            f"stm r1!, {registers(TAPS)}",
            "b <end>",
            note("Requantise and store."),
            "<bytes>:",
        ]
        for n, acc in enumerate(HIGH):
            code += factor(n, [f"ldrb r7, [{STREAM}, #{FACTORS + n}]"])
            code += [f"mov r4, {acc}", *stored(n, n)]
        code += [
            f"adds {STREAM}, #{FACTORS + packed_shifts(BLOCK)}",
            f"adds r1, #{BLOCK}",
            f"str r1, {OUT}",
            f"ldr r4, {CHANNELS}",
            f"subs r4, #{BLOCK}",
            f"str r4, {CHANNELS}",
            "beq <end>",
            "b <block>",
            *beyond(2),
            *beyond(3),
            "<end>:",
            *release(len(NAMES)),
            *leave(),
        ]
        return Function(
            self.name,
            f"So many channels of one pixel, a multiple of four, of {self.what}, from bias to "
            "store; with none, the sums of one block as words. Returns where the flash stream goes "
            "on.",
            code,
            SLOTS,
        )


TILED = Single("vmcu_run_single_1x4", "taps of a tile", 2, {"turn": TILE_TAPS}).function()
DENSE = Single(
    "vmcu_run_dense_1x4", "bytes", 1, {"words": WORDS_OF_BYTES, "single": SINGLE_BYTES}
).function()
