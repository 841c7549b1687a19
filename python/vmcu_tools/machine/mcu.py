# SPDX-License-Identifier: Apache-2.0
"""The virtual MCU: replays a plan row by row on a pool whose every byte knows whom it belongs to.

Time is counted in events, one per computed row, and ticks within an event. A byte's expiry is the
time of its last read over the whole inference, known ahead from the layers' order of access. The
replay then checks two things that together prove the plan: no write lands on a byte before its
expiry, and every byte that a row is about to read is still the one its producer wrote. Bytes past
their expiry are overwritten with POISON, so that a kernel which reads more than it admits shows in
the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import PlanError
from ..graph import Tensor
from ..kernels import Layer, bind
from ..plan import SCRATCH_ALIGN, Plan, Step, pool_scratch

POISON = np.int8(-91)
TICKS = 1 << 32
FOREVER = np.iinfo(np.int64).max
BEFORE = -1
NOBODY = -1
SCRATCH = -2


@dataclass(frozen=True, eq=False)
class Event:
    """Row `y` of a step's layer; `number` counts events from the start of the inference."""

    number: int
    step: Step
    layer: Layer
    y: int

    @property
    def start(self) -> int:
        return self.number * TICKS

    @property
    def turn(self) -> int:
        return self.layer.turn(self.y)

    @property
    def first_of_step(self) -> bool:
        return self.turn == 0

    @property
    def last_of_step(self) -> bool:
        return self.turn == self.layer.height - 1


def events(plan: Plan) -> Iterator[Event]:
    """The rows of an inference in execution order."""
    number = 0
    for step in plan.steps:
        layer = step.foreign or bind(plan.graph, step.node, step.descending)
        for turn in range(layer.height):
            yield Event(number, step, layer, layer.turn(turn))
            number += 1


class VirtualMcu:
    """Replays one plan. Raises PlanError where the plan clobbers or loses a byte."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.tensors = plan.graph.tensors
        self.ids = {name: number for number, name in enumerate(self.tensors)}
        self.names = list(self.tensors)
        self.events = list(events(plan))
        self.expiry_of = self._expiries()
        self.writes_of = {id(e.layer): e.layer.writes() for e in self.events if e.first_of_step}

    def _expiries(self) -> dict[str, np.ndarray]:
        """Time of the last read of every byte of every tensor, int64 (H, W, C)."""
        expiry = {
            name: np.full(tensor.shape, BEFORE, np.int64) for name, tensor in self.tensors.items()
        }
        for event in self.events:
            if not event.first_of_step:
                continue
            layer = event.layer
            for index, tensor in enumerate(layer.ins):
                ticks = layer.last_reads(index)
                row, tick = np.divmod(ticks, layer.ticks_per_row)
                times = np.where(ticks < 0, BEFORE, (event.number + row) * TICKS + tick)
                np.maximum(expiry[tensor.name], times, out=expiry[tensor.name])
        for port in self.plan.graph.outputs:
            expiry[port.tensor][...] = FOREVER
        return expiry

    def prove(self) -> None:
        """Replays addresses only."""
        self._replay(None)

    def run(self, inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Replays with values: int8 (H, W, C) of every tensor, as its producer computed it."""
        return self._replay(inputs)

    def _replay(self, inputs: Sequence[np.ndarray] | None) -> dict[str, np.ndarray]:
        size = self.plan.pool_bytes
        self.owner = np.full(size, NOBODY, np.int32)
        self.index = np.zeros(size, np.int32)
        self.expiry = np.full(size, BEFORE, np.int64)
        self.value = np.full(size, POISON, np.int8)
        produced: dict[str, np.ndarray] = {}
        seen = {name: np.full(t.shape, POISON, np.int8) for name, t in self.tensors.items()}
        for number, port in enumerate(self.plan.graph.inputs):
            tensor = self.tensors[port.tensor]
            data = None if inputs is None else np.asarray(inputs[number]).reshape(tensor.shape)
            for y in range(tensor.shape[0]):
                self._write(tensor, y, BEFORE, None if data is None else data[y], "the input")
            if data is not None:
                produced[tensor.name] = data.astype(np.int8)
        for event in self.events:
            self._compute(event, seen, produced if inputs is not None else None)
        return produced

    def _compute(
        self,
        event: Event,
        seen: dict[str, np.ndarray],
        produced: dict[str, np.ndarray] | None,
    ) -> None:
        layer = event.layer
        if event.first_of_step:
            self._hold_scratch(event)
        for index, tensor in enumerate(layer.ins):
            for y in layer.input_rows(index, event.y):
                self._check_row(event, tensor, y)
                seen[tensor.name][y] = self._row(tensor, y)[1].reshape(tensor.shape[1:])
        row = None
        if produced is not None:
            data = [seen[tensor.name] for tensor in layer.ins]
            row = layer.rows(data, event.y, event.y + 1)[0]
            if event.first_of_step:
                produced[layer.out.name] = np.zeros(layer.out.shape, np.int8)
            produced[layer.out.name][event.y] = row
        ticks = self.writes_of[id(layer)][event.y] - event.turn * layer.ticks_per_row
        times = ticks + event.start
        self._write(layer.out, event.y, times, row, f"step '{event.step.node.name}'")
        for index, tensor in enumerate(layer.ins):
            for y in layer.input_rows(index, event.y):
                self._poison(tensor, y, event.start + TICKS)
        if event.last_of_step:
            self._drop_scratch(event)

    def _row(self, tensor: Tensor, y: int) -> tuple[slice, np.ndarray]:
        start = self.plan.placements[tensor.name].row(y, self.plan.pool_bytes)
        where = slice(start, start + tensor.row_bytes)
        if where.stop > self.plan.pool_bytes:
            raise PlanError(
                f"row {y} of tensor '{tensor.name}' at byte {start} is split by the pool's end "
                f"({self.plan.pool_bytes} bytes)"
            )
        return where, self.value[where]

    def _check_row(self, event: Event, tensor: Tensor, y: int) -> None:
        where, _ = self._row(tensor, y)
        wanted = self.expiry_of[tensor.name][y].ravel() >= event.start
        expected = np.arange(tensor.row_bytes) + y * tensor.row_bytes
        lost = wanted & (
            (self.owner[where] != self.ids[tensor.name]) | (self.index[where] != expected)
        )
        if lost.any():
            at = int(np.argmax(lost))
            raise PlanError(
                f"step '{event.step.node.name}', row {event.y}: byte {at} of row {y} of tensor "
                f"'{tensor.name}' (pool byte {where.start + at}) is gone; "
                f"{self._holder(where.start + at)}"
            )

    def _write(
        self,
        tensor: Tensor,
        y: int,
        times: np.ndarray | int,
        values: np.ndarray | None,
        who: str,
    ) -> None:
        where, _ = self._row(tensor, y)
        flat = np.broadcast_to(np.ravel(times), tensor.row_bytes)
        clobbered = self.expiry[where] > flat
        if clobbered.any():
            at = int(np.argmax(clobbered))
            raise PlanError(
                f"{who}, row {y}: writing byte {at} of tensor '{tensor.name}' (pool byte "
                f"{where.start + at}) destroys a live byte; {self._holder(where.start + at)}"
            )
        self.owner[where] = self.ids[tensor.name]
        self.index[where] = np.arange(tensor.row_bytes) + y * tensor.row_bytes
        self.expiry[where] = self.expiry_of[tensor.name][y].ravel()
        if values is not None:
            self.value[where] = values.ravel()

    def _holder(self, at: int) -> str:
        owner = int(self.owner[at])
        if owner == SCRATCH:
            return "it holds scratch"
        if owner == NOBODY:
            return "it holds nothing"
        tensor = self.tensors[self.names[owner]]
        y, rest = divmod(int(self.index[at]), tensor.row_bytes)
        return f"it holds byte {rest} of row {y} of tensor '{tensor.name}'"

    def _poison(self, tensor: Tensor, y: int, now: int) -> None:
        where, values = self._row(tensor, y)
        dead = (self.owner[where] == self.ids[tensor.name]) & (self.expiry[where] < now)
        values[dead] = POISON
        self.owner[where][dead] = NOBODY

    def _hold_scratch(self, event: Event) -> None:
        step = event.step
        if step.scratch_bytes < pool_scratch(event.layer) or step.scratch % SCRATCH_ALIGN:
            raise PlanError(f"step '{step.node.name}': its scratch is too small or misaligned")
        where = slice(step.scratch, step.scratch + step.scratch_bytes)
        if where.stop > self.plan.pool_bytes:
            raise PlanError(f"step '{step.node.name}': scratch ends beyond the pool")
        if (self.expiry[where] >= event.start).any():
            raise PlanError(f"step '{step.node.name}': scratch lies on live bytes")
        self.owner[where] = SCRATCH
        self.expiry[where] = FOREVER
        self.value[where] = POISON

    def _drop_scratch(self, event: Event) -> None:
        where = slice(event.step.scratch, event.step.scratch + event.step.scratch_bytes)
        self.owner[where] = NOBODY
        self.expiry[where] = BEFORE
