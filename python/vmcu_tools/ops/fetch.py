# SPDX-License-Identifier: Apache-2.0
"""Columns of an input that lies where the caller has it, copied into the pool as they are needed.

Order of access: nothing of the pool is read; output bytes in ascending order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import Op
from .layer import Layer
from .values import CStruct, Kernel

PARAMS = CStruct(
    "vmcu_fetch_params",
    """
	uint16_t width; /**< columns of the input */
	uint16_t first; /**< first column of the output */
""",
    declares="""
/**
 * @brief Copies columns of the external input, see vmcu_set_input().
 *
 * Reads no bytes of the pool.
 */
void vmcu_fetch(const struct vmcu_call *call);
""",
)


@dataclass(frozen=True, eq=False)
class Fetch(Op):
    """Columns of graph input `fetches` from column `first` on, as many as the output has, in all
    of its rows. The node has no inputs: its data is not in the pool."""

    exact = True

    fetches: str
    first: int = 0

    def of_columns(self, first: int) -> Fetch:
        return replace(self, first=self.first + first)


class FetchLayer(Layer[Fetch], op=Fetch):
    by_columns = True

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        columns = self.fetched
        return data[0][y0:y1, columns.start : columns.stop]

    def input_rows(self, index: int, y: int) -> range:
        return range(y, y + 1)

    def last_reads(self, index: int) -> np.ndarray:
        raise AssertionError("a fetch has no input in the pool")

    @property
    def fetched(self) -> range:
        return range(self.op.first, self.op.first + self.out.shape[1])

    @property
    def kernel(self) -> Kernel:
        assert self.outside is not None
        return Kernel("vmcu_fetch", PARAMS(width=self.outside.shape[1], first=self.op.first))
