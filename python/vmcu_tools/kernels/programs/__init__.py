# SPDX-License-Identifier: Apache-2.0
"""The kernels, each written once, for any packing of flash streams."""

from __future__ import annotations

import functools

from ..language.ir import Program
from ..language.packing import WORDS, Packing
from . import add, conv, dense, depthwise, pooling, products


def files_of(packing: Packing) -> dict[str, list[Program]]:
    """The programs of each generated C file that read a packing, by its name."""
    return {
        f"conv{packing.suffix}": [conv.pointwise(packing), conv.conv(packing)],
        f"dense{packing.suffix}": [dense.dense(packing)],
        f"depthwise{packing.suffix}": depthwise.programs(packing),
    }


# Those without weights, which are one for all layouts.
COMMON = {"products": products.PROGRAMS, "add": add.PROGRAMS, "pooling": pooling.PROGRAMS}


@functools.cache
def programs(packing: Packing) -> dict[str, Program]:
    """All programs by their C names without the packing's suffix."""
    groups = (*files_of(packing).values(), *COMMON.values())
    return {p.symbol.removesuffix(packing.suffix): p for group in groups for p in group}


PROGRAMS = programs(WORDS)
