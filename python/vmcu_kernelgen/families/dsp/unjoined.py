# SPDX-License-Identifier: Apache-2.0
"""Sums of channels that are not joined, in assembly."""

from __future__ import annotations

from ...assembly import (
    Function,
    leave,
    note,
    push,
    release,
    save,
)
from .blocks import smlad


def add_unjoined() -> Function:
    """Compilers load the values of R2, R3, R9 and R10 from the stack in each turn."""
    sums, t, w = ("r4", "r5", "r6", "r7"), "r1", "r8"
    word, even, taps = "r11", "r0", ("r12", "lr")
    adds = [
        smlad(acc, tap, part)
        for part, pair in ((even, sums[:2]), (word, sums[2:]))
        for acc, tap in zip(pair, taps, strict=True)
    ]
    code = [
        note("R2 and R3 become bytes; the next weights, their end and their step."),
        *save(),
        *push(("r0",)),
        "lsls r2, r2, #2",
        "lsls r3, r3, #2",
        f"ldr {w}, [sp, #40]",
        "ldr r9, [sp, #44]",
        "ldr r10, [sp, #48]",
        f"ldm r0, {{{', '.join(sums)}}}",
        note("Two taps of two channels are a word of weights, two taps of a pixel a word."),
        "<turn>:",
        f"ldr {word}, [{w}]",
        f"ldr {taps[0]}, [{t}]",
        f"ldr {taps[1]}, [{t}, r2]",
        f"add {w}, {w}, r10",
        f"add {t}, {t}, r3",
        f"sxtb16 {even}, {word}",
        f"sxtb16 {word}, {word}, ror #8",
        *adds,
        f"cmp {w}, r9",
        "blo <turn>",
        "ldr r0, [sp]",
        f"stm r0, {{{', '.join(sums)}}}",
        *release(1),
        leave(),
    ]
    summary = (
        "Adds taps of a pixel and of the pixel that is `next` words behind it times two channels "
        "that are not joined. Tiles have `pixels`, weights a word each `step` bytes."
    )
    return Function("vmcu_add_apart", summary, code)


APART_FUNCTIONS = [add_unjoined()]
