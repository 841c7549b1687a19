# SPDX-License-Identifier: Apache-2.0
"""Functions of one value, by a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..graph import Lookup
from ..quant import INT8_MIN
from .elementwise import ElementwiseLayer


class LookupLayer(ElementwiseLayer[Lookup]):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        return self.op.table[data[0][y0:y1].astype(np.int64) - INT8_MIN]

    @property
    def weight_bytes(self) -> int:
        return self.op.table.size
