# SPDX-License-Identifier: Apache-2.0
"""ARMv8.1-M with the integer vector extension (MVE): Cortex-M52, M55 and M85.

Sixteen taps of a channel are a vector, and a dot product of two of them is one VMLADAVA.
"""

from __future__ import annotations

from ...language.packing import NIBBLE_VECTORS, VECTORS
from ...language.target import Costs, Target
from . import blocks, dense, exact, grouped, int4, pixels, pooling, sums, tile, vectors, windows

# `vmcu bench --on qemu:m55`, in instructions.
COSTS = Costs(
    mac=0.25,
    mac_direct=0.1,
    mac_depthwise=1.0,
    call=300,
    call_window=600,
    call_strip=400,
    call_strip_channel=2,
    layer=250,
    block=4,
    strip=6,
)
TITLE = "ARMv8.1-M with MVE"
GUARD = "defined(__ARM_FEATURE_MVE) && defined(__thumb2__) && !defined(VMCU_PORTABLE)"
INT4 = Target(
    "helium_int4",
    TITLE,
    GUARD,
    NIBBLE_VECTORS,
    COSTS,
    {**int4.OWN, **grouped.OWN},
    int4.HELPERS,
    {"blocks": [*int4.FUNCTIONS, *int4.DENSE]},
    later=exact.HELPERS,
)
HELIUM = Target(
    "helium",
    TITLE,
    GUARD,
    VECTORS,
    COSTS,
    {**blocks.OWN, **dense.OWN, **windows.OWN, **vectors.OWN, **pooling.OWN, **sums.OWN},
    {**tile.HELPERS, **blocks.HELPERS, **dense.HELPERS},
    {
        "blocks": [*blocks.FUNCTIONS, *dense.FUNCTIONS],
        "pixels": pixels.FUNCTIONS,
        "sums": sums.FUNCTIONS,
        "windows": windows.FUNCTIONS,
    },
    later={**exact.HELPERS, **vectors.HELPERS, **pooling.HELPERS, **sums.HELPERS},
    int4=INT4,
)
