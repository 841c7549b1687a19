# SPDX-License-Identifier: Apache-2.0
"""The same bytes in rows of another length.

Order of access: output bytes in ascending order, each read just before it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op, Scaled, Shape, Shapes
from .kernel_type import ONE_INPUT, KernelType
from .layer import Layer
from .values import Kernel

KERNEL = KernelType(
    "vmcu_reshape",
    None,
    ONE_INPUT,
    "vmcu_check_rows(c, 0)",
    "c->layer->columns == c->layer->width",
    "vmcu_check_bytes(vmcu_check_input(c, 0)) == vmcu_check_bytes(vmcu_check_output(c))",
)


@dataclass(frozen=True, eq=False)
class Reshape(Op):
    """The same bytes in NHWC order under another shape."""

    exact = relabels = monotone = True

    def scaled(self, ins: Shapes, was: Shapes, out: Shape, channels: int) -> Scaled | None:
        height, width, depth = ins[0]
        if out[:2] == (1, 1):
            return self, (1, 1, height * width * depth)
        return super().scaled(ins, was, out, channels)


class ReshapeLayer(Layer[Reshape], op=Reshape):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        return data[0].reshape(self.out.shape)[y0:y1]

    def input_rows(self, index: int, y: int) -> range:
        first = y * self.out.row_bytes // self.ins[0].row_bytes
        last = ((y + 1) * self.out.row_bytes - 1) // self.ins[0].row_bytes
        return range(first, last + 1)

    def last_reads(self, index: int) -> np.ndarray:
        return np.arange(self.ins[0].bytes, dtype=np.int64).reshape(self.ins[0].shape)

    @property
    def kernel(self) -> Kernel:
        return KERNEL()
