# SPDX-License-Identifier: Apache-2.0
"""Another arrangement of the same bytes.

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
from .values import Array, CStruct, Kernel

PARAMS = CStruct(
    "vmcu_move_params",
    """
	const int32_t *rows;
	const int32_t *columns;
	const int32_t *channels;
	uint16_t run;
""",
    before="""
/**
 * Output byte (y, x, c) is byte rows[y] + columns[x] + channels[c / run] + c % run of the input.
 * The end of an input row splits no run.
 */
""",
    declares="""
/**
 * @brief Rearranges the bytes of the input. The pool must contain all of them.
 *
 * For each byte, ascending: reads, then writes.
 */
void vmcu_move(const struct vmcu_call *call);
""",
)
KERNEL = KernelType("vmcu_move", PARAMS, check="vmcu_check_move(c)")


@dataclass(frozen=True, eq=False)
class Move(Op):
    """Another arrangement of the same bytes: transposition, slicing, repetition, nearest
    neighbour and the like.

    out[y, x, c] is the input's byte number rows[y] + columns[x] + channels[c] in row-major order;
    int64 (H,), (W,), (C,) of the output. Scale and zero point are kept.
    """

    exact = True

    rows: np.ndarray
    columns: np.ndarray
    channels: np.ndarray

    @staticmethod
    def of(index: np.ndarray) -> Move | None:
        """Makes a move from the input byte of each output byte, int64 (H, W, C), if it has that
        form."""
        first = index[0, 0, 0]
        op = Move(index[:, 0, 0], index[0, :, 0] - first, index[0, 0, :] - first)
        return op if np.array_equal(op.index, index) else None

    @property
    def index(self) -> np.ndarray:
        """The input byte of each output byte, int64 (H, W, C)."""
        indices: np.ndarray = self.rows[:, None, None] + self.columns[None, :, None] + self.channels
        return indices


class MoveLayer(Layer[Move], op=Move):
    @functools.cached_property
    def source(self) -> np.ndarray:
        """The input byte under each output byte, int64 (H, W, C)."""
        return self.op.index

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        values: np.ndarray = data[0].reshape(-1)[self.source[y0:y1]]
        return values

    def input_rows(self, index: int, y: int) -> range:
        rows = self.source[y] // self.ins[0].row_bytes
        return range(int(rows.min()), int(rows.max()) + 1)

    def last_reads(self, index: int) -> np.ndarray:
        last = np.full(self.ins[0].bytes, NEVER, np.int64)
        np.maximum.at(last, self.source.ravel(), self.writes().ravel())
        return last.reshape(self.ins[0].shape)

    @property
    def transposed(self) -> Op | None:
        """Returns the op of one row, whose bytes are in the same order as those of one column."""
        if self.ins[0].shape[0] > 1 or self.out.shape[0] > 1:
            return None
        none = np.zeros(1, np.int64)
        return Move(self.op.rows[0] + self.op.columns, none, self.op.channels)

    @functools.cached_property
    def run(self) -> int:
        """Channels that can be copied together: neighbours in one row of the input."""
        channels = self.op.channels
        breaks = [int(i) for i in np.flatnonzero(np.diff(channels) != 1) + 1]
        run = math.gcd(len(channels), *breaks)
        starts = self.source[:, :, ::run] % self.ins[0].row_bytes
        return run if int(starts.max()) + run <= self.ins[0].row_bytes else 1

    @property
    def weight_bytes(self) -> int:
        return 4 * (len(self.op.rows) + len(self.op.columns) + len(self.op.channels) // self.run)

    @property
    def kernel(self) -> Kernel:
        return KERNEL(
            rows=Array("rows", self.op.rows.astype(np.int32)),
            columns=Array("columns", self.op.columns.astype(np.int32)),
            channels=Array("channels", self.op.channels[:: self.run].astype(np.int32)),
            run=self.run,
        )
