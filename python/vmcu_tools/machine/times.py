# SPDX-License-Identifier: Apache-2.0
"""When bytes are needed for the last time, known ahead from the layers' order of access.

Time is counted in events, one per call of a kernel, and ticks within one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..graph import Tensor
from ..ops import Layer
from ..ops.layer import NEVER, ProgramLayer
from ..plan.schedule import OUTPUT
from .events import TICKS, Event
from .hops import Played

FOREVER = np.iinfo(np.int64).max
BEFORE = -1


class Times:
    """The times of all events of a replay. Maps of every byte, int64 (H, W, C), take eight times
    a tensor's bytes: each is made when it is asked for, and dropped when the replay has passed
    its use."""

    def __init__(self, played: Played):
        self.played, self.plan, self.events = played, played.plan, played.events
        self.tensors = self.plan.graph.tensors
        self.readers: dict[str, list[tuple[Event, int]]] = {name: [] for name in self.tensors}
        for event in self.events:
            for index, tensor in enumerate(event.layer.ins if event.layer else ()):
                self.readers[tensor.name].append((event, index))
        lasts = ((its[-1][0].number, name) for name, its in self.readers.items() if its)
        # Copies have the times of their originals, later.
        self.ends = [] if played.copies else sorted(lasts, reverse=True)
        self.expiry_of: dict[str, np.ndarray] = {}
        self.writing: tuple[Layer[Any] | None, np.ndarray] = None, np.empty(0, np.int64)
        self.in_calls: dict[tuple[int, int, int, int], np.ndarray | None] = {}
        self.sharing: dict[int, bool] = {}

    def pass_by(self, event: Event) -> None:
        """Drops the maps of tensors that no event from this one on reads."""
        while self.ends and self.ends[-1][0] < event.number:
            self.expiry_of.pop(self.ends.pop()[1], None)

    def row_writes(self, layer: Layer[Any], y: int) -> np.ndarray:
        """The ticks, from the start of a row, at which a layer on its own writes row y of its
        output, int64 (W, C)."""
        if isinstance(layer, ProgramLayer):
            ticks = layer.writes_in_call(0, layer.out.shape[1])
            assert ticks is not None, "a program tells its order"
            return ticks
        if self.writing[0] is not layer:
            self.writing = layer, layer.writes()
        row: np.ndarray = self.writing[1][y] - layer.turn(y) * layer.ticks_per_row
        return row

    def _expiries(self, name: str) -> np.ndarray:
        """Returns the time of the last read of each byte of a tensor."""
        tensor = self.tensors[name]
        if any(port.tensor == name for port in self.plan.graph.outputs):
            kept: np.ndarray = np.broadcast_to(np.int64(FOREVER), tensor.shape)
            return self._answered(kept, name) if name in self.played.answers else kept
        expiry = np.full(tensor.shape, BEFORE, np.int64)
        for event, index in self.readers[name]:
            layer = event.layer
            assert layer is not None
            if not event.whole:
                ticks = self.in_call(event, layer, index)
                for y, start, stop in reads(event, layer, index):
                    last = TICKS - 1 if ticks is None else ticks[start:stop]
                    expiry[y, start:stop] = event.start + last
            elif event.first:
                for known, (turn, ticks) in zip(expiry, last_reads(layer, index), strict=True):
                    times = (event.number + turn) * TICKS + ticks
                    unread = (ticks < 0) | (turn < 0)
                    np.maximum(known, np.where(unread, BEFORE, times), out=known)
        return self._answered(expiry, name) if name in self.played.answers else expiry

    def _answered(self, expiry: np.ndarray, name: str) -> np.ndarray:
        """The caller of a stream reads an answer before it brings the next row."""
        expiry, until = expiry.copy(), FOREVER
        for event in reversed(self.events):
            if event.layer is None:
                until = event.start - 1
            elif event.layer.out.name == name:
                expiry[slice(None) if event.layer.sums else event.y] = until
        return expiry

    def expiry(self, name: str, y: int, part: slice) -> np.ndarray:
        """Time of the last read of the bytes of columns of a row, int64."""
        copy = self.played.copies.get(name)
        its = name if copy is None else copy.of
        if its not in self.expiry_of:
            self.expiry_of[its] = self._expiries(its)
        times = self.expiry_of[its][y, part].ravel()
        if copy is None:
            return times
        return np.where(times < 0, BEFORE, times + copy.later)

    def in_call(self, event: Event, layer: Layer[Any], index: int) -> np.ndarray | None:
        """The ticks of reads or, for OUTPUT, writes in a call of a stage of several layers. They
        matter where the call writes its own input."""
        if id(layer) not in self.sharing:
            self.sharing[id(layer)] = any(self._overlap(layer.out, one) for one in layer.ins)
        if not self.sharing[id(layer)]:
            return None
        key = (id(layer), index, event.x, event.columns)
        if key not in self.in_calls:
            columns = (event.x, event.columns)
            self.in_calls[key] = (
                layer.writes_in_call(*columns)
                if index == OUTPUT
                else layer.reads_in_call(index, *columns)
            )
        return self.in_calls[key]

    def _overlap(self, one: Tensor, other: Tensor) -> bool:
        """True if the rings of two tensors have bytes in common."""
        a, b = (self.plan.placements[tensor.name] for tensor in (one, other))
        circle, other_circle = map(self.plan.pool_of, (a.base, b.base))
        size = circle.size
        near = (b.base - a.base) % size < a.ring or (a.base - b.base) % size < b.ring
        return circle == other_circle and near


def reads(event: Event, layer: Layer[Any], index: int) -> Iterator[tuple[int, int, int]]:
    """Rows of an input with the columns that a call reads of them: y, start, stop."""
    tensor = layer.ins[index]
    if event.whole:
        columns = range(tensor.shape[1])
    else:
        last = event.x + event.columns - 1
        columns = layer.reach(index).span(1, event.x, last, tensor.shape[1])
    if columns:
        for y in layer.input_rows(index, event.y):
            yield y, columns.start, columns.stop


def last_reads(layer: Layer[Any], index: int) -> Iterator[tuple[Any, np.ndarray]]:
    """Yields for each row of an input the turns of a layer on its own that read its bytes for
    the last time, and the ticks in them, int64 (W, C); NEVER where none does. A map of all rows
    takes memory."""
    if not isinstance(layer, ProgramLayer):
        for row in layer.last_reads(index):
            turns, ticks = np.divmod(row, layer.ticks_per_row)
            yield turns, np.where(row < 0, NEVER, ticks)
        return
    in_a_row = layer.reads_in_call(index, 0, layer.out.shape[1])
    assert in_a_row is not None, "a program tells its order"
    for turn in layer.last_turns(index):
        yield turn, in_a_row
