# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers with a scale for each group of weights."""

from __future__ import annotations

import numpy as np
from random_builder import Builder
from vmcu_tools.graph import Tensor
from vmcu_tools.ops.grouped import COARSE, FINE, GroupedDense
from vmcu_tools.quant import FloatScale


def layer(b: Builder) -> Tensor:
    groups, size = b.pick(1, 2, 5), b.pick(16, 32)
    x, cout = b.input((b.pick(1, 3), b.pick(1, 2, 4), groups * size)), b.pick(1, 3, 4, 10)
    fine = bool(b.rng.random() < 0.4)
    most = FINE if fine else COARSE
    weights = b.rng.integers(-8, 8, (cout, groups * size)).astype(np.int8)
    multipliers = b.rng.integers(0, most + 1, (cout, groups))
    typical = 60.0 / (75 * 4 * (most / (256 if fine else 1)) * np.sqrt(groups * size))
    scale = typical * np.exp(b.rng.uniform(-1.5, 1.5, cout))
    requant = FloatScale(scale.astype(np.float32))
    op = GroupedDense(weights, multipliers, b.bias(cout), requant, fine, **b.limits())
    return b.node(op, [x], (*x.shape[:2], cout))


CASES = {}
DRAWERS = {}
