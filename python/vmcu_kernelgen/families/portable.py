# SPDX-License-Identifier: Apache-2.0
"""Portable C99: functions for the bodies of instructions."""

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

from ..family import Family, int4_of

HELPERS = {
    **tile.HELPERS,
    **blocks.HELPERS,
    **dense.HELPERS,
    **depthwise.HELPERS,
    **strips.HELPERS,
    **places.HELPERS,
    **pooling.HELPERS,
}
INT4 = Family(int4_of(TARGET), {}, HELPERS)
PORTABLE = Family(TARGET, {}, HELPERS)
