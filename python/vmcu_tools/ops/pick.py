# SPDX-License-Identifier: Apache-2.0
"""Bytes of each row, in any order.

Order of access: output bytes in ascending order, each read just before it is written.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op
from .kernel_type import KernelType
from .layer import NEVER, Layer
from .reach import Reach
from .values import Array, CStruct, Kernel

PARAMS = CStruct(
    "vmcu_pick_params",
    """
	const uint16_t *bytes; /**< of a row of the input: the first of each run */
	uint16_t run;          /**< bytes that are neighbours in input and output */
""",
    declares="""
/** @brief Copies bytes of each row. For each byte, ascending: reads, then writes. */
void vmcu_pick(const struct vmcu_call *call);
""",
)
MOST_ROW_BYTES = 0xFFFF
KERNEL = KernelType("vmcu_pick", PARAMS, reads="ROW", check="vmcu_check_pick(c)")


@dataclass(frozen=True, eq=False)
class Pick(Op):
    """Byte i of each row is byte places[i] of the input's row, int64."""

    exact = True

    places: np.ndarray


class PickLayer(Layer[Pick], op=Pick):
    by_rows = True

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        picked: np.ndarray = data[0][y0:y1].reshape(y1 - y0, -1)[:, self.op.places]
        return picked.reshape(y1 - y0, *self.out.shape[1:])

    def input_rows(self, index: int, y: int) -> range:
        return range(y, y + 1)

    def reach(self, index: int) -> Reach:
        return Reach((1, 0), (0, 0), (0, self.ins[0].shape[1] - 1))

    def last_reads(self, index: int) -> np.ndarray:
        last = np.full((self.ins[0].shape[0], self.ins[0].row_bytes), NEVER, np.int64)
        for place, ticks in zip(
            self.op.places, self.writes().reshape(len(last), -1).T, strict=True
        ):
            last[:, place] = ticks
        return last.reshape(self.ins[0].shape)

    @functools.cached_property
    def run(self) -> int:
        breaks = [int(i) + 1 for i in np.flatnonzero(np.diff(self.op.places) != 1)]
        return math.gcd(len(self.op.places), *breaks)

    @property
    def weight_bytes(self) -> int:
        return 2 * (len(self.op.places) // self.run)

    @property
    def kernel(self) -> Kernel:
        first = self.op.places[:: self.run].astype(np.uint16)
        return KERNEL(bytes=Array("bytes", first), run=self.run)
