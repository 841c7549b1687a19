# SPDX-License-Identifier: Apache-2.0
"""Two workers that share one pool: the columns that each computes, and its waits.

Each worker has a list of tasks, computes them one by one and counts those that are done. In front
of a task there may be a wait for the other worker's count. Waits alone order the two: no worker
ever locks anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

WORKERS = 2
# Of the first word of an entry in the emitted list (vmcu/workers.h).
OWN_SCRATCH = 1 << 15
WAIT = 2**16 - 1
# uint16_t of an entry: step, y, x and columns; WAIT, tasks and two of no meaning.
ENTRY_WORDS = 4


class WorkerTask(NamedTuple):
    """Columns [x, x + columns) of row y of the output of step `step` of the plan. own_scratch: the
    kernel works in the second worker's scratch, not in the step's."""

    step: int
    y: int
    x: int
    columns: int
    own_scratch: bool = False


class Wait(NamedTuple):
    """Waits until the other worker has done its first `tasks` tasks."""

    tasks: int


Entry = WorkerTask | Wait


@dataclass(frozen=True, eq=False)
class Team:
    """The entries of each worker, in order. scratch_bytes: the second worker's scratch, beside the
    pool. spans: by worker, the estimated cycles at which each of its tasks begins and ends; cycles:
    those of an inference; alone: those of one worker."""

    entries: tuple[tuple[Entry, ...], ...]
    scratch_bytes: int
    spans: tuple[tuple[tuple[float, float], ...], ...] = ()
    cycles: float = 0.0
    alone: float = 0.0

    def count(self, worker: int) -> int:
        """Counts the tasks of a worker."""
        return sum(isinstance(one, WorkerTask) for one in self.entries[worker])

    @property
    def waits(self) -> tuple[int, ...]:
        """Counts the waits of each worker."""
        return tuple(sum(isinstance(one, Wait) for one in its) for its in self.entries)
