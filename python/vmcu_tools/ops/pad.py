# SPDX-License-Identifier: Apache-2.0
"""Constant padding.

Order of access: output bytes in ascending order, each read just before it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import Op, Scaled, Shape, Shapes
from .kernel_type import ONE_INPUT, KernelType
from .layer import NEVER, Layer
from .reach import Reach
from .values import CStruct, Kernel

PARAMS = CStruct("vmcu_pad_params", "int16_t top, left, before; int8_t value;")
KERNEL = KernelType("vmcu_pad", PARAMS, ONE_INPUT, reads="PADDED")


@dataclass(frozen=True, eq=False)
class Pad(Op):
    """Constant padding, amounts ((top, bottom), (left, right), (before, after)) over H, W, C;
    negative ones leave out so much of the input."""

    exact = monotone = True

    amounts: tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
    value: int

    @property
    def by_channel(self) -> bool:
        return self.amounts[2] == (0, 0)

    def scaled(self, ins: Shapes, was: Shapes, out: Shape, channels: int) -> Scaled | None:
        sizes = zip(ins[0], self.amounts, strict=True)
        height, width, depth = (size + sum(amount) for size, amount in sizes)
        return self, (height, width, depth)


class PadLayer(Layer[Pad], op=Pad):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        inside, taken = self._parts()
        full = np.full(self.out.shape, self.op.value, np.int8)
        full[inside] = data[0][taken]
        return full[y0:y1]

    def _parts(self) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """The part of the output that is of the input, and of the input that the output has."""
        inside, taken = [], []
        sizes = zip(self.op.amounts, self.ins[0].shape, self.out.shape, strict=True)
        for (before, _), size, made in sizes:
            start, stop = max(before, 0), min(before + size, made)
            inside.append(slice(start, stop))
            taken.append(slice(start - before, stop - before))
        return tuple(inside), tuple(taken)

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
        inside, taken = self._parts()
        ticks = np.full(self.ins[0].shape, NEVER, np.int64)
        ticks[taken] = self.writes()[inside]
        return ticks

    @property
    def kernel(self) -> Kernel:
        (top, _), (left, _), (before, _) = self.op.amounts
        return KERNEL(top=top, left=left, before=before, value=self.op.value)
