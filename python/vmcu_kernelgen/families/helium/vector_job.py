# SPDX-License-Identifier: Apache-2.0
"""The parts that all code for depthwise pixels shares: its job, the end of a vector and of a pixel.

Sums of 32 bits take four vectors: every fourth channel, see `quarters` of the portable target.
Where several groups of taps are added up in 16 bits, there are registers for three of the four.
The fourth is on the stack.
"""

from __future__ import annotations

from vmcu_tools.kernels.targets.portable.vectors import CODE_BITS

from ...assembly import WORD, Function, leave, note, release, reserve, save
from .blocks import NO_VECTORS, VECTORS, scaled

# struct vmcu_vector_job.
MEMBERS = (
    *("const uint8_t *stream", "int32_t channels", "int8_t *out", "const int8_t **taps"),
    *("int32_t count", "const int8_t *zeros", "int32_t step", "int32_t next", "int32_t pixels"),
    *("int32_t delta", "int32_t padded", "int32_t zero", "const struct vmcu_mac_params *p"),
    *("vmcu_store_exact *store", "const int8_t **rows", "int32_t tall", "int32_t wide"),
    *("int32_t dilation", "int32_t width", "int32_t sums[16]"),
)
AT = {text.split()[-1].strip("*").partition("[")[0]: WORD * i for i, text in enumerate(MEMBERS)}
LOCALS = 7
SLOTS = {0: "FOURTH", 16: "JOB", 20: "ZERO"}
FOURTH, JOB, ZERO = (f"[sp, #{at}]" for at in SLOTS)
STREAM, OUT, LEFT, ANY = "r7", "r10", "r11", "r12"
# Bytes of a vector's constants: of its word, and of a word for each channel.
HEAD, WORDS = 4, 64
# The byte of the word that has the code.
CODE = CODE_BITS // 8


def bias(quarter: int) -> str:
    """Returns the address of the bias of a quarter of the channels."""
    return f"[{STREAM}, #{HEAD + 16 * quarter}]"


def entry() -> list[str]:
    return [
        *save(),
        *VECTORS,
        *reserve(LOCALS),
        f"str r0, {JOB}",
        f"ldr r1, [r0, #{AT['zero']}]",
        f"str r1, {ZERO}",
        f"mov {ANY}, r0",
        f"ldr {OUT}, [{ANY}, #{AT['out']}]",
    ]


def first_vector() -> list[str]:
    """The stream's start and the channels of a pixel."""
    return [f"ldrd {STREAM}, {LEFT}, [{ANY}, #{AT['stream']}]"]


def widened(even: str, odd: str, third: str, start: bool, last: bool) -> list[str]:
    """Adds sums of 16 bits to those of 32 bits in Q0 to Q2 and on the stack; leaves the last in Q3
    once these are complete. The registers of the sums are free then, as `third` is."""
    if start:
        # The sums begin at the biases.
        code = [f"vldrw.32 q{i}, {bias(i)}" for i in range(3)]
        fourth = f"vldrw.32 {third}, {bias(3)}"
    else:
        code, fourth = [], f"vldrw.32 {third}, {FOURTH}"
    halves = ((even, "b", third), (even, "t", even), (odd, "b", third))
    for i, (source, half, to) in enumerate(halves):
        code += [f"vmovl{half}.s16 {to}, {source}", f"vadd.i32 q{i}, q{i}, {to}"]
    code += [fourth, f"vmovlt.s16 {odd}, {odd}"]
    sums = "q3" if last else third
    code.append(f"vadd.i32 {sums}, {third}, {odd}")
    return code if last else [*code, f"vstrw.32 {third}, {FOURTH}"]


def added() -> list[str]:
    """Adds the sums of 16 bits in Q6 and Q5 to those in Q0 to Q3."""
    code = []
    for i, (source, half, to) in enumerate(
        (("q6", "b", "q4"), ("q6", "t", "q6"), ("q5", "b", "q4"), ("q5", "t", "q5"))
    ):
        code += [f"vmovl{half}.s16 {to}, {source}", f"vadd.i32 q{i}, q{i}, {to}"]
    return code


def finished(at: int, step: list[str], pixel: list[str]) -> list[str]:
    """Requantises and stores a vector whose sums are in Q0 to Q3, then continues with the next one
    or the next pixel. at: the offset of multipliers in the stream; step: moves on to the next
    vector besides; pixel: the next pixel, whose taps are in memory."""
    code = ["<have>:", f"mov {ANY}, #1"]
    for i in range(4):
        q = f"q{i}"
        place = f"[{STREAM}, #{16 * i}]" if i or not at else f"[{STREAM}, #{at}]!"
        code += [f"vldrw.32 q4, {place}", *scaled(q, "q5", "q4", ANY)]
        code += [f"vldrb.s32 q4, [{STREAM}, #{WORDS + 4 * i}]", f"vrshl.s32 {q}, q5, q4"]
    code += ["<narrow>:", f"ldr {ANY}, {ZERO}", f"adds {STREAM}, #{WORDS + 16}"]
    for low, high in (("q0", "q1"), ("q2", "q3")):
        code += [f"vqmovnb.s32 {low}, {low}", f"vqmovnt.s32 {low}, {high}"]
        code += [f"vqadd.s16 {low}, {low}, {ANY}"]
    code += ["vqmovnb.s16 q0, q0", "vqmovnt.s16 q0, q2", f"vctp.8 {LEFT}"]
    code += ["vpst", f"vstrbt.8 q0, [{OUT}], #16"]
    return [*code, "<next>:", *step, f"subs {LEFT}, #16", "bgt.w <vector>", *ending(pixel)]


def ending(pixel: list[str]) -> list[str]:
    """Returns the code from the last vector of a pixel on."""
    return [
        f"ldr {ANY}, {JOB}",
        f"ldr lr, [{ANY}, #{AT['next']}]",
        f"add {OUT}, lr",
        f"ldr {LEFT}, [{ANY}, #{AT['pixels']}]",
        f"subs {LEFT}, #1",
        f"str {LEFT}, [{ANY}, #{AT['pixels']}]",
        "beq.w <done>",
        *pixel,
        note("The taps of the next pixel, but for those that are padding."),
        f"ldr r0, [{ANY}, #{AT['taps']}]",
        f"ldr r1, [{ANY}, #{AT['zeros']}]",
        f"ldr r2, [{ANY}, #{AT['step']}]",
        f"ldr r3, [{ANY}, #{AT['count']}]",
        "<move>:",
        "vldrw.32 q0, [r0]",
        "vcmp.i32 ne, q0, r1",
        "vpst",
        "vaddt.i32 q0, q0, r2",
        "vstrw.32 q0, [r0], #16",
        "subs r3, #4",
        "bgt <move>",
        "b.w <pixel>",
        note("Sums that are not for the fast requantiser."),
        "<exact>:",
        f"ldr {ANY}, {JOB}",
        *(f"vstrw.32 q{i}, [{ANY}, #{AT['sums'] + 16 * i}]" for i in range(4)),
        "push {r0-r3}",
        ".cfi_adjust_cfa_offset 16",
        f"push {{{LEFT}, {ANY}}}",
        ".cfi_adjust_cfa_offset 8",
        f"ldr r0, [{ANY}, #{AT['p']}]",
        f"add.w r1, {ANY}, #{AT['sums']}",
        f"mov r2, {STREAM}",
        f"mov r3, {OUT}",
        f"ldr lr, [{ANY}, #{AT['store']}]",
        "blx lr",
        *release(2),
        "pop {r0-r3}",
        ".cfi_adjust_cfa_offset -16",
        f"adds {STREAM}, #{2 * WORDS}",
        f"add {OUT}, #16",
        "b.w <next>",
        "<done>:",
        *release(LOCALS),
        *NO_VECTORS,
        leave(),
    ]


def lines() -> list[str]:
    """Calls line_quarters()."""
    return ["bl vmcu_line_quarters", "b.w <narrow>"]


def line_quarters() -> Function:
    """vmcu_on_line() of support.h, without the zero point, for four sums at a time."""
    code = [f"mov.w {ANY}, #0x80"]
    for i in range(4):
        q = f"q{i}"
        code += [
            f"vldrw.32 q5, [{STREAM}, #{16 * i}]",
            f"vldrw.32 q4, [{STREAM}, #{WORDS + 16 * i}]",
            f"vmul.i32 q6, {q}, q5",
            f"vmulh.s32 {q}, {q}, q5",
            "vmov q7, q4",
            "vbic.i32 q7, #0xff",
            "vhadd.u32 q6, q6, q7",
            "vshr.s32 q7, q7, #31",
            f"vadd.i32 {q}, {q}, q7",
            "vneg.s32 q4, q4",
            "vshr.u32 q6, q6, #31",
            f"vadd.i32 q4, q4, {ANY}",
            f"vadd.i32 {q}, {q}, q6",
            f"vrshl.s32 {q}, {q}, q4",
        ]
    summary = (
        "Only for the functions above: sums in Q0 to Q3 as lines through the integers, whose "
        "multipliers and words are at R7. Sets Q4 to Q7 and R12."
    )
    code += [f"adds {STREAM}, #{WORDS - 16}", "bx lr"]
    return Function("vmcu_line_quarters", summary, code)
