# SPDX-License-Identifier: Apache-2.0
"""The steps of training."""

from __future__ import annotations

from random_builder import Builder
from vmcu_tools.graph import Tensor
from vmcu_tools.ops.trainable import row_bytes
from vmcu_tools.ops.training import ClassError, DenseUpdate
from vmcu_tools.quant import FixedPoint


def class_error(b: Builder) -> Tensor:
    classes = b.pick(1, 2, 5, 127)
    # A label is random, so that most of 127 classes have one, and few of 5.
    return b.node(
        ClassError(), [b.input((1, 1, 2 * classes)), b.input((1, 1, 1))], (1, 1, 2 * classes)
    )


def dense_update(b: Builder) -> Tensor:
    x, outputs = b.input((b.pick(1, 1, 2), b.pick(1, 1, 3), b.pick(1, 3, 8))), b.pick(1, 2, 7)
    errors, weights = b.input((1, 1, 2 * outputs)), b.input((outputs, 1, row_bytes(x.bytes)))
    factors = FixedPoint.of(b.rng.choice([0, 1e-4, 0.01, 1, 100], 1)), b.factor(1e-3, 2.0**14)
    op = DenseUpdate(*factors, b.pick(0, 300, 2**15 - 1))
    return b.node(op, [weights, errors, x], weights.shape)


def layer(b: Builder) -> Tensor:
    return class_error(b) if b.rng.random() < 0.4 else dense_update(b)


CASES = {}
DRAWERS = {}
