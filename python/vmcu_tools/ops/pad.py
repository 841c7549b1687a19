# SPDX-License-Identifier: Apache-2.0
"""Constant padding.

Order of access: output bytes in ascending order, each read just before it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import Op, Shape
from .kernel_type import ONE_INPUT, KernelType
from .layer import Layer
from .reach import Reach
from .values import CStruct, Kernel

PARAMS = CStruct("vmcu_pad_params", "int16_t top, left, before; int8_t value;")
KERNEL = KernelType("vmcu_pad", PARAMS, ONE_INPUT, reads="PADDED")


@dataclass(frozen=True, eq=False)
class Pad(Op):
    """Constant padding, amounts ((top, bottom), (left, right), (before, after)) over H, W, C."""

    exact = monotone = True

    amounts: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
    value: int

    @property
    def by_channel(self) -> bool:
        return self.amounts[2] == (0, 0)

    def scaled(
        self, ins: Sequence[Shape], was: Sequence[Shape], out: Shape, channels: int
    ) -> tuple[Op, Shape] | None:
        sizes = zip(ins[0], self.amounts, strict=True)
        height, width, depth = (size + sum(amount) for size, amount in sizes)
        return self, (height, width, depth)


class PadLayer(Layer[Pad], op=Pad):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        full = np.full(self.out.shape, self.op.value, np.int8)
        full[self._inner()] = data[0]
        return full[y0:y1]

    def _inner(self) -> tuple[slice, ...]:
        starts = (before for before, _ in self.op.amounts)
        return tuple(
            slice(start, start + size)
            for start, size in zip(starts, self.ins[0].shape, strict=True)
        )

    @property
    def transposed(self) -> Op | None:
        rows, columns, channels = self.op.amounts
        return replace(self.op, amounts=(columns, rows, channels))

    def input_rows(self, index: int, y: int) -> range:
        row = y - self.op.amounts[0][0]
        return range(row, row + 1) if 0 <= row < self.ins[0].shape[0] else range(0)

    def reach(self, index: int) -> Reach:
        return Reach.shifted(self.op.amounts[0][0], self.op.amounts[1][0])

    def last_reads(self, index: int) -> np.ndarray:
        return self.writes()[self._inner()]

    @property
    def kernel(self) -> Kernel:
        (top, _), (left, _), (before, _) = self.op.amounts
        return KERNEL(top=top, left=left, before=before, value=self.op.value)
