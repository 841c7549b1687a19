# SPDX-License-Identifier: Apache-2.0
"""Running sums."""

from __future__ import annotations

import numpy as np
from builders.onnx_models import IMAGE, Layer, unary
from random_builder import Builder
from random_onnx import OperatorNetwork
from vmcu_tools.graph import Tensor
from vmcu_tools.ops.cum_sum import CumSum
from vmcu_tools.quant import FloatScale


def layer(b: Builder) -> Tensor:
    x = b.input((b.pick(1, 3), b.pick(1, 4), b.pick(1, 2, 9, 64)))
    scale = FloatScale(b.rng.uniform(0.02, 1.5, 1).astype(np.float32))
    exclusive, reverse = (bool(b.rng.random() < 0.5) for _ in range(2))
    return b.node(CumSum(scale, exclusive, reverse, **b.limits()), [x], x.shape)


def sums(axis: int, **attributes: int) -> Layer:
    return unary("CumSum", 3.0, [np.int64(axis)], **attributes)


CASES = {
    "running sums of channels": (IMAGE, sums(1)),
    "running sums of rows, exclusive": (IMAGE, sums(2, exclusive=1)),
    "running sums from the end": ((1, 7, 12), sums(-1, reverse=1)),
    "running sums from the end, exclusive": ((3, 20), sums(1, exclusive=1, reverse=1)),
}


def drawn(n: OperatorNetwork, domain: str, op: str) -> list[str]:
    shape = n.any_shape()
    axis = n.constant(np.array(n.axis(len(shape))))
    more = {"exclusive": n.pick(0, 1), "reverse": n.pick(0, 1)}
    return [n.node(op, [n.input(shape), axis], **more)]


DRAWERS = {"CumSum": drawn}
