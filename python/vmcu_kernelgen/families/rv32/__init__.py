# SPDX-License-Identifier: Apache-2.0
"""RISC-V with 32 bits and a multiplier."""

from __future__ import annotations

from vmcu_tools.kernels.targets.families import RV32 as TARGET

from ...family import Family, int4_of
from .. import pairs
from . import blocks, dense, depthwise, depthwise_c, eight, int4, tile

INT4 = Family(int4_of(TARGET), {}, int4.HELPERS, {"blocks": int4.FUNCTIONS})
RV32 = Family(
    TARGET,
    depthwise_c.OWN,
    {**pairs.HELPERS, **tile.HELPERS, **depthwise_c.HELPERS},
    {
        "blocks": [*blocks.FUNCTIONS, *eight.FUNCTIONS],
        "dense": dense.FUNCTIONS,
        "strips": depthwise.FUNCTIONS,
    },
)
