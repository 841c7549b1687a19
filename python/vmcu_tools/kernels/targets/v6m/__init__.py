# SPDX-License-Identifier: Apache-2.0
"""ARMv6-M and the baseline of ARMv8-M: 32 bits of a product, eight registers that multiply."""

from __future__ import annotations

from ...language.packing import NIBBLE_PAIRS, PAIRS
from ...language.target import Costs, Target
from .. import pairs
from . import blocks, int4, single, strips

# `vmcu bench --on qemu:m0`, requantisers left out of what a multiply-accumulate takes. Calls are
# those of a Cortex-M3 times 1.25, which is not measured.
COSTS = Costs(
    mac=3.1,
    mac_direct=1.5,
    mac_depthwise=10,
    call=700,
    call_window=1600,
    call_strip=1750,
    call_strip_channel=62,
    layer=400,
    block=4,
    strip=6,
)
TITLE = "ARMv6-M and ARMv8-M Baseline"
GUARD = "(defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)) && !defined(VMCU_PORTABLE)"
INT4 = Target(
    "v6m_int4",
    TITLE,
    GUARD,
    NIBBLE_PAIRS,
    COSTS,
    {},
    int4.HELPERS,
    {"blocks": int4.FUNCTIONS},
)
V6M = Target(
    "v6m",
    TITLE,
    GUARD,
    PAIRS,
    COSTS,
    strips.OWN,
    {**pairs.HELPERS, **strips.HELPERS},
    {"strips": strips.FUNCTIONS, "blocks": [*blocks.FUNCTIONS, *single.FUNCTIONS]},
    later={"strip_blocks": strips.RUN},
    int4=INT4,
)
