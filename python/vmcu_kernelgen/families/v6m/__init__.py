# SPDX-License-Identifier: Apache-2.0
"""ARMv6-M and the baseline of ARMv8-M: 32 bits of a product, eight registers that multiply."""

from __future__ import annotations

from vmcu_tools.kernels.targets.families import V6M as TARGET

from ...family import Family, int4_of
from .. import pairs
from . import blocks, int4, single, strips, strips_c

INT4 = Family(int4_of(TARGET), {}, int4.HELPERS, {"blocks": int4.FUNCTIONS})
V6M = Family(
    TARGET,
    strips_c.OWN,
    {**pairs.HELPERS, **strips_c.HELPERS},
    {"strips": strips.FUNCTIONS, "blocks": [*blocks.FUNCTIONS, *single.FUNCTIONS]},
    later={"strip_blocks": strips_c.RUN},
)
