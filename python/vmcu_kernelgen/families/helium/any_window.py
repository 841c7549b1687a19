# SPDX-License-Identifier: Apache-2.0
"""Depthwise windows of any size: the addresses of their taps are in scratch."""

from __future__ import annotations

from collections.abc import Callable

from vmcu_tools.kernels.targets.portable.depthwise import EXACT
from vmcu_tools.kernels.targets.portable.vectors import LINES

from ...assembly import Function, note
from .vector_job import (
    ANY,
    AT,
    CODE,
    FOURTH,
    HEAD,
    JOB,
    LEFT,
    SLOTS,
    STREAM,
    WORDS,
    bias,
    entry,
    finished,
    first_vector,
    lines,
    widened,
)

# A register with 128 where pairs of taps are summed up.
UPPER = "r6"


def two_products(first: str, second: str) -> list[str]:
    """The taps in Q3 and Q5 times weights, added up in Q3 and Q4."""
    return [
        f"vldrw.32 q4, {first}",
        f"vldrw.32 q6, {second}",
        "vmullb.s8 q7, q3, q4",
        "vmullt.s8 q4, q3, q4",
        "vmullb.s8 q3, q5, q6",
        "vadd.i16 q3, q3, q7",
        "vmullt.s8 q7, q5, q6",
        "vadd.i16 q4, q4, q7",
    ]


def one_tap(pointer: str) -> list[str]:
    """Adds sixteen products to the sums of 16 bits in Q3 and Q4."""
    return [
        "vpst",
        f"vldrbt.8 q5, [{pointer}]",
        f"vldrw.32 q6, [{STREAM}], #16",
        "vmullb.s8 q7, q5, q6",
        "vadd.i16 q3, q3, q7",
        "vmullt.s8 q6, q5, q6",
        "vadd.i16 q4, q4, q6",
    ]


def four_taps(q: str, tap: Callable[[str, int], list[str]]) -> list[str]:
    """The next four taps of a whole vector; `q` is free at their start."""
    a, b, c, d = pointers = ("r0", "r1", "r5", "r8")
    code = [f"vldrw.32 {q}, [r3], #16", f"vadd.i32 {q}, {q}, r2"]
    code += [f"vmov {a}, {c}, {q}[2], {q}[0]", f"vmov {b}, {d}, {q}[3], {q}[1]"]
    for i, pointer in enumerate(pointers):
        code += tap(pointer, i)
    return code


def paired(pointer: str, i: int) -> list[str]:
    """One of two taps: behind the second one, their products are summed up."""
    code = [f"vldrb.8 q4, [{pointer}]"]
    if i % 2 == 0:
        code += [f"vldrw.32 q5, [{STREAM}], #16"]
        return [*code, "vmullb.s8 q6, q4, q5", "vmullt.s8 q5, q4, q5"]
    code += [f"vldrw.32 q7, [{STREAM}]", "vmullb.s8 q7, q4, q7", "vadd.i16 q6, q6, q7"]
    code += [f"vldrw.32 q7, [{STREAM}], #16", "vmullt.s8 q7, q4, q7", "vadd.i16 q5, q5, q7"]
    return [*code, *summed_up()]


def summed_up() -> list[str]:
    """Adds Q6 and Q5 to two pairs of sums of 16 bits: all bits to Q0 and Q1, modulo 65536, the
    upper eight to Q2 and Q3: twice a lane times 128 is 65536 times these."""
    code = []
    for i, source in enumerate(("q6", "q5")):
        code += [f"vadd.i16 q{i}, q{i}, {source}", f"vqdmlah.s16 q{2 + i}, {source}, {UPPER}"]
    return code


def combined(biases: str) -> list[str]:
    """Sums of 32 bits in Q0 to Q3 of those of summed_up(): the sum of the lower eight bits, which
    is less than 65536 for up to FEW taps, 256 times that of the upper ones, and the bias."""
    code = []
    for i in range(2):
        code += [f"vshl.i16 q4, q{2 + i}, #8", f"vsub.i16 q{i}, q{i}, q4"]
    for to, high, low, half in (
        *(("q4", "q2", "q0", "b"), ("q5", "q2", "q0", "t")),
        *(("q2", "q3", "q1", "b"), ("q3", "q3", "q1", "t")),
    ):
        code += [f"vshll{half}.s16 {to}, {high}, #8", f"vmovl{half}.u16 q6, {low}"]
        code += [f"vadd.i32 {to}, {to}, q6"]
    for i, source in enumerate(("q4", "q5", "q2", "q3")):
        code += [f"vldrw.32 q6, [{biases}, #{16 * i}]", f"vadd.i32 q{i}, {source}, q6"]
    return code


def grouped(pointer: str, _: int = 0) -> list[str]:
    """A tap of a group: sums of 16 bits in Q4 and Q5."""
    return [
        f"vldrb.8 q6, [{pointer}]",
        f"vldrw.32 q7, [{STREAM}], #16",
        "vmullb.s8 q3, q6, q7",
        "vadd.i16 q4, q4, q3",
        "vmullt.s8 q7, q6, q7",
        "vadd.i16 q5, q5, q7",
    ]


def whole_vectors() -> list[str]:
    """Vectors whose channels all exist and have the fast requantiser: the code is in R6, the number
    of taps in R4, where they are in R3."""
    fourth = biases = "r9"
    code = [
        note("Groups of four taps or more."),
        "<groups>:",
        *(f"vldrw.32 q{i}, {bias(i)}" for i in range(3)),
        f"add.w {fourth}, {STREAM}, #{HEAD + 16 * 3}",
        f"adds {STREAM}, #{HEAD + WORDS}",
        "<large>:",
        "cmp r6, r4",
        "it gt",
        "movgt r6, r4",
        "subs r4, r4, r6",
        "vmov.i32 q4, #0",
        "vmov.i32 q5, #0",
        "lsrs r5, r6, #2",
        "wls lr, r5, <last>",
        "<fours>:",
        *four_taps("q3", grouped),
        "le lr, <fours>",
        "<last>:",
        "and r5, r6, #3",
        "wls lr, r5, <added>",
        "<ones>:",
        "ldr r0, [r3], #4",
        "add r0, r2",
        *grouped("r0"),
        "le lr, <ones>",
        "<added>:",
        "vmovlb.s16 q6, q4",
        "vadd.i32 q0, q0, q6",
        "vmovlt.s16 q4, q4",
        "vadd.i32 q1, q1, q4",
        "vmovlb.s16 q6, q5",
        "vadd.i32 q2, q2, q6",
        f"vldrw.32 q3, [{fourth}]",
        "vmovlt.s16 q5, q5",
        "vadd.i32 q3, q3, q5",
        "cmp r4, #0",
        "beq.w <have>",
        f"mov {fourth}, sp",
        f"vstrw.32 q3, {FOURTH}",
        "b <large>",
        note("Two taps at a time."),
        "<pairs>:",
        *(f"vmov.i32 q{i}, #0" for i in range(4)),
        f"movs {UPPER}, #128",
        f"add.w {biases}, {STREAM}, #{HEAD}",
        f"adds {STREAM}, #{HEAD + WORDS}",
        "lsrs r5, r4, #2",
        "wls lr, r5, <odd>",
        "<two_pairs>:",
        *four_taps("q7", paired),
        "le lr, <two_pairs>",
        "<odd>:",
        "ands r5, r4, #3",
        "wls lr, r5, <all_pairs>",
        "<single>:",
        "ldr r0, [r3], #4",
        "add r0, r2",
        *paired("r0", 0),
        *summed_up(),
        "le lr, <single>",
        "<all_pairs>:",
        *combined(biases),
        "b.w <have>",
    ]
    return code


def any_window() -> Function:
    moved = [
        f"ldr lr, [{ANY}, #{AT['padded']}]",
        "cmp lr, #0",
        "bne <taps>",
        f"ldr lr, [{ANY}, #{AT['delta']}]",
        "add r2, lr",
        *first_vector(),
        "b.w <vector>",
        "<taps>:",
    ]
    code = [
        *entry(),
        "<pixel>:",
        *first_vector(),
        note("The first channel."),
        "movs r2, #0",
        note("The code, the addresses of the taps and how many these are."),
        "<vector>:",
        f"ldr {ANY}, {JOB}",
        f"ldrb r6, [{STREAM}, #{CODE}]",
        f"ldrd r3, r4, [{ANY}, #{AT['taps']}]",
        "cmp r6, #4",
        "bhs <groups>",
        "cmp r6, #2",
        "bhs.w <pairs>",
        note("The stream's word, and the taps of a group, of a vector with fewer channels."),
        f"vctp.8 {LEFT}",
        f"ldr r6, [{STREAM}]",
        "ubfx r8, r6, #8, #16",
        *(f"vldrw.32 q{i}, {bias(i)}" for i in range(4)),
        f"vstrw.32 q3, {FOURTH}",
        f"adds {STREAM}, #{HEAD + WORDS}",
        note("Two taps at a time, where two or three may be added up."),
        "sub r5, r8, #2",
        "cmp r5, #1",
        "bhi <group>",
        "lsrs r5, r4, #1",
        "and r4, r4, #1",
        "wls lr, r5, <group>",
        "<pair>:",
        "ldrd r0, r1, [r3], #8",
        "add r0, r2",
        "add r1, r2",
        "vpstt",
        "vldrbt.8 q3, [r0]",
        "vldrbt.8 q5, [r1]",
        *two_products(f"[{STREAM}], #32", f"[{STREAM}, #-16]"),
        *widened("q3", "q4", "q7", False, False),
        "le lr, <pair>",
        "cmp r4, #0",
        "beq <sums>",
        note("A group of taps."),
        "<group>:",
        "mov r5, r8",
        "cmp r5, r4",
        "it gt",
        "movgt r5, r4",
        "subs r4, r4, r5",
        "vmov.i32 q3, #0",
        "vmov.i32 q4, #0",
        "wls lr, r5, <grouped>",
        "<turn>:",
        "ldr r0, [r3], #4",
        "add r0, r2",
        *one_tap("r0"),
        "le lr, <turn>",
        "<grouped>:",
        *widened("q3", "q4", "q7", False, False),
        "cmp r4, #0",
        "bgt <group>",
        "<sums>:",
        f"vldrw.32 q3, {FOURTH}",
        f"tst r6, #{EXACT}",
        "beq.w <have>",
        f"tst r6, #{LINES}",
        "beq.w <exact>",
        *lines(),
        *whole_vectors(),
        *finished(0, ["adds r2, #16"], moved),
    ]
    summary = "Adjacent pixels of a depthwise convolution of any window."
    return Function("vmcu_vectors_of_any", summary, code, SLOTS)
