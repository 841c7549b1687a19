# SPDX-License-Identifier: Apache-2.0
"""The kernels, each written once, for any layout of flash streams."""

from __future__ import annotations

import functools

from ..language.ir import Program
from ..language.layout import WORDS, Layout
from . import add, conv, dense, depthwise, pooling, products


def files_of(layout: Layout) -> dict[str, list[Program]]:
    """The programs of each generated C file that read a layout, by its name."""
    return {
        f"conv{layout.suffix}": [conv.pointwise(layout), conv.conv(layout)],
        f"dense{layout.suffix}": [dense.dense(layout)],
        f"depthwise{layout.suffix}": depthwise.programs(layout),
    }


# Those without weights, which are one for all layouts.
COMMON = {"products": products.PROGRAMS, "add": add.PROGRAMS, "pooling": pooling.PROGRAMS}


@functools.cache
def programs(layout: Layout) -> dict[str, Program]:
    """All programs by their C names without the layout's suffix."""
    groups = (*files_of(layout).values(), *COMMON.values())
    return {p.symbol.removesuffix(layout.suffix): p for group in groups for p in group}


PROGRAMS = programs(WORDS)
