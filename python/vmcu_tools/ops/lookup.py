# SPDX-License-Identifier: Apache-2.0
"""Functions of one value, by a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import Op
from ..quant import INT8_MIN
from .interval import Interval
from .kernel_type import ALIKE, KernelType
from .pixelwise import PixelwiseLayer
from .values import Array, CStruct, Kernel

PARAMS = CStruct(
    "vmcu_lookup_params",
    """
	const int8_t *table; /**< 256 results, for the inputs -128 to 127 */
""",
    declares="""
/** @brief Applies a table to each byte. For each byte, ascending: reads, then writes. */
void vmcu_lookup(const struct vmcu_call *call);
""",
)
KERNEL = KernelType(
    "vmcu_lookup",
    PARAMS,
    ALIKE,
    reads="PIXEL",
    arrays={"table": "VMCU_TABLE_ENTRIES"},
)


@dataclass(frozen=True, eq=False)
class Lookup(Op):
    """Any function of one value: out = table[q + 128], table int8 (256,)."""

    elementwise = True
    tabulated = True
    # Results half way between two bytes, see doc/models.md.
    differing_share = 0.02

    table: np.ndarray

    def clamped(self, low: int, high: int) -> Op:
        return replace(self, table=np.clip(self.table, low, high))


def images_of(table: np.ndarray, source: Interval) -> Interval:
    """Returns the range of a table, int8 (256,), for the bytes that a tensor can have."""
    # Channels may be many, their pairs of bytes are not.
    codes = (source.low - INT8_MIN) * 256 + source.high - INT8_MIN
    pairs, which = np.unique(codes, return_inverse=True)
    parts = [table[pair // 256 : pair % 256 + 1] for pair in pairs.tolist()]
    ends = np.array([[part.min(), part.max()] for part in parts], np.int64).reshape(-1, 2)
    return Interval(*ends[which.ravel()].T)


class LookupLayer(PixelwiseLayer[Lookup], op=Lookup):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        return self.op.table[data[0][y0:y1].astype(np.int64) - INT8_MIN]

    def interval(self, ins: Sequence[Interval]) -> Interval:
        return images_of(self.op.table, ins[0])

    @property
    def weight_bytes(self) -> int:
        return self.op.table.size

    @property
    def kernel(self) -> Kernel:
        return KERNEL(table=Array("table", self.op.table.astype(np.int8)))
