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
from ..plan.schedule import OUTPUT
from .events import TICKS, Event
from .hops import Played

FOREVER = np.iinfo(np.int64).max
BEFORE = -1


class Times:
    """Of all events of a replay. expiry_of: by tensor the time of the last read of every byte,
    int64 (H, W, C); writes_of: by layer on its own, by its id, the ticks of its writes."""

    def __init__(self, played: Played):
        self.played, self.plan, self.events = played, played.plan, played.events
        self.tensors = self.plan.graph.tensors
        self.writes_of: dict[int, np.ndarray] = {}
        self.in_calls: dict[tuple[int, int, int, int], np.ndarray | None] = {}
        self.sharing: dict[int, bool] = {}
        self.expiry_of = self._expiries()

    def _expiries(self) -> dict[str, np.ndarray]:
        copies = self.played.copies
        expiry = {
            name: np.full(tensor.shape, BEFORE, np.int64)
            for name, tensor in self.tensors.items()
            if name not in copies
        }
        for event in self.events:
            layer = event.layer
            if layer is None:
                continue
            for index, tensor in enumerate(layer.ins):
                if tensor.name in copies:
                    continue
                if not event.whole:
                    ticks = self.in_call(event, layer, index)
                    for y, start, stop in reads(event, layer, index):
                        last = TICKS - 1 if ticks is None else ticks[start:stop]
                        expiry[tensor.name][y, start:stop] = event.start + last
                elif event.first:
                    ticks = layer.last_reads(index)
                    row, tick = np.divmod(ticks, layer.ticks_per_row)
                    times = np.where(ticks < 0, BEFORE, (event.number + row) * TICKS + tick)
                    np.maximum(expiry[tensor.name], times, out=expiry[tensor.name])
            if event.whole and event.first:
                self.writes_of[id(layer)] = layer.writes()
        for port in self.plan.graph.outputs:
            expiry[port.tensor][...] = FOREVER
        self._answers(expiry)
        return expiry

    def _answers(self, expiry: dict[str, np.ndarray]) -> None:
        """The caller of a stream reads an answer before it brings the next row."""
        until = FOREVER
        for event in reversed(self.events if self.played.answers else ()):
            if event.layer is None:
                until = event.start - 1
            elif event.layer.out.name in self.played.answers:
                rows = slice(None) if event.layer.sums else event.y
                expiry[event.layer.out.name][rows] = until

    def expiry(self, name: str, y: int, part: slice) -> np.ndarray:
        """Time of the last read of the bytes of columns of a row, int64."""
        copy = self.played.copies.get(name)
        if copy is None:
            return self.expiry_of[name][y, part].ravel()
        times = self.expiry_of[copy.of][y, part].ravel()
        return np.where(times < 0, BEFORE, times + copy.later)

    def in_call(self, event: Event, layer: Layer[Any], index: int) -> np.ndarray | None:
        """The ticks of reads or, for OUTPUT, writes in a call of a stage of several layers. They
        matter where the call writes what it reads."""
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
