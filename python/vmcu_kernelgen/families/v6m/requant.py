# SPDX-License-Identifier: Apache-2.0
"""Requantisers in assembly: a sum to its byte."""

from __future__ import annotations

from collections.abc import Sequence

from ...assembly import WORD
from .frame import (
    HALF,
    STREAM,
)


def factor(n: int, place: Sequence[str]) -> list[str]:
    """Loads the requantiser of channel n from R0 on: the multiplier's halves in R3 and R2, the
    shift in R7, half and the zero point in R12. place: loads R7 with the shift."""
    return [
        f"ldr r2, [{STREAM}, #{WORD * n}]",
        *multiplier_halves(),
        *place,
        f"ldr r5, {HALF}",
        *constant(),
    ]


def multiplier_halves() -> list[str]:
    """Splits the multiplier in R2: the upper half in R3, the lower one in R2."""
    return ["lsrs r3, r2, #16", "uxth r2, r2"]


def constant() -> list[str]:
    """Combines the shift in R7 and half in R5, for stored()."""
    return ["lsls r5, r7", "mov r12, r5", "adds r7, #1"]


def stored(at: int = 0) -> list[str]:
    """Requantises R4 and stores it behind R1, without a branch: the time tells nothing of the
    value. A product of 31 by 31 bits is made of four: as both halves of the sum have signs, none
    overflows. The bit that a shift drops rounds."""
    return [
        "sxth r5, r4",
        "subs r4, r4, r5",
        "asrs r4, r4, #16",
        "movs r6, r5",
        "muls r6, r2, r6",
        "asrs r6, r6, #16",
        "muls r5, r3, r5",
        "adds r5, r5, r6",
        "movs r6, r4",
        "muls r6, r2, r6",
        "adds r5, r5, r6",
        "muls r4, r3, r4",
        "lsls r4, r4, #1",
        "asrs r5, r5, #15",
        "adcs r4, r5",
        "asrs r5, r4, #31",
        "adds r4, r4, r5",
        "add r4, r12",
        "asrs r4, r7",
        "subs r4, #127",
        "asrs r5, r4, #31",
        "ands r4, r5",
        "adds r4, #255",
        "asrs r5, r4, #31",
        "bics r4, r5",
        "subs r4, #128",
        f"strb r4, [r1, #{at}]",
    ]
