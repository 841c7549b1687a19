# SPDX-License-Identifier: Apache-2.0
"""All instructions, each with its meaning and with C99 that any core runs."""

from __future__ import annotations

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

__all__ = ["COMPOUND", "INSTRUCTIONS", "blocks", "blocks_all", "dense", "depthwise", "grouped"]
__all__ += ["places", "pooling", "products", "strips", "sums", "tile"]
