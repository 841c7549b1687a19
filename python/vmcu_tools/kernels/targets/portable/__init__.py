# SPDX-License-Identifier: Apache-2.0
"""All instructions, each with its meaning and with C99 that any core runs."""

from __future__ import annotations

from ...language.packing import WORDS
from ...language.target import Costs, Target
from . import dense, depthwise, places, pooling, products, square, sums, tile
from .registry import COMPOUND, INSTRUCTIONS

__all__ = ["COMPOUND", "COSTS", "INSTRUCTIONS", "PORTABLE", "dense", "products", "square"]

# Measured on a Cortex-M4 with its own instructions. Targets with this packing share them, so that
# a model's tables are the same for all of them.
COSTS = Costs(
    mac=1.9,
    mac_direct=0.4,
    mac_depthwise=3.0,
    call=240,
    call_window=700,
    call_strip=900,
    call_strip_channel=36,
    layer=100,
    block=4,
    strip=6,
)
HELPERS = {
    **tile.HELPERS,
    **depthwise.HELPERS,
    **places.HELPERS,
    **pooling.HELPERS,
    **sums.HELPERS,
}
PORTABLE = Target("portable", "Portable C99", "1", WORDS, COSTS, {}, HELPERS)
