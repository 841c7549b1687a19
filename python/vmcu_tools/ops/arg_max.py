# SPDX-License-Identifier: Apache-2.0
"""The place of the largest or smallest channel of each pixel.

Order of access: a pixel is read as a whole, then its four bytes are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op
from .kernel_type import ONE_INPUT, KernelType
from .pixelwise import OwnPixelLayer
from .values import CStruct, Kernel

PARAMS = CStruct(
    "vmcu_arg_max_params",
    """
	bool smallest; /**< finds the smallest channel instead */
	bool last;     /**< returns the last of equal channels, else the first */
""",
    declares="""
/**
 * @brief Computes the index of the largest channel, an int32 in four output channels.
 *
 * For each pixel: reads all channels, then writes four bytes, the least significant one first.
 */
void vmcu_arg_max(const struct vmcu_call *call);
""",
)
KERNEL = KernelType(
    "vmcu_arg_max",
    PARAMS,
    ONE_INPUT,
    "vmcu_check_columns(c, 0)",
    "vmcu_check_output(c)->channels == sizeof(uint32_t)",
    reads="PIXEL",
)


@dataclass(frozen=True, eq=False)
class ArgMax(Op):
    """The channel with the largest value of each pixel, or the smallest if `smallest`; the first
    one of several, or the last one if `last`. The output's four channels are the bytes of an
    int32, least significant first."""

    exact = True

    smallest: bool = False
    last: bool = False


class ArgMaxLayer(OwnPixelLayer[ArgMax], op=ArgMax):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values = data[0][y0:y1].astype(np.int64)
        if self.op.smallest:
            values = -values
        if self.op.last:
            places = values.shape[2] - 1 - values[:, :, ::-1].argmax(axis=2)
        else:
            places = values.argmax(axis=2)
        return np.ascontiguousarray(places.astype("<i4")).view(np.int8).reshape(*places.shape, 4)

    def last_reads(self, index: int) -> np.ndarray:
        return np.broadcast_to(self.writes()[:, :, :1], self.ins[0].shape)

    @property
    def kernel(self) -> Kernel:
        return KERNEL(smallest=self.op.smallest, last=self.op.last)
