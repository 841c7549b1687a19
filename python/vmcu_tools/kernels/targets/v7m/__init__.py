# SPDX-License-Identifier: Apache-2.0
"""ARMv7-M and ARMv8-M without the DSP extension: the portable tile, read by assembly.

A product of two pixels and two channels takes two loads of each and four MLA a tap, nothing else:
compilers move registers around and advance the pointers one by one.
"""

from __future__ import annotations

from ...language.packing import WORDS
from ...language.target import Target
from ..portable import COSTS
from ..portable.tile import PIXELS, SUMS
from ..thumb import REGISTERS, STREAM, T, sums_body, sums_helper

PLACES = {place: at for at, place in enumerate(WORDS.weave(WORDS.channels, WORDS.lanes))}


def four(pixels: int) -> list[str]:
    """Four taps of each pixel. Both pointers advance with their first load, the others look
    back."""
    a, free = REGISTERS[pixels].sums, REGISTERS[pixels].free
    first, second, *taps = free[: 2 + min(pixels, 2)]
    code: list[str] = []
    for tap in range(WORDS.lanes):
        for channel, weight in ((0, first), (1, second)):
            code.append(load(weight, STREAM, PLACES[channel, tap], len(PLACES)))
        for begin in range(0, pixels, 2):
            lanes = list(zip(range(begin, pixels), taps, strict=False))
            for pixel, x in lanes:
                code.append(load(x, T, WORDS.lanes * pixel + tap, WORDS.lanes * pixels))
            for channel, weight in ((0, first), (1, second)):
                for pixel, x in lanes:
                    acc = a[pixels * channel + pixel]
                    code.append(f"mla {acc}, {x}, {weight}, {acc}")
    return code


def load(register: str, pointer: str, at: int, size: int) -> str:
    """A byte of the next `size`."""
    if at == 0:
        return f"ldrsb {register}, [{pointer}], #{size}"
    return f"ldrsb {register}, [{pointer}, #{at - size}]"


V7M = Target(
    "v7m",
    "ARMv7-M and ARMv8-M without DSP",
    "(defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__) || defined(__ARM_ARCH_8M_MAIN__)) && "
    "\\\n\t!defined(VMCU_PORTABLE)",
    WORDS,
    COSTS,
    {SUMS[pixels]: sums_body(pixels) for pixels in PIXELS},
    {"sums": sums_helper(four, "int8_t", WORDS.lanes)},
)
