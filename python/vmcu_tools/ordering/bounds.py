# SPDX-License-Identifier: Apache-2.0
"""A lower bound of the peak of every order, from all ancestors of each task.

Input: a graph of tasks. Output: bytes. Complexity: tasks times tensors, in one product of matrices.
"""

from __future__ import annotations

import numpy as np

from .tasks import TaskGraph

# Beyond, the matrix of tasks and their ancestors is not worth its bytes.
MOST_ANCESTOR_TASKS = 6000


def least_peak(graph: TaskGraph) -> int:
    """The most bytes that some task needs in every order, beside tensors made before it and read
    behind it whatever the order; a start, for the search may prove more."""
    peak = max(graph.at_start, sum(graph.sizes[tensor] for tensor in graph.kept))
    if not graph.tasks:
        return peak
    own = max(_alone(graph, number, sum(graph.sizes[t] for t in task.inputs))
              for number, task in enumerate(graph.tasks))  # fmt: skip
    peak = max(peak, own)
    if len(graph.tasks) > MOST_ANCESTOR_TASKS:
        return peak
    before = ancestors(graph)
    made = np.ones((len(graph.sizes), len(graph.tasks)), bool)
    read = np.zeros((len(graph.sizes), len(graph.tasks)), bool)
    for tensor, maker in graph.maker.items():
        made[tensor] = before[:, maker]
    for tensor, readers in enumerate(graph.readers):
        read[tensor] = tensor in graph.kept
        for reader in readers:
            read[tensor] |= before[reader]
            read[tensor, reader] = True
    alive = np.array(graph.sizes, np.int64) @ (made & read)
    return max(peak, *(_alone(graph, n, int(alive[n])) for n in range(len(graph.tasks))))


def _alone(graph: TaskGraph, number: int, alive: int) -> int:
    """Counts the bytes of a task beside so many bytes, all its inputs dying in it."""
    task = graph.tasks[number]
    made = sum(graph.sizes[tensor] for tensor in task.outputs)
    shared = sum(dict(zip(task.inputs, task.shared, strict=False)).values())
    return task.scratch + max(alive, alive + made - shared)


def ancestors(graph: TaskGraph) -> np.ndarray:
    """[a, b]: whether b runs before a in every order."""
    before = np.zeros((len(graph.tasks), len(graph.tasks)), bool)
    for number in graph.topological():
        for other in graph.predecessors[number]:
            before[number] |= before[other]
            before[number, other] = True
    return before
