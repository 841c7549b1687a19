# SPDX-License-Identifier: Apache-2.0
"""ARMv7E-M and ARMv8-M with the DSP extension."""

from __future__ import annotations

from vmcu_tools.kernels.targets.families import DSP as TARGET

from ...family import Family, int4_of
from . import (
    blocks,
    dense,
    grouped,
    int4,
    places,
    pooling,
    products,
    strips,
    sums,
    tile,
    unjoined,
    widen,
)

# Compilers do not say for which Cortex-M they compile.
DUAL = "defined(CONFIG_CPU_CORTEX_M7) || defined(VMCU_CORTEX_M7)"
INT4 = Family(
    int4_of(TARGET),
    {**int4.OWN, **grouped.OWN},
    {**int4.HELPERS, **grouped.HELPERS},
    {"blocks": int4.RUNS, "dense": int4.FUNCTIONS, "grouped": grouped.FUNCTIONS},
    DUAL,
)
DSP = Family(
    TARGET,
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
        **products.HELPERS,
        **pooling.HELPERS,
        **sums.HELPERS,
    },
    {
        "blocks": [*blocks.RUNS, *unjoined.APART_FUNCTIONS],
        "dense": dense.FUNCTIONS,
        "places": places.FUNCTIONS,
        "strips": strips.FUNCTIONS,
        "tile": widen.FUNCTIONS,
    },
    DUAL,
)
