# SPDX-License-Identifier: Apache-2.0
"""Elements of several bytes."""

from __future__ import annotations

from random_builder import Builder
from vmcu_tools.graph import Tensor
from vmcu_tools.ops.wide import RequantizeWide, SoftmaxInt16

WIDTHS = ((2, 1), (2, 2), (2, 4), (1, 2), (1, 4))


def layer(b: Builder) -> Tensor:
    height, width, count = b.pick(1, 3), b.pick(1, 4), b.pick(1, 2, 9, 64)
    if b.rng.random() < 0.3:
        x = b.input((height, width, count))
        return b.node(SoftmaxInt16(b.exponentials(31)), [x], (height, width, 2 * count))
    given, made = WIDTHS[b.pick(*range(len(WIDTHS)))]
    # int16 spreads over the output and beyond it, or over little of it.
    low, high = (2.0 ** (8 * (made - given) + more) for more in (-5, 1))
    x = b.input((height, width, count * given))
    op = RequantizeWide(b.factor(low, high), given, made)
    return b.node(op, [x], (height, width, count * made))
