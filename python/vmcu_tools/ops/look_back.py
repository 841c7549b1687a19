# SPDX-License-Identifier: Apache-2.0
"""A window of rows that go on and on, copied to where layers see it from its first row on.

Order of access: the number of the hop, then the call's pixels of its row; output bytes in
ascending order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import Op
from .kernel_type import KernelType
from .layer import NEVER, Layer
from .reach import Reach
from .values import CStruct, Kernel

PARAMS = CStruct(
    "vmcu_look_back_params",
    """
	uint16_t step; /**< rows between the windows of two hops */
""",
    declares="""
/**
 * @brief Copies pixels of a hop's window from input 0. Input 1 is the number of the hop.
 *
 * Reads the number, then the pixels of the row, which the end of the ring buffer can split.
 */
void vmcu_look_back(const struct vmcu_call *call);

/** @brief Writes the number of its row, an uint16_t, for vmcu_look_back(). Reads no input. */
void vmcu_hop_count(const struct vmcu_call *call);
""",
)
KERNEL = KernelType(
    "vmcu_look_back",
    PARAMS,
    reads="BACK",
    check="vmcu_check_look_back(c)",
    streams=True,
)


@dataclass(frozen=True, eq=False)
class LookBack(Op):
    """Rows of its first input from row `hop` * `step` on, as many as the output has. Its second
    input counts hops; `hop` says which one is meant."""

    exact = True

    step: int
    hop: int = 0

    def window_source(self, inputs: Sequence[str]) -> str:
        return inputs[0]

    def at_step(self, number: int) -> LookBack:
        return replace(self, hop=number)


class LookBackLayer(Layer[LookBack], op=LookBack):
    by_columns = True

    @property
    def _first(self) -> int:
        return self.op.hop * self.op.step

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        return data[0][self._first + y0 : self._first + y1]

    def input_rows(self, index: int, y: int) -> range:
        row = self.op.hop if index else self._first + y
        return range(row, row + 1)

    def reach(self, index: int) -> Reach:
        """The kernel looks for the row itself, and for where its ring splits it: the rows of calls
        are not those of the input."""
        everything = Reach.everything(self.ins[index])
        if index:
            return everything
        return Reach((0, 1), (0, 0), (everything.after[0], 0))

    def last_reads(self, index: int) -> np.ndarray:
        tensor = self.ins[index]
        ticks = np.full(tensor.shape, NEVER, np.int64)
        last = self.out.bytes - 1
        if index:
            ticks[self.op.hop] = last
        else:
            rows = slice(self._first, self._first + self.out.shape[0])
            ticks[rows] = self.writes()
        return ticks

    @property
    def kernel(self) -> Kernel:
        return KERNEL(step=self.op.step)
