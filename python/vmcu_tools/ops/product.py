# SPDX-License-Identifier: Apache-2.0
"""Layers that multiply activations with each other: matrix products, chains, self-attention."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from ..graph import Attention, MatMul, MatMulChain
from ..kernels.integer_scale import integer_scale
from ..kernels.programs import PROGRAMS
from ..kernels.softmax import softmax_tflite
from ..quant import INT8_MAX, INT8_MIN, FloatScale, Requant, requantize, wrap_int32
from .layer import Binding, OpT, ProgramLayer

WEIGHTS_ZERO = INT8_MIN


def scale_fields(requant: Requant, zero: int, depth: int) -> dict[str, int]:
    """The one factor of a product with sums of `depth` terms; of a float32 see integer_scale.py."""
    if isinstance(requant, FloatScale):
        reach = np.array([depth * (INT8_MAX - INT8_MIN) ** 2])
        found = integer_scale(np.ravel(requant.scale)[:1], zero, -reach, reach, False)
        return {"multiplier": int(found.multiplier[0]), "shift": int(found.word[0]), "is_float": 1}
    multiplier, shift = np.ravel(requant.multiplier)[0], np.ravel(requant.shift)[0]
    return {"multiplier": int(multiplier), "shift": int(shift), "is_float": 0}


class ProductLayer(ProgramLayer[OpT]):
    """Output row y depends on row y of every input: they are the matrices of a batch."""

    can_descend = False

    def input_rows(self, index: int, y: int) -> range:
        return range(y, y + 1)

    def centred(self, data: Sequence[np.ndarray], y0: int, y1: int) -> list[np.ndarray]:
        """q - zero_point of rows y0 .. y1-1 of every input, int64."""
        pairs = zip(self.ins, data, strict=True)
        return [values[y0:y1].astype(np.int64) - tensor.zero_point for tensor, values in pairs]

    def finish(self, acc: np.ndarray, requant: Requant) -> np.ndarray:
        """Accumulators to the output's int8."""
        zero = self.out.zero_point
        return requantize(wrap_int32(acc), requant, zero, self.op.act_min, self.op.act_max)

    def product(
        self, name: str, requant: Requant, zeros: tuple[int, int], output: int | None = None
    ) -> dict[str, int]:
        """struct vmcu_product; `output`: the zero point of a kept line, None for the output."""
        zero = self.out.zero_point if output is None else output
        values = {
            **scale_fields(requant, zero, self.ins[0].shape[2]),
            "x_zero": zeros[0],
            "y_zero": zeros[1],
            "output_zero": zero,
            "act_min": self.op.act_min if output is None else INT8_MIN,
            "act_max": self.op.act_max if output is None else INT8_MAX,
        }
        return {f"{name}.{key}": value for key, value in values.items()}

    @property
    def macs(self) -> int:
        """Of products by input 1 and, if there is one, input 2."""
        height, lines, depth = self.ins[0].shape
        return height * lines * (depth * self.between + self.between * self.last_columns)

    @property
    def between(self) -> int:
        """Columns of the first product."""
        return self.ins[1].shape[2]

    @property
    def last_columns(self) -> int:
        return self.ins[2].shape[2] if len(self.ins) > 2 else 0


class MatMulLayer(ProductLayer[MatMul]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        a, b = self.centred(data, y0, y1)
        return self.finish(a @ (b.swapaxes(1, 2) if self.op.transposed else b), self.op.requant)

    @functools.cached_property
    def binding(self) -> Binding:
        zeros = self.ins[0].zero_point, self.ins[1].zero_point
        name = "vmcu_matmul_transposed" if self.op.transposed else "vmcu_matmul"
        return Binding(PROGRAMS[name], self.product("product", self.op.requant, zeros))

    @property
    def between(self) -> int:
        return self.out.shape[2]


class MatMulChainLayer(ProductLayer[MatMulChain]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        a, b, c = self.centred(data, y0, y1)
        op = self.op
        kept = requantize(wrap_int32(a @ b), op.first, op.zero, INT8_MIN, INT8_MAX)
        return self.finish((kept.astype(np.int64) - op.zero) @ c, op.second)

    @functools.cached_property
    def binding(self) -> Binding:
        a, b, c = (tensor.zero_point for tensor in self.ins)
        op = self.op
        fields = self.product("first", op.first, (a, b), op.zero)
        fields |= self.product("second", op.second, (op.zero, c))
        return Binding(PROGRAMS["vmcu_matmul_chain"], fields, scratch_bytes=self.between)


class AttentionLayer(ProductLayer[Attention]):
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
