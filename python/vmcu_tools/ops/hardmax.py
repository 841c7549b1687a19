# SPDX-License-Identifier: Apache-2.0
"""One for the largest channel of each pixel, zero for the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op
from .kernel_type import ALIKE, KernelType
from .pixelwise import PixelwiseLayer
from .values import CStruct, Kernel

PARAMS = CStruct(
    "vmcu_hardmax_params",
    """
	int8_t one;  /**< output for the largest channel, the first of equal ones */
	int8_t zero; /**< output for the other channels */
""",
    declares="""
/**
 * @brief Marks the largest channel of each pixel.
 *
 * For each pixel: reads all channels, then for each channel, ascending: reads it again and writes.
 */
void vmcu_hardmax(const struct vmcu_call *call);
""",
)
KERNEL = KernelType("vmcu_hardmax", PARAMS, ALIKE, reads="PIXEL")


@dataclass(frozen=True, eq=False)
class Hardmax(Op):
    """`one` for the largest channel of each pixel, the first of several, `zero` for the others:
    int8, as the output's scale and zero point have these numbers. ONNX, operator Hardmax."""

    clamps = exact = True

    one: int
    zero: int


class HardmaxLayer(PixelwiseLayer[Hardmax], op=Hardmax):
    @property
    def values(self) -> tuple[int, int]:
        """Returns the outputs of the largest channel and of the others, within the fused
        activation."""
        one, zero = self.clamp(np.array([self.op.one, self.op.zero])).tolist()
        return one, zero

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0][y0:y1]
        largest = np.arange(values.shape[2]) == values.argmax(axis=2)[..., None]
        return np.where(largest, *self.values).astype(np.int8)

    @property
    def kernel(self) -> Kernel:
        one, zero = self.values
        return KERNEL(one=one, zero=zero)
