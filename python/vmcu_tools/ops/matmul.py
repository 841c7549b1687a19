# SPDX-License-Identifier: Apache-2.0
"""Products of two matrices, and of three, of which the first exists line by line only."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op
from ..kernels.programs import PROGRAMS
from ..quant import INT8_MAX, INT8_MIN, FixedPoint, Requant, requantize, wrap_int32
from .kernel_type import KernelType
from .layer import Binding
from .product import ProductLayer
from .values import CStruct

PARAMS = CStruct("vmcu_matmul_params", "struct vmcu_product product;")
CHAIN_PARAMS = CStruct("vmcu_matmul_chain_params", "struct vmcu_product first, second;")
KernelType("vmcu_matmul", PARAMS, check="vmcu_check_matmul(c)")
KernelType("vmcu_matmul_transposed", PARAMS, check="vmcu_check_matmul_transposed(c)")
KernelType("vmcu_matmul_chain", CHAIN_PARAMS, check="vmcu_check_matmul_chain(c)")


@dataclass(frozen=True, eq=False)
class MatMul(Op):
    """For every y the product of two matrices, input 0 (H, M, K) by input 1 (H, K, N), or
    (H, N, K) if `transposed`: requant.apply(sum of (qa - za)(qb - zb)) + zo, one factor."""

    clamps = True

    requant: Requant
    transposed: bool = False


class MatMulLayer(ProductLayer[MatMul], op=MatMul):
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


@dataclass(frozen=True, eq=False)
class MatMulChain(Op):
    """Two matrix products, (input 0 by input 1) by input 2. What the first yields has the zero
    point `zero` and exists line by line only."""

    clamps = True

    first: FixedPoint
    second: FixedPoint
    zero: int


class MatMulChainLayer(ProductLayer[MatMulChain], op=MatMulChain):
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
