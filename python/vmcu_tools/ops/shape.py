# SPDX-License-Identifier: Apache-2.0
"""Layers that move bytes: pad, reshape, concatenation.

Order of access: output bytes in ascending order, each read just before it is written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..graph import Concat, Pad, Reshape
from ..quant import INT8_MIN
from .layer import Layer, Reach


class PadLayer(Layer[Pad]):
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

    def input_rows(self, index: int, y: int) -> range:
        row = y - self.op.amounts[0][0]
        return range(row, row + 1) if 0 <= row < self.ins[0].shape[0] else range(0)

    def reach(self, index: int) -> Reach:
        return Reach.shifted(self.op.amounts[0][0], self.op.amounts[1][0])

    def last_reads(self, index: int) -> np.ndarray:
        return self.writes()[self._inner()]


class ReshapeLayer(Layer[Reshape]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        return data[0].reshape(self.out.shape)[y0:y1]

    def input_rows(self, index: int, y: int) -> range:
        first = y * self.out.row_bytes // self.ins[0].row_bytes
        last = ((y + 1) * self.out.row_bytes - 1) // self.ins[0].row_bytes
        return range(first, last + 1)

    def last_reads(self, index: int) -> np.ndarray:
        return np.arange(self.ins[0].bytes, dtype=np.int64).reshape(self.ins[0].shape)


class ConcatLayer(Layer[Concat]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        parts = []
        for values, table in zip(data, self.op.tables, strict=True):
            places = values.astype(np.int64) - INT8_MIN
            parts.append(values if table is None else table[places])
        return np.concatenate(parts, axis=self.op.axis)[y0:y1]

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

    def last_reads(self, index: int) -> np.ndarray:
        start = self._start(index)
        where = [slice(None)] * 3
        where[self.op.axis] = slice(start, start + self.ins[index].shape[self.op.axis])
        return self.writes()[tuple(where)]
