# SPDX-License-Identifier: Apache-2.0
"""The kernels, each written once: by generated C file, those that read packed weights for any
packing, and those that are one for all packings. Packings with vectors have pooling and sums
of their own."""

from __future__ import annotations

import functools

from ..language.ir import Program
from ..language.packing import WORDS, Packing
from . import add, conv, dense, depthwise, grouped, pooling, products

PACKED = {
    "conv": conv.programs,
    "dense": dense.programs,
    "grouped": grouped.programs,
    "depthwise": depthwise.programs,
    "pooling": pooling.programs,
    "add": add.programs,
}
COMMON = {"products": products.PROGRAMS, "add": add.PROGRAMS, "pooling": pooling.PROGRAMS}


@functools.cache
def programs(packing: Packing) -> dict[str, Program]:
    """All programs by their C names without the packing's suffix."""
    groups = (*COMMON.values(), *(made(packing) for made in PACKED.values()))
    return {p.symbol.removesuffix(packing.suffix): p for group in groups for p in group}


PROGRAMS = programs(WORDS)
