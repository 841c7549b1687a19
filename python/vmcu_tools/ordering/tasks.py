# SPDX-License-Identifier: Apache-2.0
"""Graphs of tasks that make tensors from tensors, and the memory of their orders.

A tensor is there from the task that makes it, or from the start if none does, to the last task that
reads it, or to the end if it is kept. A task needs its inputs, its outputs and its scratch at once,
beside everything else that is alive; where an input dies in it, output and input may share bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class GraphTask:
    """Tensors and tasks by number.

    `after`: tasks that must have run, whatever they make. `scratch`: bytes while it runs. `shared`:
    for each input how many bytes the outputs can share with it if it dies here; empty for none.
    `writes`: inputs that it changes. `cost`: of running it, in any unit. `is_repeatable`: whether
    it makes the same of the same inputs again.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    after: tuple[int, ...] = ()
    scratch: int = 0
    shared: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    cost: float = 0.0
    is_repeatable: bool = False


class CycleError(ValueError):
    """Tasks that wait for each other. `tasks`: their numbers, each before one that waits for it."""

    def __init__(self, tasks: Sequence[int]):
        super().__init__(f"tasks {list(tasks)} wait for each other")
        self.tasks = tuple(tasks)


@dataclass(frozen=True)
class TaskGraph:
    """`sizes`: bytes by tensor, each made by one task at most. `kept`: tensors alive to the end."""

    sizes: tuple[int, ...]
    tasks: tuple[GraphTask, ...]
    kept: frozenset[int] = frozenset()

    @cached_property
    def maker(self) -> dict[int, int]:
        """The task that makes a tensor; those that are there from the start have none."""
        return {tensor: n for n, task in enumerate(self.tasks) for tensor in task.outputs}

    @cached_property
    def readers(self) -> list[list[int]]:
        """Lists for each tensor the tasks that read it, each once."""
        readers: list[list[int]] = [[] for _ in self.sizes]
        for number, task in enumerate(self.tasks):
            for tensor in dict.fromkeys(task.inputs):
                readers[tensor].append(number)
        return readers

    @cached_property
    def predecessors(self) -> list[list[int]]:
        """Lists for each task those that it waits for, each once, in rising order."""
        made = self.maker
        return [
            sorted({made[t] for t in task.inputs if t in made} | set(task.after))
            for task in self.tasks
        ]

    @cached_property
    def successors(self) -> list[list[int]]:
        """Lists for each task those that wait for it, each once, in rising order."""
        successors: list[list[int]] = [[] for _ in self.tasks]
        for number, others in enumerate(self.predecessors):
            for other in others:
                successors[other].append(number)
        return successors

    @cached_property
    def at_start(self) -> int:
        """Bytes alive before the first task."""
        return sum(
            size
            for tensor, size in enumerate(self.sizes)
            if tensor not in self.maker and self.is_needed(tensor)
        )

    def is_needed(self, tensor: int) -> bool:
        """Whether anybody needs the tensor once it is made."""
        return tensor in self.kept or bool(self.readers[tensor])

    def topological(self) -> list[int]:
        """The tasks in their own order as far as that is one: the first that is ready, always.
        Raises CycleError."""
        left = [len(others) for others in self.predecessors]
        order: list[int] = []
        done = [False] * len(self.tasks)
        for first in range(len(self.tasks)):
            # A task that became ready behind the front has been passed: run it as soon as that
            # shows.
            todo = [first]
            while todo:
                number = todo.pop()
                if done[number] or left[number]:
                    continue
                done[number] = True
                order.append(number)
                for other in self.successors[number]:
                    left[other] -= 1
                todo += [n for n in reversed(self.successors[number]) if n < first]
        if len(order) < len(self.tasks):
            raise CycleError(self._cycle(done))
        return order

    def _cycle(self, done: Sequence[bool]) -> list[int]:
        """Tasks that wait for each other, among those that could not be done."""
        number = done.index(False)
        path: dict[int, int] = {}
        while number not in path:
            path[number] = len(path)
            number = next(other for other in self.predecessors[number] if not done[other])
        return list(path)[path[number] :][::-1]


@dataclass(frozen=True)
class Usage:
    """The memory of an order. `steps`: bytes of each step; `alive`: bytes before each step and
    after the last."""

    steps: tuple[int, ...]
    alive: tuple[int, ...]

    @property
    def peak(self) -> int:
        """Bytes of the worst moment."""
        return max((*self.steps, *self.alive))


def lifetimes(graph: TaskGraph, order: Sequence[int]) -> list[tuple[int, int]]:
    """Returns for each tensor the step from which it is there, and that before which it is gone."""
    at = {number: step for step, number in enumerate(order)}
    spans = []
    for tensor, readers in enumerate(graph.readers):
        first = at[graph.maker[tensor]] if tensor in graph.maker else 0
        last = max((at[reader] for reader in readers), default=first)
        spans.append((first, max(len(order), 1) if tensor in graph.kept else last + 1))
    return spans


def usage(graph: TaskGraph, order: Iterable[int]) -> Usage:
    """Returns the memory of the steps of an order; raises ValueError if tasks run before those
    that they wait for."""
    left = [len(readers) for readers in graph.readers]
    done = [False] * len(graph.tasks)
    now = graph.at_start
    steps, alive = [], [now]
    for number in order:
        task = graph.tasks[number]
        if done[number] or not all(done[other] for other in graph.predecessors[number]):
            raise ValueError(f"task {number} cannot run in this place of the order")
        done[number] = True
        saved = freed = 0
        shared = dict(zip(task.inputs, task.shared, strict=False))
        for tensor in dict.fromkeys(task.inputs):
            left[tensor] -= 1
            if not left[tensor] and tensor not in graph.kept:
                saved += shared.get(tensor, 0)
                freed += graph.sizes[tensor]
        made = sum(graph.sizes[tensor] for tensor in task.outputs)
        steps.append(task.scratch + max(now, now + made - saved))
        now += sum(graph.sizes[t] for t in task.outputs if graph.is_needed(t)) - freed
        alive.append(now)
    if not all(done):
        raise ValueError("the order leaves tasks out")
    return Usage(tuple(steps), tuple(alive))
