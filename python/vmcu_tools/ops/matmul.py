# SPDX-License-Identifier: Apache-2.0
"""Products of two matrices of activations."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op
from ..kernels.programs import PROGRAMS
from ..quant import Requant, requantize, wrap_int32
from .binding import Binding
from .kernel_type import KernelType
from .layer import ProgramLayer
from .product import PRODUCT, product_fields
from .rates import Rates
from .values import CStruct

PARAMS = CStruct("vmcu_matmul_params", f"struct {PRODUCT.name} product;")
KernelType("vmcu_matmul", PARAMS, check="vmcu_check_matmul(c)")
KernelType("vmcu_matmul_transposed", PARAMS, check="vmcu_check_matmul_transposed(c)")


@dataclass(frozen=True, eq=False)
class MatMul(Op):
    """The op that multiplies two matrices for every y, input 0 (H, M, K) by input 1 (H, K, N),
    or (H, N, K) if `transposed`: requant.apply(sum of (qa - za)(qb - zb)) + zo, one factor."""

    clamps = True

    requant: Requant
    transposed: bool = False


class MatMulLayer(ProgramLayer[MatMul], op=MatMul):
    can_descend = False
    rates = Rates(call=900, mac=5.6, byte=65, floating=65)

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        op, zero = self.op, self.out.zero_point
        pairs = zip(self.ins, data, strict=True)
        a, b = (values[y0:y1].astype(np.int64) - tensor.zero_point for tensor, values in pairs)
        acc = wrap_int32(a @ (b.swapaxes(1, 2) if op.transposed else b))
        return requantize(acc, op.requant, zero, op.act_min, op.act_max)

    def input_rows(self, index: int, y: int) -> range:
        return range(y, y + 1)

    @functools.cached_property
    def binding(self) -> Binding:
        zeros = self.ins[0].zero_point, self.ins[1].zero_point
        output = self.out.zero_point, self.op.act_min, self.op.act_max
        fields = product_fields(self.op.requant, zeros, output, self.ins[0].shape[2])
        name = "vmcu_matmul_transposed" if self.op.transposed else "vmcu_matmul"
        return Binding(PROGRAMS[name], {f"product.{key}": n for key, n in fields.items()})

    @property
    def macs(self) -> int:
        return self.ins[0].bytes * self.out.shape[2]
