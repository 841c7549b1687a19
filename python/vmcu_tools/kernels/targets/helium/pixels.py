# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions in assembly: all channels of adjacent pixels, sixteen at once.

Sums of 32 bits take four vectors: every fourth channel, see `quarters` of the portable target.
Where several groups of taps are added up in 16 bits, there are registers for three of the four.
The fourth is on the stack.
"""

from __future__ import annotations

from collections.abc import Callable

from ...language.assembly import WORD, Function, leave, note, release, reserve, save
from ..portable.depthwise import EXACT
from ..portable.vectors import CODE_BITS, LINES
from ..thumb import prototypes
from .blocks import NO_VECTORS, VECTORS

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
NINE = (*(f"r{number}" for number in range(7)), "r8", "r9")
# Bytes of a vector's constants: of its word, and of a word for each channel.
HEAD, WORDS = 4, 64
# The byte of the word that has the code.
CODE = CODE_BITS // 8


def bias(quarter: int) -> str:
    """Where that of a quarter of the channels is."""
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


def whole(count: int) -> list[str]:
    """All taps in 16 bits."""
    code: list[str] = []
    for tap in range(0, count, 2):
        pair = range(tap, min(tap + 2, count))
        code += [f"vldrb.8 q{6 + i}, [{NINE[at]}], #16" for i, at in enumerate(pair)]
        code += [
            f"vldrw.32 q{i}, [{STREAM}, #{HEAD + WORDS + 16 * at}]" for i, at in enumerate(pair)
        ]
        for i in range(len(pair)):
            if tap + i == 0:
                code += ["vmullb.s8 q4, q6, q0", "vmullt.s8 q5, q6, q0"]
                continue
            for half, acc in (("b", "q4"), ("t", "q5")):
                code += [f"vmull{half}.s8 q2, q{6 + i}, q{i}", f"vadd.i16 {acc}, {acc}, q2"]
    for i, half in enumerate(("b", "t", "b", "t")):
        acc = ("q4", "q5")[i // 2]
        code += [f"vldrw.32 q{i}, {bias(i)}"]
        code += [f"vmovl{half}.s16 q6, {acc}", f"vadd.i32 q{i}, q{i}, q6"]
    return code


def in_pairs(count: int, some: bool = False) -> list[str]:
    """Every two taps in 16 bits, the last one alone; `some`: only of channels that exist. All sums
    of 32 bits are in registers, but for the first pair: the second weights are loaded twice."""
    code: list[str] = []
    for tap in range(0, count, 2):
        weights = [f"[{STREAM}, #{HEAD + WORDS + 16 * at}]" for at in (tap, tap + 1)]
        code += some_taps("q4", tap, some)
        code += [f"vldrw.32 q5, {weights[0]}", "vmullb.s8 q6, q4, q5", "vmullt.s8 q5, q4, q5"]
        if tap + 1 < count:
            code += [*some_taps("q4", tap + 1, some), f"vldrw.32 q7, {weights[1]}"]
            product = "q7" if tap else "q0"
            code += [f"vmullb.s8 {product}, q4, q7", f"vadd.i16 q6, q6, {product}"]
            code += [f"vldrw.32 q7, {weights[1]}"] * (tap > 0)
            code += ["vmullt.s8 q7, q4, q7", "vadd.i16 q5, q5, q7"]
        if tap == 0:
            code += [f"vldrw.32 q{i}, {bias(i)}" for i in range(4)]
        code += added()
    return code


def some_taps(q: str, tap: int, some: bool) -> list[str]:
    """A vector of a tap."""
    return [*["vpst"] * some, f"vldrb{'t' * some}.8 {q}, [{NINE[tap]}], #16"]


def in_groups(sizes: list[int]) -> list[str]:
    """Groups of taps, each in 16 bits."""
    code, tap, at = [], 0, HEAD + WORDS
    for number, size in enumerate(sizes):
        last = number == len(sizes) - 1
        for i in range(size):
            code += [*some_taps("q5", tap, False), f"vldrw.32 q6, [{STREAM}, #{at}]"]
            if i == 0:
                code += ["vmullb.s8 q3, q5, q6", "vmullt.s8 q4, q5, q6"]
            else:
                code += ["vmullb.s8 q7, q5, q6", "vadd.i16 q3, q3, q7"]
                code += ["vmullt.s8 q6, q5, q6", "vadd.i16 q4, q4, q6"]
            tap, at = tap + 1, at + 16
        code += widened("q3", "q4", "q7", number == 0, last)
    return code


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


def finished(at: int, step: list[str], pixel: list[str]) -> list[str]:
    """Requantises and stores a vector whose sums are in Q0 to Q3, then continues with the next one
    or the next pixel. at: where the stream has multipliers; step: what moves on to the next vector
    besides; pixel: the next pixel, whose taps are in memory."""
    code = ["<have>:"]
    for i in range(4):
        q = f"q{i}"
        place = f"[{STREAM}, #{16 * i}]" if i or not at else f"[{STREAM}, #{at}]!"
        code += [f"vldrw.32 q4, {place}", f"vqrdmulh.s32 q5, {q}, q4"]
        code += [f"vshr.s32 {q}, {q}, #31", f"vadd.i32 {q}, {q}, q5"]
        code += [f"vldrb.s32 q4, [{STREAM}, #{WORDS + 4 * i}]", f"vrshl.s32 {q}, {q}, q4"]
    code += ["<narrow>:", f"ldr {ANY}, {ZERO}", f"adds {STREAM}, #{WORDS + 16}"]
    for low, high in (("q0", "q1"), ("q2", "q3")):
        code += [f"vqmovnb.s32 {low}, {low}", f"vqmovnt.s32 {low}, {high}"]
        code += [f"vqadd.s16 {low}, {low}, {ANY}"]
    code += ["vqmovnb.s16 q0, q0", "vqmovnt.s16 q0, q2", f"vctp.8 {LEFT}"]
    code += ["vpst", f"vstrbt.8 q0, [{OUT}], #16"]
    return [*code, "<next>:", *step, f"subs {LEFT}, #16", "bgt.w <vector>", *ending(pixel)]


def ending(pixel: list[str]) -> list[str]:
    """From the last vector of a pixel on."""
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


def groups(count: int, together: int) -> list[int]:
    """Sizes of groups of so many taps, of which `together` may be added up in 16 bits."""
    most = min(together, count)
    return [min(most, count - first) for first in range(0, count, most)]


def few(name: str, count: int, sizes: tuple[int, ...]) -> Function:
    """Windows of so few taps that their addresses are in registers. sizes: of groups that have code
    of their own, of two taps first."""
    pointers = NINE[:count]
    moved = [
        f"ldr lr, [{ANY}, #{AT['padded']}]",
        "cmp lr, #0",
        "bne <taps>",
        f"ldr lr, [{ANY}, #{AT['delta']}]",
        *(f"add {pointer}, lr" for pointer in pointers),
        *first_vector(),
        "b.w <vector>",
        "<taps>:",
    ]
    size = HEAD + WORDS + 16 * count
    # By code: those sizes that are not above it. One tap alone is not for this code.
    targets = [0, 0, *(max(s for s in sizes if s <= code) for code in range(2, count + 1))]
    code = [
        *entry(),
        "<pixel>:",
        f"ldr lr, [{ANY}, #{AT['taps']}]",
        *first_vector(),
        f"ldm lr, {{{', '.join(pointers)}}}",
        "<vector>:",
        f"ldrb {ANY}, [{STREAM}, #{CODE}]",
        f"tbh [pc, {ANY}, lsl #1]",
        "<table>:",
        *(f".2byte (<of_{group}> - <table>) / 2" for group in targets),
        note("Fewer channels than a vector has, or sums for another requantiser."),
        "<of_0>:",
        f"vctp.8 {LEFT}",
        *in_pairs(count, some=True),
        f"ldrb {ANY}, [{STREAM}]",
        f"cmp {ANY}, #0",
        "beq.w <have>",
        f"add.w {STREAM}, {STREAM}, #{size}",
        f"cmp {ANY}, #{EXACT | LINES}",
        "bne.w <exact>",
        *lines(),
    ]
    for group in sizes[1:]:
        found = groups(count, group)
        code += [note(f"Groups of {group} taps." if len(found) > 1 else "All taps at once.")]
        code += [f"<of_{group}>:", *(in_groups(found) if len(found) > 1 else whole(count))]
        code += ["b.w <have>"]
    code += [note("Two taps at a time."), "<of_2>:", *in_pairs(count)]
    summary = f"Adjacent pixels of a depthwise convolution of {name} taps."
    return Function(f"vmcu_vectors_of_{name}", summary, [*code, *finished(size, [], moved)], SLOTS)


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


def four_taps(tap: Callable[[str, int], list[str]]) -> list[str]:
    """The next four taps of a whole vector."""
    pointers = ("r0", "r1", "r5", "r6")
    code = [f"ldm r3!, {{{', '.join(pointers)}}}", *(f"add {r}, r2" for r in pointers)]
    for i, pointer in enumerate(pointers):
        code += tap(pointer, i)
    return code


def paired(pointer: str, i: int) -> list[str]:
    """One of two taps: their products are added to the sums in Q0 to Q3 behind the second one."""
    code = [f"vldrb.8 q4, [{pointer}]"]
    if i % 2 == 0:
        code += [f"vldrw.32 q5, [{STREAM}], #16"]
        return [*code, "vmullb.s8 q6, q4, q5", "vmullt.s8 q5, q4, q5"]
    code += [f"vldrw.32 q7, [{STREAM}]", "vmullb.s8 q7, q4, q7", "vadd.i16 q6, q6, q7"]
    code += [f"vldrw.32 q7, [{STREAM}], #16", "vmullt.s8 q7, q4, q7", "vadd.i16 q5, q5, q7"]
    return [*code, *added()]


def added() -> list[str]:
    """Adds the sums of 16 bits in Q6 and Q5 to those in Q0 to Q3."""
    code = []
    for i, (source, half, to) in enumerate(
        (("q6", "b", "q4"), ("q6", "t", "q6"), ("q5", "b", "q4"), ("q5", "t", "q5"))
    ):
        code += [f"vmovl{half}.s16 {to}, {source}", f"vadd.i32 q{i}, q{i}, {to}"]
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
    fourth = "r9"
    code = [
        note("Groups of four taps or more."),
        "<groups>:",
        "mov r8, r6",
        *(f"vldrw.32 q{i}, {bias(i)}" for i in range(3)),
        f"add.w {fourth}, {STREAM}, #{HEAD + 16 * 3}",
        f"adds {STREAM}, #{HEAD + WORDS}",
        "<large>:",
        "cmp r8, r4",
        "it gt",
        "movgt r8, r4",
        "subs r4, r4, r8",
        "vmov.i32 q4, #0",
        "vmov.i32 q5, #0",
        "lsrs r5, r8, #2",
        "wls lr, r5, <last>",
        "<fours>:",
        *four_taps(grouped),
        "le lr, <fours>",
        "<last>:",
        "and r5, r8, #3",
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
        *(f"vldrw.32 q{i}, {bias(i)}" for i in range(4)),
        f"adds {STREAM}, #{HEAD + WORDS}",
        "lsrs r5, r4, #2",
        "wls lr, r5, <odd>",
        "<two_pairs>:",
        *four_taps(paired),
        "le lr, <two_pairs>",
        "<odd>:",
        "ands r5, r4, #3",
        "wls lr, r5, <have>",
        "<single>:",
        "ldr r0, [r3], #4",
        "add r0, r2",
        *paired("r0", 0),
        *added(),
        "le lr, <single>",
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


PIXELS = [few("nine", 9, (2, 3, 5, 9)), few("three", 3, (2, 3)), any_window()]
TAPS = [window_taps()]
FUNCTIONS = [*PIXELS, line_quarters(), *TAPS]
JOB_C = "".join(f"\t{text};\n" for text in MEMBERS)
DECLARED = prototypes(PIXELS, "void ", "struct vmcu_vector_job *job")
DECLARED += prototypes(TAPS, "void ", "const struct vmcu_vector_job *job, int32_t pixel")
