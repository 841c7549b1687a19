# SPDX-License-Identifier: Apache-2.0
"""Registers and the stack of the code for blocks, and of its callers."""

from __future__ import annotations

from ...assembly import WORD, push, registers

STREAM, T = "r0", "r1"
# Of the two pairs of sums: all of it, and its upper half.
SUMS = (("r8", "r9"), ("r10", "r11"))
HALF_OF_PAIR, LAST = "r12", "lr"
LOW, HIGH = ("r4", "r5", "r6", "r7", "lr"), ("r8", "r9", "r10", "r11")
NAMES = ("BLOCK", "TILE", "ENTRY", "EXCESS", "OUT", "PLACE")
ABOVE = len(NAMES) + len(LOW) + len(HIGH)
SLOTS = {WORD * i: name for i, name in enumerate(NAMES)}
SLOTS |= {WORD * (ABOVE + i): name for i, name in enumerate(("CHANNELS", "HALF", "PITCH", "CODE"))}
BLOCK, TILE, ENTRY, EXCESS, OUT, PLACE, CHANNELS, HALF, PITCH, CODE = (
    f"[sp, #{at}]" for at in SLOTS
)


def save() -> list[str]:
    """Pushes the caller's registers, those above R7 by way of those below."""
    code = push(LOW)
    code += [f".cfi_rel_offset {name}, {WORD * at}" for at, name in enumerate(LOW)]
    code += [f"mov {low}, {high}" for low, high in zip(LOW, HIGH, strict=False)]
    code += push(LOW[:4])
    return code + [f".cfi_rel_offset {name}, {WORD * at}" for at, name in enumerate(HIGH)]


def leave() -> list[str]:
    """Restores them and returns."""
    code = [f"pop {registers(LOW[:4])}", f".cfi_adjust_cfa_offset {-WORD * len(HIGH)}"]
    for low, high in zip(LOW, HIGH, strict=False):
        code += [f"mov {high}, {low}", f".cfi_restore {high}"]
    return [*code, f"pop {registers((*LOW[:4], 'pc'))}"]
