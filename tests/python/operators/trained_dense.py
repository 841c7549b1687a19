# SPDX-License-Identifier: Apache-2.0
"""A dense layer whose weights are a tensor."""

from __future__ import annotations

from random_builder import Builder
from vmcu_tools.graph import Tensor
from vmcu_tools.ops.trainable import row_bytes
from vmcu_tools.ops.trained_dense import TrainedDense
from vmcu_tools.quant import FixedPoint


def layer(b: Builder) -> Tensor:
    x, outputs = b.input((b.pick(1, 1, 2), b.pick(1, 1, 3), b.pick(1, 3, 8))), b.pick(1, 2, 7)
    weights = b.input((outputs, 1, row_bytes(x.bytes)))
    # Of biases of any value.
    factor = FixedPoint.of([b.rng.uniform(1e-8, 2e-7)])
    return b.node(TrainedDense(factor, **b.limits()), [x, weights], (1, 1, outputs))
