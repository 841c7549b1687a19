# SPDX-License-Identifier: Apache-2.0
"""Layers whose output bytes depend on the input's of the same place, or of its pixel."""

from __future__ import annotations

import numpy as np

from ..graph import Op
from .layer import Layer, OpT
from .reach import Reach


class OwnPixelLayer(Layer[OpT]):
    """Each output pixel depends on the input pixels at its own place alone."""

    by_columns = True

    @property
    def by_rows(self) -> bool:
        return True

    @property
    def transposed(self) -> Op | None:
        return self.op

    def input_rows(self, index: int, y: int) -> range:
        return range(y, y + 1)

    def reach(self, index: int) -> Reach:
        return Reach.shifted()


class PixelwiseLayer(OwnPixelLayer[OpT]):
    """Output byte i depends on input byte i of every input alone, or on its pixel."""

    def reads_in_call(self, index: int, x: int, columns: int) -> np.ndarray | None:
        tensor = self.ins[index]
        return np.arange(tensor.row_bytes, dtype=np.int64).reshape(tensor.shape[1:])

    def writes_in_call(self, x: int, columns: int) -> np.ndarray | None:
        return np.arange(self.out.row_bytes, dtype=np.int64).reshape(self.out.shape[1:])

    def last_reads(self, index: int) -> np.ndarray:
        return np.arange(self.ins[index].bytes, dtype=np.int64).reshape(self.ins[index].shape)
