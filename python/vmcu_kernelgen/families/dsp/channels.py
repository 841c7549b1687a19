# SPDX-License-Identifier: Apache-2.0
"""All channels of a strip of a square window with the DSP extension, in assembly: staging, the code
around the sums of square.py and larger.py, requantising and stores.

It is one function for all windows. The sums of a channel are a piece of code each, to which it
jumps and which jumps back, with everything else on the stack: so there is no call for each four
channels, and all registers but the patch's place are free for sums.
"""

from __future__ import annotations

from ...assembly import Function, leave, note, push, registers, release, reserve, save
from .depthwise import stage
from .frame import BLOCK, FINISH, FIRST, FRAME, JOB, PAD, SECOND, SLOTS, member, offset
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
    code = [note("Copy the job to the stack, below the callers' registers."), *save()]
    code += reserve(PAD) if PAD else []
    parts = [JOB[i : i + len(COPIED)] for i in range(0, len(JOB), len(COPIED))]
    code.append(f"add r0, #{4 * len(JOB)}")
    for part in reversed(parts):
        named = COPIED[: len(part)]
        code += [f"ldmdb r0!, {registers(named)}", *push(named)]
    code += reserve(len(FRAME) - len(JOB))
    code.append(note("Where the sums of a channel continue, by what they are."))
    for label, name in (("finish_6", FINISH[6]), ("finish_4", FINISH[4]), ("pair", "pair")):
        # An address that PC is loaded with is odd.
        code += [f"adr.w r0, <{label}> + 1", *stores("r0", name)]
    code.append(note("Four channels are stored as words, fewer byte by byte."))
    # Of one or two channels there are the second two, so to speak.
    code += [*loads("r4 r2 r1", "lanes", "fours", "channel"), "adr.w r0, <store> + 1"]
    code += [
        f"add r3, sp, #{offset('patch_0')}",
        "cmp r4, #4",
        "beq <patch>",
        "adr.w r0, <store_part> + 1",
    ]
    code += ["cmp r4, #2", "it le", "addle r3, #2", "<patch>:"]
    # None: the channels that there are have been staged.
    return [*code, *stores("r0 r3", "store", "patch"), "cmp r2, #0", "beq.w <first_block>"]


def block() -> list[str]:
    """Begins the first block of four channels, or the next one. r1: the first of them."""
    first = "{r4-r10}"
    assert len(FIRST) == len(BLOCK) == 7
    return [
        note("The first block of the strip."),
        "<first_block>:",
        f"add r2, sp, #{offset(FIRST[0])}",
        f"ldm r2, {first}",
        "add r10, r1",
        f"add r2, sp, #{offset(BLOCK[0])}",
        f"stm r2, {first}",
        *loads(TILE, "tile"),
        note("The first two channels of a block: jump to the code of the window."),
        "<block>:",
        *loads(f"{STREAM} {PATCH}", "stream", "patch"),
        *stores(TILE, "here"),
        *loads("pc", "even"),
    ]


def finish() -> list[str]:
    return [
        note("Requantise a channel of six or four pixels, then continue at NEXT."),
        *("<finish_6>:", CHECK, "beq <exact_6>"),
        *requantised(range(4, 6)),
        "b <finish_fast>",
        *("<finish_4>:", CHECK, "beq <exact_4>"),
        "<finish_fast>:",
        *requantised(range(4)),
        f"bx {NEXT}",
        note("The other two channels of the patch, or none."),
        "<pair>:",
        *next_pair("<stored>"),
        *loads("pc", "even"),
        "<stored>:",
        *loads("pc", "store"),
    ]


def exact() -> list[str]:
    """A channel that the fast requantiser is not for: vmcu_finish_any()."""
    sums = ", ".join(SUMS)
    return [
        note("The fast requantiser is not for the channel: call vmcu_finish_any()."),
        *("<exact_6>:", "movs r1, #6", "b <exact>", "<exact_4>:", "movs r1, #4", "<exact>:"),
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
        note("Store four channels of the pixels of the block that are in the strip."),
        "<store>:",
        *loads("r1 r2 r3 r9", "out", "pitch", "left", "pixels"),
        f"add {PATCH}, sp, #{offset('patch_0')}",
        "subs r3, r3, r9",
        # The last pixel may be one too many, in a last block.
        *("cmn r3, #1", "blt <store_some>"),
        *("cmp r9, #6", "bne <store_4>"),
        f"ldm {PATCH}!, {{r4, r5}}",
        *("str r4, [r1]", "str r5, [r1, r2]", "add r1, r1, r2, lsl #1"),
        "<store_4>:",
        f"ldm {PATCH}, {{r4-r7}}",
        *("str r4, [r1]", "str r5, [r1, r2]", "add r1, r1, r2, lsl #1"),
        *("str r6, [r1]", "cmp r3, #0", "it ge", "strge r7, [r1, r2]"),
        "add.w r1, r1, r2, lsl #1",
    ]


def next_block() -> list[str]:
    """The next block, perhaps of another kind. The flags are those of the remaining channels."""
    second = ("second_even", "second_odd", "second_pixels", "second_left")
    assert second == SECOND
    return [
        note("The next block: of the same kind, or the first of the other kind."),
        *("<next_block>:", "bgt <more>"),
        *loads("r4 r5 r6 r7 r3", "even", *second),
        *("cmp r4, r5", "beq <next_channels>"),
        *stores("r5 r6 r7", "even", "odd", "pixels"),
        "<more>:",
        *stores("r3 r1", "left", "out"),
        *loads(f"{TILE} r5 r6", "tile", "last", "back"),
        *(f"add {TILE}, {TILE}, r9, lsl #2", "mls r5, r9, r6, r5"),
        *stores(f"{TILE} r5", "tile", "last"),
        "b <block>",
    ]


def store_part() -> list[str]:
    """Some channels of the pixels that there are, byte by byte, or all four of some."""
    return [
        note("Store some channels, or some pixels, byte by byte."),
        "<store_part>:",
        *loads("r1 r2 r3 r9", "out", "pitch", "left", "pixels"),
        "subs r3, r3, r9",
        "<store_some>:",
        *loads(f"{PATCH} r10", "patch", "lanes"),
        *("mov r11, r9", "cmp r3, #0", "it lt", "addlt r11, r3"),
        *("<pixel>:", "movs r4, #0"),
        *("<channel>:", f"ldrb r5, [{PATCH}, r4]", "strb r5, [r1, r4]"),
        *("adds r4, #1", "cmp r4, r10", "bne <channel>"),
        *(f"adds {PATCH}, #4", "add r1, r2", "subs r11, #1", "bne <pixel>"),
        *("cmp r3, #0", "b <next_block>"),
    ]


def end() -> list[str]:
    """The next four channels, or none."""
    return [
        note("The strip's next four channels, or its end."),
        "<next_channels>:",
        *stores(STREAM, "stream"),
        *loads("r1 r2", "channel", "fours"),
        *("subs r2, #1", "ble <end>", "adds r1, #4"),
        *stores("r1 r2", "channel", "fours"),
        "b <channels>",
        "<end>:",
        f"mov r0, {STREAM}",
        *release(len(FRAME) + PAD),
        leave(),
    ]


def strip_words() -> Function:
    code = [*begin(), "<channels>:", *stage("<first_block>"), *block(), *finish(), *store()]
    code += [*next_block(), *exact(), *store_part(), *end()]
    return Function(
        "vmcu_strip_words",
        "All channels that a job says; returns where the flash stream goes on.",
        code,
        SLOTS,
    )
