# SPDX-License-Identifier: Apache-2.0
"""ARMv7-M and ARMv8-M without the DSP extension: the portable tile, read by assembly.

A product of two pixels and two channels takes two loads of each and four MLA a tap, nothing else:
compilers move registers around and advance the pointers one by one.
"""

from __future__ import annotations

from ...language.packing import WORDS
from ...language.target import Target
from ..portable import COSTS
from ..portable.tile import DOT, PIXELS


def dot(pixels: int) -> str:
    """Both pointers advance with the first load, the others look back."""
    lanes = "xy"[:pixels]
    width, step, channels = WORDS.lanes, WORDS.step, WORDS.channels
    code = []
    for tap in range(step):
        group, byte = divmod(tap, width)
        for channel in range(channels):
            at = width * (channels * group + channel) + byte
            code.append(load("v", "w", at, channels * step))
            for pixel, lane in enumerate(lanes):
                if channel == 0:
                    at = width * (pixels * group + pixel) + byte
                    code.append(load(lane, "t", at, pixels * step))
                acc = f"%[a{pixels * channel + pixel}]"
                code.append(f"mla {acc}, %[{lane}], %[v], {acc}")
    text = "\n\t".join(f'"{line}\\n\\t"' for line in code)
    sums = ", ".join(f'[a{i}] "+&r"(acc[{i}])' for i in range(channels * pixels))
    scratch = ", ".join(f'[{name}] "=&r"({name})' for name in (*lanes, "v"))
    return (
        f"int32_t {', '.join(lanes)}, v;\n\n"
        f"__asm__ volatile({text}\n"
        f"\t: {sums},\n"
        f'\t  [w] "+&r"(*w), [t] "+&r"(*t), {scratch});'
    )


def load(register: str, pointer: str, at: int, size: int) -> str:
    """A byte of the next `size`."""
    if at == 0:
        return f"ldrsb %[{register}], [%[{pointer}]], #{size}"
    return f"ldrsb %[{register}], [%[{pointer}], #{at - size}]"


V7M = Target(
    "v7m",
    "ARMv7-M and ARMv8-M without DSP",
    "(defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__) || defined(__ARM_ARCH_8M_MAIN__)) && "
    "\\\n\t!defined(VMCU_PORTABLE)",
    WORDS,
    COSTS,
    {DOT[pixels]: dot(pixels) for pixels in PIXELS},
    {},
)
