# SPDX-License-Identifier: Apache-2.0
"""First layers: windows of three rows, whose taps are one or two vectors of a tile."""

from __future__ import annotations

from ...language.assembly import WORD, Function, leave, release, reserve, save
from ..thumb import prototypes

KEPT = ("r4", "r5", "r6", "r7", "r8", "lr")
# Room for 32 taps and what the last row writes behind them.
TAPS = 48 // WORD
SLOTS = {48 + WORD * len(KEPT): "LINE", 52 + WORD * len(KEPT): "PIXELS"}
LINE, PIXELS = (f"[sp, #{at}]" for at in SLOTS)


def three_rows() -> Function:
    tile, rows, pitch, line = "r0", ("r1", "r4", "r5"), "r3", "r2"
    code = [
        *save(KEPT),
        *reserve(TAPS),
        "add r4, r1, r2",
        "add r5, r4, r2",
        f"ldr {line}, {LINE}",
        f"ldr r8, {PIXELS}",
        f"vctp.8 {line}",
        f"add r6, sp, {line}",
        f"add r7, r6, {line}",
        "lsl r12, r8, #4",
        "dls lr, r8",
        "<pixel>:",
        "vpsttt",
        *(f"vldrbt.8 q{i}, [{row}]" for i, row in enumerate(rows)),
        "vstrb.8 q0, [sp]",
        "vstrb.8 q1, [r6]",
        "vstrb.8 q2, [r7]",
        "vldrw.32 q0, [sp]",
        "vldrw.32 q1, [sp, #16]",
        f"add r8, {tile}, r12",
        f"vstrw.32 q0, [{tile}], #16",
        "vstrw.32 q1, [r8]",
        *(f"add {row}, {pitch}" for row in rows),
        "le lr, <pixel>",
        *release(TAPS),
        leave(KEPT),
    ]
    summary = (
        "Windows of three rows of `line` bytes, `step` bytes apart, 17 to 32 in all, into a tile; "
        "from a pixel to the next, `pitch` bytes."
    )
    return Function("vmcu_three_rows", summary, code, SLOTS)


FUNCTIONS = [three_rows()]
DECLARED = prototypes(
    FUNCTIONS,
    "void ",
    "int8_t *tile, const int8_t *x, int32_t step, int32_t pitch, int32_t line, int32_t pixels",
)
