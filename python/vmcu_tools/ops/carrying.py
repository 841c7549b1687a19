# SPDX-License-Identifier: Apache-2.0
"""Layers that make a row of the row before, which is of their own output.

Such rows go on and on. A kernel may write a row over the one before: for each byte that it reads of
that one, `reads_in_call` says until when.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from .layer import NEVER, Layer, OpT
from .reach import Reach

# The input that is the layer's own output.
OWN = 1


class CarryingLayer(Layer[OpT]):
    """A layer with two inputs, the second of which is its own output. Output rows, and those of
    the input, are read and written unit by unit: see `unit_ticks`."""

    @property
    def is_recurrent(self) -> bool:
        """True if the row before is of its own output."""
        return self.ins[OWN].name == self.out.name

    @abstractmethod
    def step(self, x: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        """A row int8 (W, C), of a row of the input and the row before; None in front of the
        first."""

    @property
    @abstractmethod
    def unit_ticks(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns for each byte of a row int64 (W, C): the tick of its last read, a step later,
        and that of its write. All of the input is read in each tick."""

    def rows(self, data: Sequence[np.ndarray], y0: int, y1: int) -> np.ndarray:
        made: list[np.ndarray] = []
        for y in range(y0, y1):
            if not self.is_recurrent:
                before = data[OWN][y]
            elif made:
                before = made[-1]
            else:
                before = data[OWN][y - 1] if y else None
            made.append(self.step(data[0][y], before))
        return np.stack(made)

    def input_rows(self, index: int, y: int) -> range:
        if index == OWN and self.is_recurrent:
            return range(max(y - 1, 0), y)
        return range(y, y + 1)

    def reach(self, index: int) -> Reach:
        above = int(index == OWN and self.is_recurrent)
        return Reach((1, 0), (above, 0), (-above, self.ins[index].shape[1] - 1))

    @property
    def by_rows(self) -> bool:
        return self.is_recurrent

    @property
    def startup_rows(self) -> int:
        """The first row has none before it."""
        return 1

    @property
    def ticks_per_row(self) -> int:
        return self.out.shape[2]

    def reads_in_call(self, index: int, x: int, columns: int) -> np.ndarray | None:
        if index == OWN:
            return self.unit_ticks[0]
        return np.full(self.ins[0].shape[1:], self.ticks_per_row - 1, np.int64)

    def writes_in_call(self, x: int, columns: int) -> np.ndarray | None:
        return self.unit_ticks[1]

    def last_reads(self, index: int) -> np.ndarray:
        ticks = self.reads_in_call(index, 0, self.width)
        assert ticks is not None
        later = int(index == OWN and self.is_recurrent)
        ticks_later = ticks + self._starts(later)
        if later:
            ticks_later[-1] = NEVER
        return np.where(ticks < 0, NEVER, ticks_later)

    def writes(self) -> np.ndarray:
        ticks: np.ndarray = self.unit_ticks[1] + self._starts(0)
        return ticks

    def _starts(self, later: int) -> np.ndarray:
        """The first tick of each row, or of rows further down, int64 (H, 1, 1)."""
        turns = np.arange(later, later + self.out.shape[0])
        return (turns * self.ticks_per_row)[:, None, None]
