# SPDX-License-Identifier: Apache-2.0
"""All instructions, each with its meaning and with C99 that any core runs."""

from __future__ import annotations

from ...language.packing import NIBBLES, WORDS
from ...language.target import Costs, Target
from . import (
    blocks,
    blocks_all,
    dense,
    depthwise,
    grouped,
    places,
    pooling,
    products,
    strips,
    sums,
    tile,
)
from .registry import COMPOUND, INSTRUCTIONS

__all__ = ["COMPOUND", "COSTS", "INSTRUCTIONS", "INT4", "PORTABLE"]
__all__ += ["blocks", "blocks_all", "dense", "grouped", "products", "strips", "sums"]

# Measured on a Cortex-M4 with its own instructions.
COSTS = Costs(
    mac=1.4,
    mac_direct=0.15,
    mac_depthwise=4.0,
    call=440,
    call_window=1000,
    call_strip=1100,
    call_strip_channel=40,
    layer=250,
    block=4,
    strip=6,
)
HELPERS = {
    **tile.HELPERS,
    **blocks.HELPERS,
    **dense.HELPERS,
    **depthwise.HELPERS,
    **strips.HELPERS,
    **places.HELPERS,
    **pooling.HELPERS,
}
INT4 = Target("portable_int4", "Portable C99", "1", NIBBLES, COSTS, {}, HELPERS)
PORTABLE = Target("portable", "Portable C99", "1", WORDS, COSTS, {}, HELPERS, int4=INT4)
