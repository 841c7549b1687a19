# SPDX-License-Identifier: Apache-2.0
"""Attention over all rows, and over a window of them as of a cache."""

from __future__ import annotations

from typing import Any

import numpy as np
from random_builder import Builder
from vmcu_tools.graph import Tensor, Window
from vmcu_tools.ops.attention import Attention
from vmcu_tools.ops.softmax import Softmax


def layer(b: Builder) -> Tensor:
    rows, seen = b.pick(1, 2, 5), b.pick(1, 2, 5, 8, 9)
    kept, sharing = b.pick(1, 1, 2, 3), b.pick(1, 1, 2)
    depth, width = b.pick(1, 3, 4, 8, 9), b.pick(1, 3, 4, 8, 9)
    heads, moves, shares = kept * sharing, b.rng.random() < 0.5, softmax(b)
    window = Window((seen, 1), (0, 1))
    if moves:
        window = Window((seen, 1), pad=(seen - 1, 0, 0, 0))
    found = between(b, heads, 1 if moves else rows, seen)
    op = Attention(
        heads,
        sharing,
        window,
        b.matrix_product(depth),
        int(b.rng.integers(-128, 128)),
        shares,
        int(b.rng.integers(-128, 128)) if shares.exact_shares else -128,
        b.matrix_product(seen),
        **found,
        **b.limits(),
    )
    count = rows if moves else seen
    inputs = [(rows, 1, heads * depth), (count, 1, kept * depth), (count, 1, kept * width)]
    if "sum" in found and "score_bias" not in found:
        each = seen * int(b.rng.choice([1, heads]))
        mask = (rows if moves else int(b.rng.choice([1, rows])), 1, each)
        inputs.append(mask if op.mask_pad is None else (count, 1, 1))
    return b.node(op, [b.input(shape) for shape in inputs], (rows, 1, heads * width))


def softmax(b: Builder) -> Softmax:
    if b.rng.random() < 0.5:
        return Softmax(b.exponentials(31), False)
    return Softmax(b.exponentials(23), True, float(b.rng.choice([1 / 256, 1 / 255, 0.01])))


def between(b: Builder, heads: int, rows: int, seen: int) -> dict[str, Any]:
    """What may be between the product and softmax."""
    found: dict[str, Any] = {}
    if b.rng.random() < 0.5:
        found["table"] = np.sort(b.weights(256))
    if b.rng.random() < 0.5:
        shape = int(b.rng.choice([1, heads])), int(b.rng.choice([1, rows])), seen
        found |= {"score_bias": b.weights(*shape), "sum": b.float_sum()}
    elif b.rng.random() < 0.7:
        pad = int(b.rng.integers(-128, 128)) if b.rng.random() < 0.5 else None
        found |= {"mask_pad": pad, "sum": b.float_sum()}
    return found
