# SPDX-License-Identifier: Apache-2.0
"""A state that layers compute in each hop: its value at the end of the hop before, and the place
where it is kept until the next.

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
    "vmcu_recall_params",
    """
	int8_t zero; /**< initial value of all bytes of the state */
""",
    declares="""
/**
 * @brief Copies pixels of input 0, the state after the previous hop. If input 1, the number of the
 * hop, is 0, writes the initial value instead.
 */
void vmcu_recall(const struct vmcu_call *call);

/** @brief Copies pixels to the state of the next hop. For each byte: reads, then writes. */
void vmcu_remember(const struct vmcu_call *call);
""",
)
RECALL = KernelType(
    "vmcu_recall", PARAMS, reads="RECALLED", check="vmcu_check_recall(c)", streams=True
)
REMEMBER = KernelType(
    "vmcu_remember", None, reads="PIXEL", check="vmcu_check_remember(c)", streams=True
)


@dataclass(frozen=True, eq=False)
class Recall(Op):
    """Its first input as the hop before has left it; `zero` everywhere in hop 0. Its second input
    counts hops; `hop` says which one is meant."""

    exact = True

    zero: int
    hop: int = 0

    def window_source(self, inputs: Sequence[str]) -> str:
        return inputs[0]

    def previous_step_input(self, inputs: Sequence[str]) -> str:
        return inputs[0]

    def at_step(self, number: int) -> Recall:
        return replace(self, hop=number)


class RecallLayer(Layer[Recall], op=Recall):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        if self.op.hop == 0:
            return np.full((y1 - y0, *self.out.shape[1:]), self.op.zero, np.int8)
        return data[0][y0:y1]

    def input_rows(self, index: int, y: int) -> range:
        if index:
            return range(self.op.hop, self.op.hop + 1)
        return range(y, y + (self.op.hop > 0))

    def reach(self, index: int) -> Reach:
        return Reach.everything(self.ins[index]) if index else Reach.shifted()

    def last_reads(self, index: int) -> np.ndarray:
        tensor = self.ins[index]
        ticks = np.full(tensor.shape, NEVER, np.int64)
        if index:
            ticks[self.op.hop] = self.out.bytes - 1
        elif self.op.hop:
            ticks[...] = self.writes()
        return ticks

    @property
    def kernel(self) -> Kernel:
        return RECALL(zero=self.op.zero)


@dataclass(frozen=True, eq=False)
class Remember(Op):
    """Its input, where it stays until the next hop."""

    exact = True


class RememberLayer(Layer[Remember], op=Remember):
    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        return data[0][y0:y1]

    def input_rows(self, index: int, y: int) -> range:
        return range(y, y + 1)

    def last_reads(self, index: int) -> np.ndarray:
        return self.writes()

    @property
    def kernel(self) -> Kernel:
        return REMEMBER()
