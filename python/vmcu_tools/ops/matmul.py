# SPDX-License-Identifier: Apache-2.0
"""Products of two matrices of activations."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op
from ..kernels.programs import PROGRAMS
from ..quant import Requant
from .kernel_type import KernelType
from .layer import Binding
from .product import ProductLayer
from .values import CStruct

PARAMS = CStruct("vmcu_matmul_params", "struct vmcu_product product;")
KernelType("vmcu_matmul", PARAMS, check="vmcu_check_matmul(c)")
KernelType("vmcu_matmul_transposed", PARAMS, check="vmcu_check_matmul_transposed(c)")


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
