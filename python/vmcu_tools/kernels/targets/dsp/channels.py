# SPDX-License-Identifier: Apache-2.0
"""All channels of a strip of a square window with the DSP extension, in assembly: staging, what is
around the sums of square.py and larger.py, requantising and stores.

It is one function for all windows. The sums of a channel are a piece of code each, to which it
jumps and which jumps back, with everything else on the stack: so there is no call for each four
channels, and all registers but the patch's place are free for sums.
"""

from __future__ import annotations

from ..thumb import asm
from .depthwise import stage
from .frame import BLOCK, FINISH, FIRST, FRAME, JOB, SECOND, member, offset
from .square import (
    CHECK,
    MULTIPLIER,
    NEXT,
    PATCH,
    SHIFT,
    STREAM,
    SUMS,
    TILE,
    next_pair,
    requantised,
)

KEPT = "{r4-r11, lr}"
KEPT_WORDS = 9
# SP is a multiple of eight.
PAD = (KEPT_WORDS + len(FRAME)) % 2
# How struct vmcu_strip_job gets onto the stack: so many words at once.
COPIED = (*(f"r{number}" for number in range(1, 13)), "lr")


def loads(registers: str, *names: str) -> list[str]:
    """Loads members into registers, which are listed with blanks between them."""
    pairs = zip(registers.split(), names, strict=True)
    return [f"ldr {register}, {member(name)}" for register, name in pairs]


def stores(registers: str, *names: str) -> list[str]:
    pairs = zip(registers.split(), names, strict=True)
    return [f"str {register}, {member(name)}" for register, name in pairs]


def begin() -> list[str]:
    code = [f"push {KEPT}"]
    code += [f"sub sp, #{4 * PAD}"] * PAD
    parts = [JOB[i : i + len(COPIED)] for i in range(0, len(JOB), len(COPIED))]
    code.append(f"add r0, #{4 * len(JOB)}")
    for part in reversed(parts):
        named = f"{{{', '.join(COPIED[: len(part)])}}}"
        code += [f"ldmdb r0!, {named}", f"push {named}"]
    code.append(f"sub sp, #{4 * (len(FRAME) - len(JOB))}")
    for label, name in ((30, FINISH[6]), (31, FINISH[4]), (33, "pair")):
        # An address that PC is loaded with is odd.
        code += [f"adr.w r0, {label}f + 1", *stores("r0", name)]
    # Of one or two channels there are the second two, so to speak.
    code += [*loads("r4 r2 r1", "lanes", "fours", "channel"), "adr.w r0, 34f + 1"]
    code += [f"add r3, sp, #{offset('patch_0')}", "cmp r4, #4", "beq 9f", "adr.w r0, 50f + 1"]
    code += ["cmp r4, #2", "it le", "addle r3, #2", "9:"]
    # None: the channels that there are have been staged.
    return [*code, *stores("r0 r3", "store", "patch"), "cmp r2, #0", "beq.w 20f"]


def block() -> list[str]:
    """Begins the first block of four channels, or the next one. r1: the first of them."""
    first = "{r4-r10}"
    assert len(FIRST) == len(BLOCK) == 7
    return [
        "20:",
        f"add r2, sp, #{offset(FIRST[0])}",
        f"ldm r2, {first}",
        "add r10, r1",
        f"add r2, sp, #{offset(BLOCK[0])}",
        f"stm r2, {first}",
        *loads(TILE, "tile"),
        "21:",
        *loads(f"{STREAM} {PATCH}", "stream", "patch"),
        *stores(TILE, "here"),
        *loads("pc", "even"),
    ]


def finish() -> list[str]:
    return [
        *("30:", CHECK, "beq 40f"),
        *requantised(range(4, 6)),
        "b 32f",
        *("31:", CHECK, "beq 41f"),
        "32:",
        *requantised(range(4)),
        f"bx {NEXT}",
        # The other two channels of the patch, or none.
        "33:",
        *next_pair("332f"),
        *loads("pc", "even"),
        "332:",
        *loads("pc", "store"),
    ]


def exact() -> list[str]:
    """A channel that the fast requantiser is not for: vmcu_finish_any()."""
    sums = ", ".join(SUMS)
    return [
        *("40:", "movs r1, #6", "b 42f", "41:", "movs r1, #4", "42:"),
        *stores(f"{MULTIPLIER} {PATCH}", "multiplier", "place"),
        f"add {TILE}, sp, #{offset('sum_0')}",
        f"stm {TILE}, {{{sums}}}",
        f"mov r4, {PATCH}",
        f"mov r5, {STREAM}",
        *(f"mov r3, {SHIFT}", "mov r2, r1", f"add r1, sp, #{offset('sum_0')}"),
        *loads("r0 r6", "p", "finish"),
        "blx r6",
        f"adds {PATCH}, r4, #1",
        f"mov {STREAM}, r5",
        *loads(TILE, "here"),
        f"bx {NEXT}",
    ]


def store() -> list[str]:
    """The patch, which may reach beyond the strip and have channels that do not exist; goes on with
    r1, where pixels behind the block go, r3, how many are left, and r9, those of the block."""
    return [
        "34:",
        *loads("r1 r2 r3 r9", "out", "pitch", "left", "pixels"),
        f"add {PATCH}, sp, #{offset('patch_0')}",
        "subs r3, r3, r9",
        # The last pixel may be one too many, in a last block.
        *("cmn r3, #1", "blt 51f"),
        *("cmp r9, #6", "bne 35f"),
        f"ldm {PATCH}!, {{r4, r5}}",
        *("str r4, [r1]", "str r5, [r1, r2]", "add r1, r1, r2, lsl #1"),
        "35:",
        f"ldm {PATCH}, {{r4-r7}}",
        *("str r4, [r1]", "str r5, [r1, r2]", "add r1, r1, r2, lsl #1"),
        *("str r6, [r1]", "cmp r3, #0", "it ge", "strge r7, [r1, r2]"),
        "add.w r1, r1, r2, lsl #1",
    ]


def next_block() -> list[str]:
    """Behind blocks of one kind there may be others. The flags are those of what is left."""
    second = ("second_even", "second_odd", "second_pixels", "second_left")
    assert second == SECOND
    return [
        *("36:", "bgt 37f"),
        *loads("r4 r5 r6 r7 r3", "even", *second),
        *("cmp r4, r5", "beq 38f"),
        *stores("r5 r6 r7", "even", "odd", "pixels"),
        "37:",
        *stores("r3 r1", "left", "out"),
        *loads(f"{TILE} r5 r6", "tile", "last", "back"),
        *(f"add {TILE}, {TILE}, r9, lsl #2", "mls r5, r9, r6, r5"),
        *stores(f"{TILE} r5", "tile", "last"),
        "b 21b",
    ]


def end() -> list[str]:
    """The next four channels, or none."""
    return [
        "38:",
        *stores(STREAM, "stream"),
        *loads("r1 r2", "channel", "fours"),
        *("subs r2, #1", "ble 39f", "adds r1, #4"),
        *stores("r1 r2", "channel", "fours"),
        "b 10b",
        "39:",
        f"mov r0, {STREAM}",
        f"add sp, #{4 * (len(FRAME) + PAD)}",
        "pop {r4-r11, pc}",
    ]


def store_part() -> list[str]:
    """Some channels of the pixels that there are, byte by byte, or all four of some."""
    return [
        "50:",
        *loads("r1 r2 r3 r9", "out", "pitch", "left", "pixels"),
        "subs r3, r3, r9",
        "51:",
        *loads(f"{PATCH} r10", "patch", "lanes"),
        *("mov r11, r9", "cmp r3, #0", "it lt", "addlt r11, r3"),
        *("52:", "movs r4, #0"),
        *("53:", f"ldrb r5, [{PATCH}, r4]", "strb r5, [r1, r4]"),
        *("adds r4, #1", "cmp r4, r10", "bne 53b"),
        *(f"adds {PATCH}, #4", "add r1, r2", "subs r11, #1", "bne 52b"),
        *("cmp r3, #0", "b 36b"),
    ]


def text() -> str:
    code = [*begin(), "10:", *stage("20f"), *block(), *finish(), *store(), *next_block()]
    return asm([*code, *end(), *exact(), *store_part()], 1)
