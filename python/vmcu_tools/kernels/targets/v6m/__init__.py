# SPDX-License-Identifier: Apache-2.0
"""ARMv6-M and the baseline of ARMv8-M: 32 bits of a product, eight registers that multiply."""

from __future__ import annotations

from ...language.packing import PAIRS
from ...language.target import Costs, Target
from .. import pairs
from ..portable.blocks import RUN_PAIRED
from ..thumb import prototypes
from . import blocks

COSTS = Costs(
    mac=3.6,
    mac_direct=0.6,
    mac_depthwise=13,
    call=700,
    call_window=1600,
    call_strip=1800,
    call_strip_channel=60,
    layer=400,
    block=4,
    strip=6,
)
DECLARED = prototypes(
    list(blocks.FUNCTIONS.values()),
    "const uint8_t *",
    "const uint8_t *stream, const vmcu_lane_t *tile, int32_t steps, int8_t *out, int32_t channels, "
    "int32_t half, int32_t pitch, int32_t code",
)
V6M = Target(
    "v6m",
    "ARMv6-M and ARMv8-M Baseline",
    "(defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)) && !defined(VMCU_PORTABLE)",
    PAIRS,
    COSTS,
    {
        RUN_PAIRED[
            shape
        ]: f"*w = {made.name}(*w, tile, p->steps, out, channels, vmcu_half(p), pitch, code);"
        for shape, made in blocks.FUNCTIONS.items()
    },
    {**pairs.HELPERS, "pairs": f"/* Blocks of pairs of pixels. */\n{DECLARED}"},
    {"blocks": list(blocks.FUNCTIONS.values())},
)
