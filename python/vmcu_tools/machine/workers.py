# SPDX-License-Identifier: Apache-2.0
"""The proof of two workers: their lists, replayed with vector clocks.

The lists and their waits say which tasks are ordered, whatever the speed of each worker. Each pool
byte knows who wrote it last and who has read it since. Two accesses of which one writes must be
ordered (Virtual time and global states of distributed systems, 1989); with two workers a
clock is the number of the other's tasks that a worker knows to be done. All orders that the waits
allow then give the bytes of this one, and in this one each byte that a task reads is the one that
its producer wrote.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import PlanError
from ..graph import Tensor
from ..ops import Layer, ProgramLayer
from ..plan.plan import Plan, pool_scratch
from ..plan.schedule import in_one_piece
from ..plan.workers import WORKERS, Entry, Team, Wait, WorkerTask
from .events import Called, planned_calls

NOBODY = -1
SCRATCH = -2


def is_free(layer: Layer[Any]) -> bool:
    """True if the layer's calls depend on each other by their tensors alone: kernels written by
    hand may keep data from call to call."""
    return isinstance(layer, ProgramLayer) and not layer.sums


def prove(plan: Plan, calls: Sequence[Sequence[Called]] | None = None) -> None:
    """Raises PlanError unless the plan's team computes each call of an inference once, in every
    interleaving as one worker does. calls: those of one worker, by stage, that emitted tables lead
    to, in place of those that the plan means."""
    assert plan.team is not None
    if calls is None:
        calls = [list(planned_calls(plan, number)) for number in range(len(plan.stages))]
    _TeamReplay(plan, plan.team, calls).run()


class _TeamReplay:
    """known: by worker, the other's tasks that it knows to be done; done: its own. writer, written:
    by byte, the worker that wrote it and the number of that task; read: by worker and byte, the
    number of its last task that read it since. place: of a byte in what a task writes, or -1."""

    def __init__(self, plan: Plan, team: Team, calls: Sequence[Sequence[Called]]):
        self.plan, self.team, self.calls = plan, team, calls
        self.steps = plan.steps
        self.layers = [step.bind(plan.graph) for step in self.steps]
        self.names = list(plan.graph.tensors)
        self.ids = {name: number for number, name in enumerate(self.names)}
        size = plan.pool_bytes
        self.owner = np.full(size, NOBODY, np.int32)
        self.index = np.zeros(size, np.int64)
        self.writer = np.full(size, NOBODY, np.int8)
        self.written = np.zeros(size, np.int32)
        self.read = np.zeros((WORKERS, size), np.int32)
        self.place = np.full(size, -1)
        self.known, self.done = [0] * WORKERS, [0] * WORKERS
        self.tasks = [[one for one in its if isinstance(one, WorkerTask)] for its in team.entries]
        self.last_turn: dict[int, tuple[int, int, WorkerTask]] = {}

    def run(self) -> None:
        self._check_coverage()
        for port in self.plan.graph.held:
            tensor = self.plan.graph.tensors[port.tensor]
            for y in range(tensor.shape[0]):
                self._own(tensor, y, 0, tensor.shape[1])
        at = [0] * WORKERS
        moved = True
        while moved:
            moved = False
            for worker, entries in enumerate(self.team.entries):
                while at[worker] < len(entries) and self._advance(worker, entries[at[worker]]):
                    at[worker] += 1
                    moved = True
        for worker, entries in enumerate(self.team.entries):
            if at[worker] < len(entries):
                raise PlanError(f"worker {worker} waits for ever, at entry {at[worker]}")
        if self.known[0] < len(self.tasks[1]):
            raise PlanError("worker 0 ends before worker 1")
        for port in self.plan.graph.outputs:
            tensor = self.plan.graph.tensors[port.tensor]
            for y in range(tensor.shape[0]):
                self._check_there(tensor, y, 0, tensor.shape[1], f"output '{port.name}'")

    def _check_coverage(self) -> None:
        """Each call of one worker is there once, in pieces or whole."""
        numbers = {id(step): number for number, step in enumerate(self.plan.steps)}
        wanted = [np.zeros((layer.height, layer.width), np.int16) for layer in self.layers]
        there = [one.copy() for one in wanted]
        whole = set[WorkerTask]()
        for stage in self.calls:
            for step, _, call in stage:
                if step is None:
                    raise PlanError("workers cannot share a streamed input")
                number = numbers[id(step)]
                wanted[number][call.y, call.x : call.x + call.columns] += 1
                whole.add(WorkerTask(number, call.y, call.x, call.columns))
        for task in (one for its in self.tasks for one in its):
            fits = task.step < len(self.layers)
            layer = self.layers[task.step] if fits else None
            if layer is None or task.y >= layer.height or task.x + task.columns > layer.width:
                raise PlanError(f"there is no {task}")
            known = task._replace(own_scratch=False) in whole
            if task.columns < 1 or not (known or layer.by_columns):
                raise PlanError(f"{self._who(task)}: its kernel computes whole rows")
            there[task.step][task.y, task.x : task.x + task.columns] += 1
        for layer, one, other in zip(self.layers, wanted, there, strict=True):
            if not np.array_equal(one, other):
                raise PlanError(f"workers do not compute each call of '{layer.node.name}' once")

    def _advance(self, worker: int, entry: Entry) -> bool:
        """Does an entry; False for a wait whose count the other one has not reached."""
        if isinstance(entry, Wait):
            if self.done[1 - worker] < entry.tasks:
                return False
            self.known[worker] = max(self.known[worker], entry.tasks)
            return True
        self.done[worker] += 1
        self._compute(worker, entry, self.layers[entry.step])
        return True

    def _compute(self, worker: int, task: WorkerTask, layer: Layer[Any]) -> None:
        who = self._who(task)
        self._check_turn(worker, task, layer)
        spans = [
            (index, y, *columns)
            for index, tensor in enumerate(layer.ins)
            for y in layer.input_rows(index, task.y)
            for columns in [self._columns(layer, index, task)]
            if columns[0] < columns[1]
        ]
        for index, y, start, stop in spans:
            tensor = layer.ins[index]
            is_read = functools.partial(self._is_read, task, layer, index, y, start, stop)
            where = self._check_there(tensor, y, start, stop, who, is_read)
            may_split = layer.by_columns and index not in in_one_piece(layer)
            if not may_split and (np.diff(where) != 1).any():
                raise PlanError(f"{who} needs row {y} of '{tensor.name}' in one piece")
            self._note_read(worker, task, where)
        self._take_scratch(worker, task, layer)
        last = task.y == layer.height - 1 and task.x + task.columns == layer.width
        if layer.sums and not last:
            return
        y, start, stop = (
            (0, 0, layer.out.shape[1]) if layer.sums else (task.y, task.x, task.x + task.columns)
        )
        self._check_order(task, layer, spans)
        where = self._where(layer.out, y, start, stop)
        if (np.diff(where) != 1).any():
            raise PlanError(f"{who}: the ring of '{layer.out.name}' splits what is written")
        self._note_write(worker, task, where)
        self._own(layer.out, y, start, stop)

    def _check_turn(self, worker: int, task: WorkerTask, layer: Layer[Any]) -> None:
        """Calls of a layer that may keep data come one behind the other."""
        if is_free(layer):
            return
        turn = layer.turn(task.y) * layer.width + task.x
        if task.step in self.last_turn:
            before, number, other = self.last_turn[task.step]
            in_order = layer.turn(other.y) * layer.width + other.x < turn
            known = before == worker or number <= self.known[worker]
            if not (in_order and known):
                raise PlanError(
                    f"{self._who(task)} and {self._who(other)} are not in order, and the "
                    "kernel may keep data from call to call"
                )
        self.last_turn[task.step] = worker, self.done[worker], task

    def _columns(self, layer: Layer[Any], index: int, task: WorkerTask) -> tuple[int, int]:
        """The columns of an input that a task reads."""
        width = layer.ins[index].shape[1]
        if not layer.by_columns and self.steps[task.step].columns is None:
            return 0, width
        span = layer.reach(index).span(1, task.x, task.x + task.columns - 1, width)
        return span.start, span.stop

    def _take_scratch(self, worker: int, task: WorkerTask, layer: Layer[Any]) -> None:
        size, step = pool_scratch(layer), self.steps[task.step]
        if task.own_scratch:
            able = worker > 0 and is_free(layer) and not layer.addressed
            if not able or size > self.team.scratch_bytes:
                raise PlanError(f"{self._who(task)} cannot work in its worker's scratch")
            return
        if size == 0:
            return
        where = np.arange(step.scratch, step.scratch + size)
        if where[-1] >= self.plan.pool_bytes:
            raise PlanError(f"{self._who(task)}: its scratch ends beyond the pool")
        number = SCRATCH - task.step
        lost = self.owner[where] != number
        # Sums are there from the layer's first call on.
        if layer.sums and (task.y or task.x) and lost.any():
            raise PlanError(f"{self._who(task)}: its sums are gone")
        self._note_write(worker, task, where)
        self.owner[where] = number

    def _check_order(
        self, task: WorkerTask, layer: Layer[Any], spans: Sequence[tuple[int, int, int, int]]
    ) -> None:
        """A task that writes bytes of its own input writes each after its last read."""
        y, x, columns = task.y, task.x, task.columns
        out = self._where(layer.out, y, x, x + columns) if not layer.sums else np.empty(0, np.int64)
        self.place[out] = np.arange(out.size)
        for index, row, start, stop in spans:
            where = self._where(layer.ins[index], row, start, stop)
            places = self.place[where]
            (reads,) = (places >= 0).nonzero()
            if not reads.size:
                continue
            writes = places[reads]
            read, written = self._ticks(task, layer, index, row)
            if read is None or written is None:
                raise PlanError(f"{self._who(task)} writes its input in an unknown order")
            late = read[start:stop].ravel()[reads] > written[x : x + columns].ravel()[writes]
            if late.any():
                raise PlanError(
                    f"{self._who(task)}: byte {int(where[reads[np.argmax(late)]])} of the pool "
                    f"is written before it is read, of '{layer.ins[index].name}'"
                )
        self.place[out] = -1

    @staticmethod
    def _ticks(
        task: WorkerTask, layer: Layer[Any], index: int, row: int
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """When a call reads each byte of a row of an input, and writes each of its output."""
        if isinstance(layer, ProgramLayer) or layer.columns < layer.width:
            reads = layer.reads_in_call(index, task.x, task.columns)
            return reads, layer.writes_in_call(task.x, task.columns)
        begins = layer.turn(task.y) * layer.ticks_per_row
        return layer.last_reads(index)[row] - begins, layer.writes()[task.y] - begins

    def _note_read(self, worker: int, task: WorkerTask, where: np.ndarray) -> None:
        other = 1 - worker
        unordered = (self.writer[where] == other) & (self.written[where] > self.known[worker])
        self._refuse(unordered, where, worker, task, self.written)
        self.read[worker][where] = self.done[worker]

    def _note_write(self, worker: int, task: WorkerTask, where: np.ndarray) -> None:
        other = 1 - worker
        unordered = (self.writer[where] == other) & (self.written[where] > self.known[worker])
        self._refuse(unordered, where, worker, task, self.written)
        unordered = self.read[other][where] > self.known[worker]
        self._refuse(unordered, where, worker, task, self.read[other])
        self.writer[where], self.written[where] = worker, self.done[worker]

    def _refuse(
        self,
        unordered: np.ndarray,
        where: np.ndarray,
        worker: int,
        task: WorkerTask,
        by: np.ndarray,
    ) -> None:
        if not unordered.any():
            return
        byte = int(where[np.argmax(unordered)])
        other = self.tasks[1 - worker][int(by[byte]) - 1]
        owner = int(self.owner[byte])
        what = f"tensor '{self.names[owner]}', byte {int(self.index[byte])}"
        raise PlanError(
            f"workers race for byte {byte} of the pool "
            f"({what if owner >= 0 else 'scratch'}): {self._who(task)} on worker {worker} and "
            f"{self._who(other)} on worker {1 - worker} are not ordered by a wait"
        )

    def _is_read(
        self, task: WorkerTask, layer: Layer[Any], index: int, row: int, start: int, stop: int
    ) -> np.ndarray:
        """Whether a task reads each byte of columns of a row: strides may pass over some."""
        ticks = self._ticks(task, layer, index, row)[0]
        if ticks is None:
            return np.array(True)
        is_read: np.ndarray = ticks[start:stop].ravel() >= 0
        return is_read

    def _check_there(
        self,
        tensor: Tensor,
        y: int,
        start: int,
        stop: int,
        who: str,
        is_needed: Callable[[], np.ndarray] | None = None,
    ) -> np.ndarray:
        """Returns the pool bytes of columns of a row, which have to be the tensor's if they are
        needed."""
        where = self._where(tensor, y, start, stop)
        first = (y * tensor.shape[1] + start) * tensor.shape[2]
        expected = np.arange(first, first + where.size)
        lost = (self.owner[where] != self.ids[tensor.name]) | (self.index[where] != expected)
        if lost.any() and is_needed is not None:
            lost &= is_needed()
        if lost.any():
            at = int(np.argmax(lost))
            raise PlanError(
                f"{who}: byte {int(expected[at])} of tensor '{tensor.name}' (pool byte "
                f"{int(where[at])}) is gone"
            )
        return where

    def _own(self, tensor: Tensor, y: int, start: int, stop: int) -> None:
        where = self._where(tensor, y, start, stop)
        first = (y * tensor.shape[1] + start) * tensor.shape[2]
        self.owner[where] = self.ids[tensor.name]
        self.index[where] = np.arange(first, first + where.size)

    def _where(self, tensor: Tensor, y: int, start: int, stop: int) -> np.ndarray:
        """The pool bytes of columns [start, stop) of a row, int64."""
        return self._places(tensor.name)(y, start, stop)

    @functools.cache  # noqa: B019 # as long as the replay
    def _places(self, name: str) -> Callable[[int, int, int], np.ndarray]:
        tensor, placement = self.plan.graph.tensors[name], self.plan.placements[name]
        circle = self.plan.pool_of(placement.base)
        around = circle.around(placement.base) - circle.start
        width, channels = tensor.shape[1:]

        def places(y: int, start: int, stop: int) -> np.ndarray:
            first = (y * width + start) * channels
            at = np.arange(first, first + (stop - start) * channels)
            at = around + (at + placement.phase) % placement.ring
            inside: np.ndarray = circle.start + at % circle.size
            return inside

        return places

    def _who(self, task: WorkerTask) -> str:
        name = self.steps[task.step].node.name
        return f"step '{name}', row {task.y}, columns {task.x} to {task.x + task.columns - 1}"
