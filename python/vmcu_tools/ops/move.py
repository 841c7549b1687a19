# SPDX-License-Identifier: Apache-2.0
"""Another arrangement of the same bytes.

Order of access: output bytes in ascending order, each read just before it is written.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from ..graph import Move
from .layer import NEVER, Layer


class MoveLayer(Layer[Move]):
    @functools.cached_property
    def source(self) -> np.ndarray:
        """The input byte under each output byte, int64 (H, W, C)."""
        return self.op.index

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        return data[0].reshape(-1)[self.source[y0:y1]]

    def input_rows(self, index: int, y: int) -> range:
        rows = self.source[y] // self.ins[0].row_bytes
        return range(int(rows.min()), int(rows.max()) + 1)

    def last_reads(self, index: int) -> np.ndarray:
        last = np.full(self.ins[0].bytes, NEVER, np.int64)
        np.maximum.at(last, self.source.ravel(), self.writes().ravel())
        return last.reshape(self.ins[0].shape)

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
