# SPDX-License-Identifier: Apache-2.0
"""ARMv7E-M and ARMv8-M with the DSP extension.

Only in Thumb state: LDRD and STRD take any two registers there, in Arm state a pair of neighbours.
"""

from __future__ import annotations

from dataclasses import replace

from ...language.packing import NIBBLES, WORDS
from ...language.target import Target
from ..portable import COSTS
from . import blocks, dense, grouped, int4, places, pooling, products, strips, sums, tile, widen

TITLE = "ARMv7E-M and ARMv8-M with DSP"
GUARD = (
    "defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_SIMD32) && defined(__thumb2__) && "
    "\\\n\t!defined(VMCU_NO_DSP) && !defined(VMCU_PORTABLE)"
)
# Compilers do not say for which Cortex-M they compile.
DUAL = "defined(CONFIG_CPU_CORTEX_M7) || defined(VMCU_CORTEX_M7)"
INT4 = Target(
    "dsp_int4",
    TITLE,
    GUARD,
    NIBBLES,
    replace(COSTS, mac=1.8),
    {**int4.OWN, **grouped.OWN},
    {**int4.HELPERS, **grouped.HELPERS},
    {"blocks": int4.RUNS, "dense": int4.FUNCTIONS, "grouped": grouped.FUNCTIONS},
    DUAL,
)
DSP = Target(
    "dsp",
    TITLE,
    GUARD,
    WORDS,
    COSTS,
    {
        **tile.OWN,
        **strips.OWN,
        **products.OWN,
        **sums.OWN,
    },
    {
        **tile.HELPERS,
        **places.HELPERS,
        **strips.HELPERS,
        **pooling.HELPERS,
        **products.HELPERS,
        **sums.HELPERS,
    },
    {
        "blocks": [*blocks.RUNS, *blocks.APART_FUNCTIONS],
        "dense": dense.FUNCTIONS,
        "places": places.FUNCTIONS,
        "strips": strips.FUNCTIONS,
        "tile": widen.FUNCTIONS,
    },
    DUAL,
    int4=INT4,
)
