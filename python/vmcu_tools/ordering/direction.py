# SPDX-License-Identifier: Apache-2.0
"""A graph of tasks as arrays, for a search that runs it forwards or backwards.

Bytes alive are a function of the set of tasks that have run, so an order may as well be found from
its end: a task is taken back once all that wait for it have been. Forwards a tensor's bytes are
given back by the last of its readers, backwards they are asked for by the first that is taken
back: in both directions by the task that finds the tensor's count at one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .params import DEFAULT_ORDER, OrderParams
from .tasks import TaskGraph

# The step of tasks that never become ready, or of tensors that are never given back: above any
# count.
NEVER_READY = 1 << 30
# A tensor with more readers is not looked at when one of them has run, for speed only.
MANY_READERS = 8


def table(rows: list[list[int]], filler: int) -> np.ndarray:
    """Lists of different lengths as one array, filled up."""
    width = max((len(row) for row in rows), default=0)
    filled = np.full((len(rows), max(width, 1)), filler, np.int64)
    for number, row in enumerate(rows):
        filled[number, : len(row)] = row
    return filled


class OutOfTimeError(Exception):
    """A search has reached its deadline."""


class Direction:
    """`inputs`, `shared`: by task the tensors it reads and the bytes it can share with each.
    `waiting`, `counts`: the initial values of tasks and tensors; the last of each, and the last
    row of tables, stand for none. `next`: the tasks that wait for one; `near`: the tasks that
    may have become cheaper for it. Sizes are in bytes. `deadline`: of time.monotonic(), at which
    a sweep raises OutOfTimeError."""

    def __init__(
        self,
        graph: TaskGraph,
        backwards: bool,
        deadline: float = math.inf,
        params: OrderParams = DEFAULT_ORDER,
    ):
        self.graph, self.backwards, self.deadline = graph, backwards, deadline
        self.params = params
        self.tasks, tensors = len(graph.tasks), len(graph.sizes)
        reads = [list(dict.fromkeys(task.inputs)) for task in graph.tasks]
        shares = [dict(zip(task.inputs, task.shared, strict=False)) for task in graph.tasks]
        self.inputs = table(reads, tensors)
        self.shared = table(
            [[share.get(t, 0) for t in row] for share, row in zip(shares, reads, strict=True)], 0
        )
        self.sizes = np.array([*graph.sizes, 0], np.int64)
        self.scratch = np.array([task.scratch for task in graph.tasks], np.int64)
        self.made = self.per_task(lambda t: True)
        self.left = self.per_task(graph.is_needed)
        before, behind = graph.predecessors, graph.successors
        if backwards:
            before, behind = behind, before
        self.next = table(behind, self.tasks)
        self.near = table([self._near(n, behind[n]) for n in range(self.tasks)], self.tasks)
        counts = [1 if backwards else len(readers) for readers in graph.readers]
        for tensor in graph.kept:
            counts[tensor] = NEVER_READY
        self.waiting = self.small([len(others) for others in before])
        self.counts = self.small(counts)
        kept = sum(graph.sizes[tensor] for tensor in graph.kept)
        self.alive = kept if backwards else graph.at_start
        numbers = np.arange(self.tasks)
        self.word = numbers // 64
        self.bit = np.uint64(1) << (numbers % 64).astype(np.uint64)
        self.words = max(-(-self.tasks // 64), 1)

    def per_task(self, counted: Callable[[int], bool]) -> np.ndarray:
        """The bytes of each task's outputs that are counted."""
        sizes = self.graph.sizes
        return np.array(
            [sum(sizes[t] for t in task.outputs if counted(t)) for task in self.graph.tasks],
            np.int64,
        )

    def _near(self, number: int, behind: list[int]) -> list[int]:
        readers = self.graph.readers
        also = {
            other
            for tensor in self.graph.tasks[number].inputs
            if len(readers[tensor]) <= MANY_READERS
            for other in readers[tensor]
        }
        return sorted(({*behind} | also) - {number})

    def small(self, counts: list[int]) -> np.ndarray:
        """Counts in as few bits as hold them, with one more that never reaches zero."""
        most = max((c for c in counts if c < NEVER_READY), default=0)
        kind = np.int8 if most < 100 else np.int16 if most < 30_000 else np.int32
        never = np.iinfo(kind).max
        return np.array([*(min(c, never) for c in counts), never], kind)

    def in_order(self, order: list[int]) -> list[int]:
        """Tasks in the order in which they run, from that in which a search took them."""
        return order[::-1] if self.backwards else order
