# SPDX-License-Identifier: Apache-2.0
"""Running sums over the channels of each pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op
from ..quant import FloatScale, float_bits, requantize
from .kernel_type import ALIKE, KernelType
from .pixelwise import PixelwiseLayer
from .values import CStruct, Kernel

PARAMS = CStruct(
    "vmcu_cum_sum_params",
    """
	int32_t scale;  /**< input scale over output scale, the bits of a float32 */
	bool exclusive; /**< without the channel itself */
	bool reverse;   /**< sums from the last channel on */
	int8_t input_zero;
	int8_t output_zero;
	int8_t act_min;
	int8_t act_max;
""",
    declares="""
/**
 * @brief Computes the sum of each channel and of those before it.
 *
 * For each pixel: reads all channels, then for each channel, ascending: reads it again and writes.
 */
void vmcu_cum_sum(const struct vmcu_call *call);
""",
)
KERNEL = KernelType("vmcu_cum_sum", PARAMS, ALIKE, reads="PIXEL")


@dataclass(frozen=True, eq=False)
class CumSum(Op):
    """The sum of each channel and of those before it, or behind it if `reverse`; `exclusive`: of
    these alone. requant: of sums without zero points. ONNX, operator CumSum."""

    clamps = monotone = True

    requant: FloatScale
    exclusive: bool = False
    reverse: bool = False


class CumSumLayer(PixelwiseLayer[CumSum], op=CumSum):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0][y0:y1].astype(np.int64) - self.ins[0].zero_point
        way = slice(None, None, -1 if self.op.reverse else 1)
        sums = values[..., way].cumsum(axis=2)[..., way]
        sums -= values if self.op.exclusive else 0
        zero = self.out.zero_point
        return requantize(sums, self.op.requant, zero, self.op.act_min, self.op.act_max)

    @property
    def kernel(self) -> Kernel:
        return KERNEL(
            scale=float_bits(self.op.requant.scale),
            exclusive=self.op.exclusive,
            reverse=self.op.reverse,
            **self.zeros,
            **self.bounds,
        )
