# SPDX-License-Identifier: Apache-2.0
"""Depthwise windows of so few taps that their addresses are in registers."""

from __future__ import annotations

from vmcu_tools.kernels.targets.portable.depthwise import EXACT
from vmcu_tools.kernels.targets.portable.vectors import LINES

from ...assembly import Function, note
from .vector_job import (
    ANY,
    AT,
    CODE,
    HEAD,
    LEFT,
    SLOTS,
    STREAM,
    WORDS,
    added,
    bias,
    entry,
    finished,
    first_vector,
    lines,
    widened,
)

NINE = (*(f"r{number}" for number in range(7)), "r8", "r9")


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
        parts = groups(count, group)
        code += [note(f"Groups of {group} taps." if len(parts) > 1 else "All taps at once.")]
        code += [f"<of_{group}>:", *(in_groups(parts) if len(parts) > 1 else whole(count))]
        code += ["b.w <have>"]
    code += [note("Two taps at a time."), "<of_2>:", *in_pairs(count)]
    summary = f"Adjacent pixels of a depthwise convolution of {name} taps."
    return Function(f"vmcu_vectors_of_{name}", summary, [*code, *finished(size, [], moved)], SLOTS)
