# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions in assembly: all channels of adjacent pixels, sixteen at once."""

from __future__ import annotations

from vmcu_tools.kernels.targets.portable.vectors import SIZES

from ...assembly import Function, leave, note, save
from ..thumb import prototypes
from .any_window import any_window
from .few_taps import few
from .vector_job import AT, MEMBERS, line_quarters


def window_taps() -> Function:
    """Four columns of a row at a time."""
    kept = (*(f"r{number}" for number in range(4, 9)), "lr")
    at = {"r2": "taps", "r3": "rows", "r4": "tall", "r5": "wide", "r6": "dilation"}
    code = [
        *save(kept),
        *(f"ldr {register}, [r0, #{AT[name]}]" for register, name in at.items()),
        "mov r12, #0",
        "vidup.u32 q0, r12, #1",
        f"ldr r8, [r0, #{AT['channels']}]",
        f"ldr r12, [r0, #{AT['zeros']}]",
        "vmul.i32 q0, q0, r6",
        "vadd.i32 q0, q0, r1",
        "lsls r6, r6, #2",
        note("A row of padding has no columns."),
        "<row>:",
        "ldr lr, [r3], #4",
        "mov r1, r5",
        "cmp lr, #0",
        "ite ne",
        f"ldrne r7, [r0, #{AT['width']}]",
        "moveq r7, #0",
        "vmov q1, q0",
        "<four>:",
        "vdup.32 q2, lr",
        "vmla.s32 q2, q1, r8",
        "vpt.u32 cs, q1, r7",
        "vdupt.32 q2, r12",
        "vadd.i32 q1, q1, r6",
        "vctp.32 r1",
        "vpst",
        "vstrwt.32 q2, [r2], #16",
        "subs r1, #4",
        "bgt <four>",
        "add r2, r2, r1, lsl #2",
        "subs r4, #1",
        "bne <row>",
        leave(kept),
    ]
    return Function("vmcu_vector_taps", "Where the taps are of the window at a column.", code)


PIXELS = [few("nine", 9, SIZES), few("three", 3, (2, 3)), any_window()]
TAPS = [window_taps()]
FUNCTIONS = [*PIXELS, line_quarters(), *TAPS]
JOB_C = "".join(f"\t{text};\n" for text in MEMBERS)
DECLARED = prototypes(PIXELS, "void ", "struct vmcu_vector_job *job")
DECLARED += prototypes(TAPS, "void ", "const struct vmcu_vector_job *job, int32_t pixel")
