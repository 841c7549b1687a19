# SPDX-License-Identifier: Apache-2.0
"""The steps of training."""

from __future__ import annotations

from random_builder import Builder
from vmcu_tools.graph import Tensor
from vmcu_tools.ops.trainable import row_bytes
from vmcu_tools.ops.training import ClassError, DenseGradient, DenseUpdate
from vmcu_tools.quant import FixedPoint


def class_error(b: Builder) -> Tensor:
    classes = b.pick(1, 2, 5, 127)
    # A label is random, so that most of 127 classes have one, and few of 5.
    return b.node(
        ClassError(), [b.input((1, 1, 2 * classes)), b.input((1, 1, 1))], (1, 1, 2 * classes)
    )


def dense_update(b: Builder) -> Tensor:
    x, outputs = b.input((b.pick(1, 1, 2), b.pick(1, 1, 3), b.pick(1, 3, 8))), b.pick(1, 2, 7)
    first = b.pick(0, 0, 3)
    errors = b.input((1, 1, 2 * (first + outputs)))
    weights = b.input((outputs, 1, row_bytes(x.bytes)))
    factors = FixedPoint.of(b.rng.choice([0, 1e-4, 0.01, 1, 100], 1)), b.factor(1e-3, 2.0**14)
    op = DenseUpdate(*factors, b.pick(0, 300, 2**15 - 1), first)
    return b.node(op, [weights, errors, x], weights.shape)


def dense_gradient(b: Builder) -> Tensor:
    values, outputs = b.input((1, 1, b.pick(1, 3, 8))), b.pick(1, 2, 7, 127)
    errors, weights = b.input((1, 1, 2 * outputs)), b.input((outputs, 1, row_bytes(values.bytes)))
    low, high = sorted(int(v) for v in b.rng.integers(-128, 128, 2))
    op = DenseGradient(b.factor(1e-5, 0.1), low, high)
    return b.node(op, [errors, weights, values], (1, 1, 2 * values.bytes))


def layer(b: Builder) -> Tensor:
    return (class_error, dense_update, dense_gradient)[b.pick(0, 1, 2)](b)
