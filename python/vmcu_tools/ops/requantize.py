# SPDX-License-Identifier: Apache-2.0
"""Another scale, zero point or range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import REQUANTISERS, Op
from ..quant import FixedPoint
from .kernel_type import ALIKE, KernelType
from .pixelwise import PixelwiseLayer
from .values import CStruct, Kernel, factor

PARAMS = CStruct(
    "vmcu_requantize_params",
    "struct vmcu_factor factor; bool rescale;int8_t input_zero, output_zero, act_min, act_max;",
)
KERNEL = KernelType("vmcu_requantize", PARAMS, ALIKE, reads="PIXEL")


@dataclass(frozen=True, eq=False)
class Requantize(Op):
    """Another scale, zero point or range for the same values: Quantize int8 to int8, stand-alone
    Relu and Clip. requant.apply(q - zi) + zo; None: the scale stays, only the clamp applies."""

    clamps = elementwise = monotone = True
    differing_share = 0.0
    always_has = frozenset(REQUANTISERS.values())

    requant: FixedPoint | None


class RequantizeLayer(PixelwiseLayer[Requantize], op=Requantize):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0][y0:y1].astype(np.int64)
        if self.op.requant is not None:
            values = self.op.requant.apply(values - self.ins[0].zero_point) + self.out.zero_point
        return self.clamp(values)

    @property
    def kernel(self) -> Kernel:
        fields = {} if self.op.requant is None else {"factor": factor(self.op.requant)}
        rescale = self.op.requant is not None
        return KERNEL(**fields, rescale=rescale, **self.zeros, **self.bounds)
