# SPDX-License-Identifier: Apache-2.0
"""Self-attention."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op
from ..kernels.programs import PROGRAMS
from ..kernels.softmax import softmax_tflite
from ..quant import INT8_MAX, INT8_MIN, FixedPoint, requantize, wrap_int32
from .kernel_type import KernelType
from .layer import Binding
from .product import ProductLayer
from .values import CStruct

WEIGHTS_ZERO = INT8_MIN
PARAMS = CStruct("vmcu_attention_params", "const void *stream; struct vmcu_product scores, output;")
KernelType("vmcu_attention", PARAMS, check="vmcu_check_attention(c)")


@dataclass(frozen=True, eq=False)
class Attention(Op):
    """For every y softmax(q k^T) v of inputs q (H, M, D), k (H, T, D) and v (H, T, N).

    `scores` brings q k^T to the scale that the table `exp` is for, which is Softmax's without
    `exact_shares`; weights have scale 1/256 and zero point -128; `requant` brings weights times v
    to the output's scale.
    """

    clamps = True

    scores: FixedPoint
    exp: np.ndarray
    requant: FixedPoint


class AttentionLayer(ProductLayer[Attention], op=Attention):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        queries, keys, values = self.centred(data, y0, y1)
        op = self.op
        acc = wrap_int32(queries @ keys.swapaxes(1, 2))
        # Softmax knows differences only: scores have the zero point 0.
        scores = requantize(acc, op.scores, 0, INT8_MIN, INT8_MAX)
        weights = softmax_tflite(scores.astype(np.int64), op.exp) - WEIGHTS_ZERO
        return self.finish(weights @ values, op.requant)

    @functools.cached_property
    def binding(self) -> Binding:
        q, k, v = (tensor.zero_point for tensor in self.ins)
        op = self.op
        fields = self.product("scores", op.scores, (q, k), 0)
        fields |= self.product("output", op.requant, (WEIGHTS_ZERO, v))
        stream = op.exp.astype(np.uint32).tobytes()
        return Binding(PROGRAMS["vmcu_attention"], fields, stream, self.between)

    @property
    def between(self) -> int:
        return self.ins[1].shape[1]

    @property
    def weight_bytes(self) -> int:
        return self.op.exp.size * 4
