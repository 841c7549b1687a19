# SPDX-License-Identifier: Apache-2.0
"""ARMv8.1-M with the integer vector extension (MVE): Cortex-M52, M55 and M85.

Sixteen taps of a channel are a vector, and a dot product of two of them is one VMLADAVA.
"""

from __future__ import annotations

from vmcu_tools.kernels.targets.families import HELIUM as TARGET

from ...family import Family, int4_of
from . import blocks, dense, exact, grouped, int4, pixels, pooling, sums, tile, vectors, windows

INT4 = Family(
    int4_of(TARGET),
    {**int4.OWN, **grouped.OWN},
    int4.HELPERS,
    {"blocks": [*int4.FUNCTIONS, *int4.DENSE]},
    later=exact.HELPERS,
)
HELIUM = Family(
    TARGET,
    {**blocks.OWN, **dense.OWN, **windows.OWN, **vectors.OWN, **pooling.OWN, **sums.OWN},
    {**tile.HELPERS, **blocks.HELPERS, **dense.HELPERS},
    {
        "blocks": [*blocks.FUNCTIONS, *dense.FUNCTIONS],
        "pixels": pixels.FUNCTIONS,
        "sums": sums.FUNCTIONS,
        "windows": windows.FUNCTIONS,
    },
    later={**exact.HELPERS, **vectors.HELPERS, **pooling.HELPERS, **sums.HELPERS},
)
