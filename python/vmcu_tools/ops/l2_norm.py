# SPDX-License-Identifier: Apache-2.0
"""Pixels brought to length one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op
from ..quant import fixed_point_multiply, inverse_square_root
from .kernel_type import ALIKE, KernelType
from .pixelwise import PixelwiseLayer
from .values import CStruct, Kernel

PARAMS = CStruct(
    "vmcu_l2_norm_params",
    """
	int8_t input_zero;
	int8_t act_min;
	int8_t act_max;
""",
    declares="""
/**
 * @brief Divides the channels of each pixel by the root of the sum of their squares. The output
 * scale is 1/128.
 *
 * For each pixel: reads all channels, then for each channel, ascending: reads it again and writes.
 */
void vmcu_l2_norm(const struct vmcu_call *call);
""",
)
KERNEL = KernelType("vmcu_l2_norm", PARAMS, ALIKE, reads="PIXEL")


@dataclass(frozen=True, eq=False)
class L2Norm(Op):
    """Each pixel's channels divided by the root of the sum of their squares, scale 1/128 and zero
    point 0. TensorFlow Lite, kernels/internal/reference/integer_ops/l2normalization.h."""

    data_dependent = "the division by the root; up to 1.2 times as many"
    clamps = True


class L2NormLayer(PixelwiseLayer[L2Norm], op=L2Norm):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0][y0:y1].astype(np.int64) - self.ins[0].zero_point
        squares = (values * values).sum(axis=2, keepdims=True)
        inverses = [inverse_square_root(int(v)) for v in squares.ravel()]
        multiplier, shift = (
            np.array(part).reshape(squares.shape) for part in zip(*inverses, strict=True)
        )
        # Times 2**7, as the output counts in 1/128.
        return self.clamp(fixed_point_multiply(values, multiplier, shift + 7))

    @property
    def kernel(self) -> Kernel:
        return KERNEL(input_zero=self.ins[0].zero_point, **self.bounds)
