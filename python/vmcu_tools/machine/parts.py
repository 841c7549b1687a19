# SPDX-License-Identifier: Apache-2.0
"""Calls in parts: where a ring's end splits a row, the executor makes two of one (stage.c)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..ops import Layer
from ..plan.calls import STREAMED
from ..plan.plan import Plan
from ..plan.schedule import OUTPUT, Call, operand
from .tables import expect


class Taken:
    """The position in the caller's rows up to which the streamed input has been read."""

    def __init__(self, plan: Plan):
        self.plan, self.y, self.x = plan, 0, 0
        self.tensor = plan.graph.tensors[plan.graph.inputs[0].tensor]

    def next(self, most: int) -> Iterator[Call]:
        """Yields the next reads, in the parts that the input's ring splits them into."""
        height, width, _ = self.tensor.shape
        expect(self.y < height, "more rows are taken than there are")
        left = min(most, width - self.x)
        while left > 0:
            part = _unsplit(self.plan, self.tensor.name, self.y, self.x, left)
            yield Call(STREAMED, self.y, self.x, part)
            self.x, left = self.x + part, left - part
        if self.x == width:
            self.y, self.x = self.y + 1, 0


def parts_of(plan: Plan, layer: Layer[Any], splits: int, call: Call) -> Iterator[Call]:
    """A call in the parts that the executor divides it into. splits: struct vmcu_layer's."""
    indices = [OUTPUT + bit for bit in range(8) if splits >> bit & 1]
    expect(all(index < len(layer.ins) for index in indices), "an input splits that is not there")
    names = [operand(layer, index).name for index in indices]
    end = call.x + call.columns
    while call.x < end:
        columns = end - call.x
        for name in names:
            columns = _unsplit(plan, name, call.y, call.x, columns)
        yield call._replace(columns=columns)
        call = call._replace(x=call.x + columns)


def _unsplit(plan: Plan, name: str, y: int, x: int, columns: int) -> int:
    """vmcu_unsplit(): of a row's pixels from x on, those in front of the place that splits it."""
    placement, (_, width, channels) = plan.placements[name], plan.graph.tensors[name].shape
    left = placement.ring - ((y * width + x) * channels + placement.phase) % placement.ring
    return columns if left >= columns * channels else left // channels
