# SPDX-License-Identifier: Apache-2.0
"""A first order: greedy list scheduling with a heap of the ready tasks.

Input: a graph of tasks. Output: an order. Complexity: n log n in tasks and reads.
"""

from __future__ import annotations

from heapq import heappop, heappush

from .tasks import TaskGraph


def eager_order(graph: TaskGraph) -> list[int]:
    """Always the ready task that leaves the fewest bytes alive; among equals the one that needs the
    fewest while it runs, then the one with the smaller number."""
    waiting = [len(others) for others in graph.predecessors]
    left = [len(readers) for readers in graph.readers]
    heap: list[tuple[int, int, int]] = []
    current = [(0, 0)] * len(graph.tasks)
    order: list[int] = []
    done = [False] * len(graph.tasks)

    def offer(number: int) -> None:
        task = graph.tasks[number]
        shared = dict(zip(task.inputs, task.shared, strict=False))
        dying = [t for t in dict.fromkeys(task.inputs) if left[t] == 1 and t not in graph.kept]
        made = sum(graph.sizes[t] for t in task.outputs)
        step = task.scratch + max(0, made - sum(shared.get(t, 0) for t in dying))
        change = sum(graph.sizes[t] for t in task.outputs if graph.is_needed(t))
        change -= sum(graph.sizes[t] for t in dying)
        current[number] = (change, step)
        heappush(heap, (*current[number], number))

    for number, count in enumerate(waiting):
        if not count:
            offer(number)
    while heap:
        *key, number = heappop(heap)
        if done[number] or tuple(key) != current[number]:
            continue
        done[number] = True
        order.append(number)
        for tensor in dict.fromkeys(graph.tasks[number].inputs):
            left[tensor] -= 1
            if left[tensor] == 1:
                last = next(other for other in graph.readers[tensor] if not done[other])
                if not waiting[last]:
                    offer(last)
        for other in graph.successors[number]:
            waiting[other] -= 1
            if not waiting[other]:
                offer(other)
    return order
