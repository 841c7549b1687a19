# SPDX-License-Identifier: Apache-2.0
"""Rows of a table, by numbers that the caller gives: the embeddings of tokens.

Order of access: the four bytes of a pixel are read, then its channels are written, ascending.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import Op
from .kernel_type import ONE_INPUT, KernelType
from .pixelwise import OwnPixelLayer
from .values import Array, CStruct, Kernel

# So that rows times channels fit 32 bits.
MOST_ROWS = 0xFFFF
PARAMS = CStruct(
    "vmcu_embedding_params",
    """
	const int8_t *table; /**< rows * the output's channels */
	uint32_t rows;
""",
    declares="""
/**
 * @brief Copies the row of a table that an int32 in four input channels names.
 *
 * A negative number counts from the last row, -1. Numbers beyond the first or last row name that
 * row. For each pixel: reads four bytes, the least significant one first, then writes all channels.
 */
void vmcu_embedding(const struct vmcu_call *call);
""",
)
KERNEL = KernelType(
    "vmcu_embedding",
    PARAMS,
    ONE_INPUT,
    "vmcu_check_columns(c, 0)",
    "vmcu_check_input(c, 0)->channels == sizeof(uint32_t)",
    reads="PIXEL",
    limits={"rows": (1, MOST_ROWS)},
    arrays={"table": "p->rows * vmcu_check_output(c)->channels"},
)


@dataclass(frozen=True, eq=False)
class Embedding(Op):
    """The op that selects rows of `table`, int8 (rows, channels), by the numbers of the input,
    each an int32 in four channels. ONNX, operator Gather."""

    data_dependent = "the alignment of the row; up to 1.1 times as many"
    exact = True

    table: np.ndarray

    def clamped(self, low: int, high: int) -> Op:
        return replace(self, table=np.clip(self.table, low, high))


class EmbeddingLayer(OwnPixelLayer[Embedding], op=Embedding):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        numbers = np.ascontiguousarray(data[0][y0:y1]).view("<i4")[..., 0].astype(np.int64)
        count = len(self.op.table)
        numbers = np.where(numbers < 0, numbers + count, numbers)
        return self.op.table[np.clip(numbers, 0, count - 1)]

    def last_reads(self, index: int) -> np.ndarray:
        return np.broadcast_to(self.writes()[:, :, :1], self.ins[0].shape)

    @property
    def weight_bytes(self) -> int:
        return self.op.table.size

    @property
    def kernel(self) -> Kernel:
        table = Array("table", self.op.table.astype(np.int8))
        return KERNEL(table=table, rows=len(self.op.table))
