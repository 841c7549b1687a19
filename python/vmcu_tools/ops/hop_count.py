# SPDX-License-Identifier: Apache-2.0
"""The number of hops, for layers that read the windows of a stream as a whole.

It stands at the end of an unbounded stage and reads nothing itself: its windows are the rows that
the layers behind that stage read before the next hop, so that rows are there when it is called, and
stay for as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Op
from .kernel_type import KernelType
from .layer import NEVER, Layer
from .reach import Reach
from .values import Kernel

# Of the number.
BYTES = 2
KERNEL = KernelType(
    "vmcu_hop_count",
    None,
    "vmcu_check_calls(c)",
    "vmcu_check_output(c)->width == 1U",
    "vmcu_check_output(c)->channels == sizeof(uint16_t)",
    reads="NONE",
    streams=True,
)


@dataclass(frozen=True, eq=False)
class HopCount(Op):
    """Row y is the number y, uint16. By input, `rows` of a window and the `steps` by which the next
    one begins further down. Where numbers start over, it is with `first` or a later one."""

    exact = True

    rows: tuple[int, ...]
    steps: tuple[int, ...]
    first: int = 0


class HopCountLayer(Layer[HopCount], op=HopCount):
    by_rows = True

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        numbers = np.arange(y0, y1, dtype="<u2")
        return numbers.view(np.int8).reshape(-1, 1, BYTES)

    def input_rows(self, index: int, y: int) -> range:
        return self.reach(index).span(0, y, y, self.ins[index].shape[0])

    def reach(self, index: int) -> Reach:
        columns = self.ins[index].shape[1]
        below = self.op.rows[index] - 1, columns - 1
        return Reach((self.op.steps[index], 0), (0, 0), below)

    def last_reads(self, index: int) -> np.ndarray:
        return np.full(self.ins[index].shape, NEVER, np.int64)

    @property
    def startup_rows(self) -> int:
        return self.op.first

    @property
    def kernel(self) -> Kernel:
        return KERNEL()
