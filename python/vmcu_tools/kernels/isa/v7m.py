# SPDX-License-Identifier: Apache-2.0
"""ARMv7-M and ARMv8-M without the DSP extension: the portable tile, read by assembly.

A product of two pixels and two channels takes two loads of each and four MLA a tap, nothing else:
compilers move registers around and advance the pointers one by one.
"""

from __future__ import annotations

from ..language.instruction import Target
from . import portable
from .instructions import LANES, STEP


def dot(pixels: int) -> str:
    """Both pointers advance with the first load, the others look back."""
    lanes = "xy"[:pixels]
    code = []
    for tap in range(STEP):
        group, byte = divmod(tap, LANES)
        for channel in range(2):
            code.append(load("v", "w", 2 * LANES * group + LANES * channel + byte, 2 * STEP))
            for pixel, lane in enumerate(lanes):
                if channel == 0:
                    at = LANES * (pixels * group + pixel) + byte
                    code.append(load(lane, "t", at, pixels * STEP))
                acc = f"%[a{pixels * channel + pixel}]"
                code.append(f"mla {acc}, %[{lane}], %[v], {acc}")
    text = "\n\t".join(f'"{line}\\n\\t"' for line in code)
    sums = ", ".join(f'[a{i}] "+&r"(acc[{i}])' for i in range(2 * pixels))
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
    portable.PRELUDES,
    {**portable.BODIES, "dot_2": dot(2), "dot_1": dot(1)},
)
