# SPDX-License-Identifier: Apache-2.0
"""Dense layers to int16, and filters of int16 elements."""

from __future__ import annotations

import numpy as np
from random_builder import Builder
from vmcu_tools.graph import Tensor, Window
from vmcu_tools.ops.svdf import DenseInt16, FilterInt16


def layer(b: Builder) -> Tensor:
    return filters(b) if b.rng.random() < 0.5 else dense(b)


def dense(b: Builder) -> Tensor:
    height, width, depth, count = b.pick(1, 3), b.pick(1, 4), b.pick(1, 3, 8, 13), b.pick(1, 2, 9)
    x = b.input((height, width, depth))
    op = DenseInt16(b.weights(count, depth), b.factor(0.3, 30.0))
    return b.node(op, [x], (height, width, 2 * count))


def filters(b: Builder) -> Tensor:
    count, rank, memory = b.pick(1, 2, 9), b.pick(1, 1, 2, 3), b.pick(1, 2, 5)
    height, pad = b.pick(memory, memory + 1, memory + 6), b.pick(0, memory - 1)
    window = Window((memory, 1), (b.pick(1, 1, 2), 1), (1, 1), (pad, 0, 0, 0))
    x = b.input((height, 1, 2 * count * rank))
    weights = b.rng.integers(-1500, 1501, (count, memory, rank)).astype(np.int16)
    bias = b.rng.integers(-(10**8), 10**8, count).astype(np.int32)
    op = FilterInt16(weights, bias, window, b.factor(2.0**-22, 2.0**-17), **b.limits())
    return b.node(op, [x], (window.out_size(0, height), 1, count))
