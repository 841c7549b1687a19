# SPDX-License-Identifier: Apache-2.0
"""RISC-V with 32 bits and a multiplier."""

from __future__ import annotations

from ...language.packing import NIBBLE_PAIRS, PAIRS
from ...language.target import Costs, Target
from .. import pairs
from . import blocks, dense, depthwise, eight, int4, tile

COSTS = Costs(
    mac=2.7,
    mac_direct=0.6,
    mac_depthwise=5.5,
    call=560,
    call_window=1280,
    call_strip=1400,
    call_strip_channel=50,
    layer=320,
    block=4,
    strip=6,
)
TITLE = "RV32IM"
GUARD = "defined(__riscv_mul) && __riscv_xlen == 32 && !defined(VMCU_PORTABLE)"
INT4 = Target(
    "rv32_int4",
    TITLE,
    GUARD,
    NIBBLE_PAIRS,
    COSTS,
    {},
    int4.HELPERS,
    {"blocks": int4.FUNCTIONS},
)
RV32 = Target(
    "rv32",
    TITLE,
    GUARD,
    PAIRS,
    COSTS,
    depthwise.OWN,
    {**pairs.HELPERS, **tile.HELPERS, **depthwise.HELPERS},
    {
        "blocks": [*blocks.FUNCTIONS, *eight.FUNCTIONS],
        "dense": dense.FUNCTIONS,
        "strips": depthwise.FUNCTIONS,
    },
    int4=INT4,
)
