# SPDX-License-Identifier: Apache-2.0
"""Portable C99: what bodies of instructions use."""

from __future__ import annotations

from vmcu_tools.kernels.targets import PORTABLE as TARGET
from vmcu_tools.kernels.targets.portable import (
    blocks,
    dense,
    depthwise,
    places,
    pooling,
    strips,
    tile,
)

from ..family import Family

HELPERS = {
    **tile.HELPERS,
    **blocks.HELPERS,
    **dense.HELPERS,
    **depthwise.HELPERS,
    **strips.HELPERS,
    **places.HELPERS,
    **pooling.HELPERS,
}
assert TARGET.int4 is not None
INT4 = Family(TARGET.int4, {}, HELPERS)
PORTABLE = Family(TARGET, {}, HELPERS)
