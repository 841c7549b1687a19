# SPDX-License-Identifier: Apache-2.0
"""Tensors one after the other.

Order of access: output bytes in ascending order, each read just before it is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import Op, Scaled, Shape, Shapes
from ..quant import INT8_MIN
from .interval import Interval
from .kernel_type import KernelType
from .layer import Layer
from .lookup import images_of
from .reach import Reach
from .values import Array, CStruct, Kernel, enumeration

AXES = ("VMCU_AXIS_HEIGHT", "VMCU_AXIS_WIDTH", "VMCU_AXIS_CHANNELS")
enumeration(AXES)
PARAMS = CStruct(
    "vmcu_concat_params", "const int8_t *tables; const int16_t *table_of; uint8_t axis;"
)
# In place of a table: the bytes of this input are copied.
COPY = -1
# Inputs that struct vmcu_layer has a bit for, which tells whether their rings split calls.
MOST_SPLIT = 7
KERNEL = KernelType("vmcu_concat", PARAMS, reads="JOINED", check="vmcu_check_concat(c)")


@dataclass(frozen=True, eq=False)
class Concat(Op):
    """Inputs one after the other along `axis` (0 H, 1 W, 2 C), of which the output may have less
    along H. tables has one, int8 (256,) as Lookup has it, for each input whose scale or zero point
    differs from the output's, None where bytes are copied."""

    axis: int
    tables: tuple[np.ndarray | None, ...]

    @property
    def by_channel(self) -> bool:
        return self.axis != 2

    def scaled(self, ins: Shapes, was: Shapes, out: Shape, channels: int) -> Scaled | None:
        others = {shape[: self.axis] + shape[self.axis + 1 :] for shape in ins}
        if len(others) > 1:
            return None
        joined = list(ins[0])
        joined[self.axis] = sum(shape[self.axis] for shape in ins)
        return self, (joined[0], joined[1], joined[2])


class ConcatLayer(Layer[Concat], op=Concat):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        parts = []
        for values, table in zip(data, self.op.tables, strict=True):
            places = values.astype(np.int64) - INT8_MIN
            parts.append(values if table is None else table[places])
        return np.concatenate(parts, axis=self.op.axis)[y0:y1]

    def interval(self, ins: Sequence[Interval]) -> Interval:
        pairs = zip(ins, self.op.tables, strict=True)
        parts = [one if table is None else images_of(table, one) for one, table in pairs]
        lows, highs = [part.low for part in parts], [part.high for part in parts]
        if self.op.axis == 2:
            return Interval(np.concatenate(lows), np.concatenate(highs))
        return Interval(np.min(lows, axis=0), np.max(highs, axis=0))

    @property
    def weight_bytes(self) -> int:
        return sum(table.size for table in self.op.tables if table is not None)

    def _start(self, index: int) -> int:
        return sum(tensor.shape[self.op.axis] for tensor in self.ins[:index])

    def input_rows(self, index: int, y: int) -> range:
        row = y - self._start(index) if self.op.axis == 0 else y
        return range(row, row + 1) if 0 <= row < self.ins[index].shape[0] else range(0)

    def reach(self, index: int) -> Reach:
        start = [0, 0, 0]
        start[self.op.axis] = self._start(index)
        return Reach.shifted(*start[:2])

    @property
    def by_columns(self) -> bool:
        return self.op.axis == 2 and len(self.ins) <= MOST_SPLIT

    @property
    def by_rows(self) -> bool:
        return self.op.axis != 0

    @property
    def transposed(self) -> Op | None:
        return replace(self.op, axis=(1, 0, 2)[self.op.axis])

    def last_reads(self, index: int) -> np.ndarray:
        start = self._start(index)
        where = [slice(None)] * 3
        where[self.op.axis] = slice(start, start + self.ins[index].shape[self.op.axis])
        return self.writes()[tuple(where)]

    @property
    def kernel(self) -> Kernel:
        tables: list[np.ndarray] = []
        table_of = []
        for table in self.op.tables:
            table_of.append(COPY if table is None else len(tables))
            tables += [] if table is None else [table.astype(np.int8)]
        if not tables:
            return KERNEL(axis=AXES[self.op.axis])
        parts = {
            "tables": Array("tables", np.concatenate(tables)),
            "table_of": Array("table_of", np.array(table_of, np.int16)),
        }
        return KERNEL(**parts, axis=AXES[self.op.axis])
