# SPDX-License-Identifier: Apache-2.0
"""The virtual MCU: replays a plan call by call on a pool whose bytes know whom they belong to.

A byte's expiry is the time of its last read over the whole inference, see times.py. The replay then
checks two things that together prove the plan: no write lands on a byte before its expiry, and
every byte that a call is about to read is still the one its producer wrote. Bytes past their expiry
are overwritten with POISON, so that a kernel which reads more than it admits shows in the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import PlanError
from ..graph import Tensor
from ..ops import Layer
from ..plan.plan import PROGRESS_BYTES, SCRATCH_ALIGN, Plan, Step, pool_scratch
from ..plan.schedule import OUTPUT, in_one_piece
from .events import TICKS, Called, Event
from .hops import played
from .streams import meeting
from .times import BEFORE, FOREVER, Times, reads

# Arrays of which parts are not there; their functions have no types.
ma: Any = np.ma
POISON = np.int8(-91)
NOBODY = -1
SCRATCH = -2


class VirtualMcu:
    """Replays one plan. Raises PlanError where the plan clobbers or loses a byte. calls: those that
    its emitted tables lead to, see decoded.py."""

    def __init__(self, plan: Plan, calls: Sequence[Sequence[Called]] | None = None):
        self.whole, self.size = plan, plan.pool_bytes
        self.played = played(plan, calls)
        self.plan = plan = self.played.plan
        self.tensors = plan.graph.tensors
        self.ids = {name: number for number, name in enumerate(self.tensors)}
        self.names = list(self.tensors)
        self.events = self.played.events
        self.layers = {id(e.step): e.layer for e in self.events if e.step and e.layer}
        self.times = Times(self.played)
        self._check_rings()
        self._check_elsewhere()

    def _check_rings(self) -> None:
        for name, placement in self.whole.placements.items():
            tensor, ring = self.whole.graph.tensors[name], placement.ring
            circle = self.plan.pool_of(placement.base)
            if ring % tensor.shape[2] or ring < 1 or ring > circle.size:
                raise PlanError(f"the ring of tensor '{name}' is no number of pixels in the pool")
            around = circle.around(placement.base) + ring > circle.stop
            if around and (ring % tensor.row_bytes or placement.phase % tensor.row_bytes):
                raise PlanError(f"the ring of tensor '{name}' splits rows and reaches around")

    def _check_elsewhere(self) -> None:
        """Checks that an input outside of the pool is fetched, column by column, and that no
        layer writes it."""
        outside = self.plan.graph.elsewhere
        for layer in self.layers.values():
            who = f"step '{layer.node.name}'"
            if outside & {layer.out.name, *(tensor.name for tensor in layer.ins)}:
                raise PlanError(f"{who} takes an input outside of the pool for one inside")
            if layer.outside is None:
                continue
            if layer.outside.name not in outside:
                raise PlanError(f"{who} fetches '{layer.outside.name}', which is in the pool")
            (height, width, channels), there = layer.out.shape, layer.outside.shape
            columns = layer.fetched
            inside = len(columns) == width and columns.stop <= there[1] and height <= there[0]
            if not inside or channels != there[2]:
                raise PlanError(f"{who} fetches what '{layer.outside.name}' does not have")

    def prove(self) -> None:
        """Replays addresses only."""
        self._replay(None)

    def run(self, inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Replays with values: int8 (H, W, C) of every tensor, as its producer computed it, masked
        where nothing ever needs it and it was not computed."""
        return self._replay(inputs)

    def _replay(self, inputs: Sequence[np.ndarray] | None) -> dict[str, np.ndarray]:
        size = self.size
        self.owner = np.full(size, NOBODY, np.int32)
        self.index = np.zeros(size, np.int32)
        self.expiry = np.full(size, BEFORE, np.int64)
        self.value = np.full(size, POISON, np.int8)
        produced: dict[str, np.ndarray] = {}
        values = {} if inputs is None else self.tensors
        seen = {name: np.full(t.shape, POISON, np.int8) for name, t in values.items()}
        for number, port in enumerate(self.plan.graph.inputs):
            tensor = self.tensors[port.tensor]
            data = None if inputs is None else np.asarray(inputs[number]).reshape(tensor.shape)
            if data is not None:
                produced[tensor.name] = data.astype(np.int8)
            if not self.plan.input_streamed and port in self.plan.graph.held:
                for y in range(tensor.shape[0]):
                    row = None if data is None else data[y]
                    self._write(tensor, y, (0, tensor.shape[1]), BEFORE, row, "the input")
        if inputs is not None:
            for node in self.plan.graph.nodes:
                for name in node.outputs:
                    produced[name] = ma.masked_all(self.tensors[name].shape, np.int8)
        self.kept: set[int] = set()
        before = None
        for event in self.events:
            if before is not None and self._hop_over(before, event):
                held = (self.expiry >= event.start) & (self.owner >= 0)
                self.kept |= set(self.owner[held].tolist())
            self._check_saved(event)
            self.times.pass_by(event)
            before = event
            if event.layer is None:
                self._deliver(event, produced if inputs is not None else None)
            else:
                self._compute(event, event.layer, seen, produced if inputs is not None else None)
        self._check_outputs()
        self._check_kept()
        for name, names in self.played.hops.items() if inputs is not None else ():
            produced[name] = ma.concatenate([produced.pop(at) for at in names])
        return {
            name: values if np.ma.is_masked(values) else np.asarray(values)
            for name, values in produced.items()
        }

    def _check_saved(self, event: Event) -> None:
        """Checks that the bytes alive when a row comes are part of the state, but for an answer."""
        if event.layer is not None or event.x or not self.played.answers:
            return
        at, size = self.plan.state
        alive = self.expiry >= event.start
        alive[at : at + size] = False
        if alive.any():
            byte = int(np.argmax(alive))
            raise PlanError(f"pool byte {byte} is not saved with the state; {self._holder(byte)}")

    def _hop_over(self, before: Event, event: Event) -> bool:
        """True between two calls where the caller has an answer."""
        if before.layer is None or not self.played.answers:
            return False
        if self.plan.graph.state.unbounded_nodes:
            return before.stage > 0 and event.stage == 0
        return event.layer is None and before.layer.out.name in self.played.answers

    def _deliver(self, event: Event, produced: dict[str, np.ndarray] | None) -> None:
        tensor = self.tensors[self.plan.graph.inputs[0].tensor]
        if event.first:
            self._hold_memory(event)
        part = (event.x, event.x + event.columns)
        row = None if produced is None else produced[tensor.name][event.y, slice(*part)]
        self._write(tensor, event.y, part, event.start, row, "the streamed input")

    def _compute(
        self,
        event: Event,
        layer: Layer[Any],
        seen: dict[str, np.ndarray],
        produced: dict[str, np.ndarray] | None,
    ) -> None:
        assert event.step is not None
        if event.first:
            self._hold_memory(event)
        read: list[tuple[Tensor, slice | np.ndarray]] = []
        for index, tensor in enumerate(layer.ins):
            for y, start, stop in reads(event, layer, index):
                where = self._where(tensor, y, start, stop)
                self._check_row(event, index, y, range(start, stop), where)
                read.append((tensor, where))
                if produced is not None:
                    values = self.value[self._cells(where)].reshape(stop - start, tensor.shape[2])
                    seen[tensor.name][y, start:stop] = values
        if not layer.sums:
            self._output(event, layer, event.y, (event.x, event.x + event.columns), seen, produced)
        elif event.y == layer.height - 1 and event.x + event.columns == layer.width:
            self._output(event, layer, 0, (0, layer.out.shape[1]), seen, produced)
        for tensor, where in read:
            self._poison(tensor, where, event.start + TICKS)
        if event.last:
            self._drop_memory(event)

    def _output(
        self,
        event: Event,
        layer: Layer[Any],
        y: int,
        part: tuple[int, int],
        seen: dict[str, np.ndarray],
        produced: dict[str, np.ndarray] | None,
    ) -> None:
        """Writes columns of output row y."""
        assert event.step is not None
        row = None
        if produced is not None:
            data = [seen[tensor.name] for tensor in layer.ins]
            if layer.outside is not None:
                data = [produced[layer.outside.name]]
            row = layer.rows(data, y, y + 1)[0][slice(*part)]
            produced[layer.out.name][y, slice(*part)] = row
        times: np.ndarray | int = event.start
        if not event.whole:
            ticks = None if layer.sums else self.times.in_call(event, layer, OUTPUT)
            times = event.start + (0 if ticks is None else ticks[slice(*part)])
        else:
            times = event.start + self.times.row_writes(layer, y)
        self._write(layer.out, y, part, times, row, f"step '{event.step.node.name}'")

    def _where(self, tensor: Tensor, y: int, start: int, stop: int) -> slice | np.ndarray:
        """The bytes of columns [start, stop) of a row."""
        placement = self.plan.placements[tensor.name]
        circle = self.plan.pool_of(placement.base)
        channels, end = tensor.shape[2], circle.stop
        first = (y * tensor.shape[1] + start) * channels
        count = (stop - start) * channels
        if (first + placement.phase) % placement.ring + count <= placement.ring:
            at = placement.at(first, circle)
            if at + count > end:
                raise PlanError(
                    f"row {y} of tensor '{tensor.name}' at byte {at} is split by the pool's end "
                    f"({end} bytes)"
                )
            return slice(at, at + count)
        # As vmcu_pixel() finds them: a pixel is in one piece.
        pixels = np.arange(first, first + count, channels)
        places = circle.around(placement.base) + (pixels + placement.phase) % placement.ring
        places = np.where(places < end, places, places - circle.size)
        if (places + channels > end).any():
            raise PlanError(
                f"a pixel of row {y} of tensor '{tensor.name}' is split by the pool's end "
                f"({end} bytes)"
            )
        return (places[:, None] + np.arange(channels)).ravel()

    def _check_row(
        self, event: Event, index: int, y: int, columns: range, where: slice | np.ndarray
    ) -> None:
        """The columns that a call is about to read of an input are there, `where` they are in the
        pool."""
        assert event.step is not None and event.layer is not None
        layer, tensor = event.layer, event.layer.ins[index]
        split = isinstance(where, np.ndarray) and bool((np.diff(where) != 1).any())
        if split and (not layer.by_columns or index in in_one_piece(layer)):
            raise PlanError(
                f"step '{event.step.node.name}' needs row {y} of '{tensor.name}' in one piece"
            )
        first = y * tensor.row_bytes + columns.start * tensor.shape[2]
        expected = np.arange(first, first + len(columns) * tensor.shape[2])
        cells = self._cells(where)
        lost = (self.owner[cells] != self.ids[tensor.name]) | (self.index[cells] != expected)
        if not lost.any():
            return
        part = slice(columns.start, columns.stop)
        lost &= self.times.expiry(tensor.name, y, part) >= event.start
        if lost.any():
            at = int(np.argmax(lost))
            place = int(np.arange(self.size)[cells][at])
            raise PlanError(
                f"step '{event.step.node.name}', row {event.y}: byte {int(expected[at])} of tensor "
                f"'{tensor.name}', of its row {y} (pool byte {place}), is gone; "
                f"{self._holder(place)}"
            )

    def _write(
        self,
        tensor: Tensor,
        y: int,
        part: tuple[int, int],
        times: np.ndarray | int,
        values: np.ndarray | None,
        who: str,
    ) -> None:
        where = self._where(tensor, y, *part)
        if not isinstance(where, slice):
            raise PlanError(f"{who}, row {y}: the ring of '{tensor.name}' splits what is written")
        cells = self._cells(where)
        flat = np.broadcast_to(np.ravel(times), where.stop - where.start)
        clobbered = self.expiry[cells] > flat
        if clobbered.any():
            at = int(np.argmax(clobbered))
            place = int(np.arange(self.size)[cells][at])
            raise PlanError(
                f"{who}, row {y}: writing byte {at} of tensor '{tensor.name}' (pool byte "
                f"{place}) destroys a live byte; {self._holder(place)}"
            )
        first = y * tensor.row_bytes + part[0] * tensor.shape[2]
        self.owner[cells] = self.ids[tensor.name]
        self.index[cells] = np.arange(first, first + flat.size)
        self.expiry[cells] = self.times.expiry(tensor.name, y, slice(*part))
        if values is not None:
            self.value[cells] = values.ravel()

    def _check_outputs(self) -> None:
        """Graph outputs are there, whole, when the inference is over."""
        for port in self.plan.graph.outputs:
            tensor = self.tensors[port.tensor]
            for y in range(tensor.shape[0] - self.plan.graph.rows_at_once(port), tensor.shape[0]):
                cells = self._cells(self._where(tensor, y, 0, tensor.shape[1]))
                expected = np.arange(tensor.row_bytes) + y * tensor.row_bytes
                mine = self.owner[cells] == self.ids[tensor.name]
                if not (mine & (self.index[cells] == expected)).all():
                    raise PlanError(f"row {y} of output '{tensor.name}' is gone at the end")

    def _check_kept(self) -> None:
        """Checks that rings kept from one hop to the next share no bytes, as each turns at its
        own speed."""
        names = [self.names[number] for number in sorted(self.kept)]
        kept = [self.plan.placements[name] for name in names if name not in self.played.answers]
        for one, other in meeting(kept, self.whole):
            raise PlanError(f"rings of '{one}' and '{other}' share bytes, but turn differently")

    def _holder(self, at: int) -> str:
        owner = int(self.owner[at])
        if owner == SCRATCH:
            return "it holds scratch"
        if owner == NOBODY:
            return "it holds nothing"
        tensor = self.tensors[self.names[owner]]
        y, rest = divmod(int(self.index[at]), tensor.row_bytes)
        return f"it holds byte {rest} of row {y} of tensor '{tensor.name}'"

    def _poison(self, tensor: Tensor, where: slice | np.ndarray, now: int) -> None:
        """Those bytes of a tensor that nobody needs from now on are gone."""
        cells = self._cells(where)
        dead = (self.owner[cells] == self.ids[tensor.name]) & (self.expiry[cells] < now)
        if not dead.any():
            return
        at = cells.start + np.flatnonzero(dead) if isinstance(cells, slice) else cells[dead]
        self.value[at] = POISON
        self.owner[at] = NOBODY

    def _memory(self, event: Event) -> tuple[slice | None, list[slice]]:
        """Returns the data of a stage in the pool besides tensors: its progress, None for a
        layer on its own, and by step its kernel's scratch."""
        steps = self.plan.stages[event.stage]
        progress = None
        if not event.whole:
            at = self.plan.progress[event.stage]
            if at % PROGRESS_BYTES:
                raise PlanError(f"stage {event.stage}: its progress is misaligned")
            progress = self._run(at, PROGRESS_BYTES * len(steps))
        return progress, [self._run(step.scratch, step.scratch_bytes) for step in steps]

    def _layer(self, step: Step) -> Layer[Any]:
        return self.layers.get(id(step)) or step.bind(self.plan.graph)

    def _run(self, at: int, size: int) -> slice:
        """Bytes of the pool that lie side by side."""
        if not 0 <= at <= at + size <= self.size:
            raise PlanError(f"scratch of {size} bytes at {at} ends beyond the pool")
        if size and self.plan.regions and at + size > self.plan.pool_of(at).stop:
            raise PlanError(f"scratch of {size} bytes at {at} ends beyond the pool that it is in")
        return slice(at, at + size)

    def _hold_memory(self, event: Event) -> None:
        steps = self.plan.stages[event.stage]
        progress, scratch = self._memory(event)
        for number, (step, where) in enumerate(zip(steps, scratch, strict=True)):
            layer, who = self._layer(step), f"step '{step.node.name}'"
            if step.scratch_bytes < pool_scratch(layer) or where.start % SCRATCH_ALIGN:
                raise PlanError(f"{who}: its scratch is too small or misaligned")
            if progress is not None and self._overlap(progress, where):
                raise PlanError(f"{who}: its stage's progress and its scratch overlap")
            others = (other for n, other in enumerate(scratch) if n != number)
            if layer.sums and any(self._overlap(where, other) for other in others):
                raise PlanError(f"{who}: its sums are another step's scratch")
        held = [*scratch, *([] if progress is None else [progress])]
        for cells in map(self._cells, held):
            self.owner[cells] = SCRATCH
            self.expiry[cells] = FOREVER
            self.value[cells] = POISON

    def _drop_memory(self, event: Event) -> None:
        progress, scratch = self._memory(event)
        for cells in map(self._cells, [*scratch, *([] if progress is None else [progress])]):
            self.owner[cells] = NOBODY
            self.expiry[cells] = BEFORE

    def _cells(self, where: slice | np.ndarray) -> slice | np.ndarray:
        """Indices of the bytes at addresses `where` in the arrays that describe the pool."""
        return where

    def _overlap(self, one: slice, other: slice) -> bool:
        """True if two ranges of addresses share a byte."""
        shared: bool = max(one.start, other.start) < min(one.stop, other.stop)
        return shared
