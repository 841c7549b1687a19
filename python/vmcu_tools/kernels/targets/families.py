# SPDX-License-Identifier: Apache-2.0
"""The compiler's facts about each family of cores; vmcu_kernelgen/families writes their kernels."""

from __future__ import annotations

from dataclasses import replace

from ..language import packing
from ..language.target import Costs, Target


def family(
    name: str,
    title: str,
    guard: str,
    packings: tuple[packing.Packing, packing.Packing],
    costs: Costs,
    mac_int4: float | None = None,
) -> Target:
    """A target with weights of 8 bits, and the same cores for layers with weights of 4;
    mac_int4: the cycles of a multiply-accumulate of these, if known."""
    of_int4 = replace(costs, mac=mac_int4 or costs.mac)
    int4 = Target(f"{name}_int4", title, guard, packings[1], of_int4)
    return Target(name, title, guard, packings[0], costs, int4)


# Measured on a Cortex-M4 with its own instructions.
COSTS = Costs(
    mac=1.4,
    mac_direct=0.15,
    mac_depthwise=4.0,
    call=440,
    call_window=1000,
    call_strip=1100,
    call_strip_channel=40,
    layer=250,
)
PORTABLE = family("portable", "Portable C99", "1", (packing.WORDS, packing.NIBBLES), COSTS)
# In Thumb state alone: LDRD and STRD take any two registers there, in Arm state two neighbours.
DSP = family(
    "dsp",
    "ARMv7E-M and ARMv8-M with DSP",
    "defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_SIMD32) && defined(__thumb2__) && "
    "\\\n\t!defined(VMCU_NO_DSP) && !defined(VMCU_PORTABLE)",
    (packing.WORDS, packing.NIBBLES),
    COSTS,
    mac_int4=1.8,
)
HELIUM = family(
    "helium",
    "ARMv8.1-M with MVE",
    "defined(__ARM_FEATURE_MVE) && defined(__thumb2__) && !defined(VMCU_PORTABLE)",
    (packing.VECTORS, packing.NIBBLE_VECTORS),
    # `vmcu bench --on qemu:m55`, in instructions.
    Costs(
        mac=0.25,
        mac_direct=0.1,
        mac_depthwise=1.0,
        call=300,
        call_window=600,
        call_strip=400,
        call_strip_channel=2,
        layer=250,
    ),
)
V7M = family(
    "v7m",
    "ARMv7-M and ARMv8-M without DSP",
    "(defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__) || defined(__ARM_ARCH_8M_MAIN__)) "
    "&& \\\n\t!defined(VMCU_PORTABLE)",
    (packing.WORDS, packing.NIBBLES),
    # `vmcu bench --on qemu:m3`: a multiply-accumulate takes 2.4 to 2.7 times the cycles of a
    # Cortex-M4 with DSP in whole networks, 2.1 times in depthwise layers; a call takes 1.2 to 1.4
    # times as many. So small tiles cost less of the whole.
    Costs(
        mac=3.6,
        mac_direct=0.4,
        mac_depthwise=8.5,
        call=560,
        call_window=1280,
        call_strip=1400,
        call_strip_channel=50,
        layer=320,
    ),
)
V6M = family(
    "v6m",
    "ARMv6-M and ARMv8-M Baseline",
    "(defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)) && !defined(VMCU_PORTABLE)",
    (packing.PAIRS, packing.NIBBLE_PAIRS),
    # `vmcu bench --on qemu:m0`, requantisers left out of the cycles of a multiply-accumulate. Calls
    # are those of a Cortex-M3 times 1.25, which is not measured.
    Costs(
        mac=3.1,
        mac_direct=1.5,
        mac_depthwise=10,
        call=700,
        call_window=1600,
        call_strip=1750,
        call_strip_channel=62,
        layer=400,
    ),
)
RV32 = family(
    "rv32",
    "RV32IM",
    "defined(__riscv_mul) && __riscv_xlen == 32 && !defined(VMCU_PORTABLE)",
    (packing.PAIRS, packing.NIBBLE_PAIRS),
    # Calls are those of a Cortex-M3.
    replace(V7M.costs, mac=2.7, mac_direct=0.6, mac_depthwise=5.5),
)
