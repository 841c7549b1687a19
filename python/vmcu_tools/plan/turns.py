# SPDX-License-Identifier: Apache-2.0
"""The rows after which the rings of an unbounded stage have turned around.

Rows of such a stage have no last number. A layer counts its own until all rings that it reads and
writes are where they were at its first call, and then begins again: rows and places are the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..ops import Layer
from .calls import STREAMED
from .plan import Plan
from .schedule import stage_at


@dataclass(frozen=True)
class Turns:
    """The rows of each layer: `rows` of its own until its rings are where they were; from row
    `starts` on it sees no padding in front of the first row of an input; for `every` so many
    rows of the input it has one. `source`: rows of the streamed input until its own ring is
    where it was."""

    rows: tuple[int, ...]
    starts: tuple[int, ...]
    every: tuple[int, ...]
    source: int


def turn_of(ring: int, row_bytes: int) -> int:
    """Rows after which a ring of so many bytes is where it was."""
    return ring // math.gcd(ring, row_bytes)


def turns_of(plan: Plan) -> Turns:
    """Computes the turns of a plan whose first stage is unbounded."""
    source = plan.graph.tensors[plan.graph.inputs[0].tensor]
    every, rows, starts = {source.name: 1}, [], []
    for step in plan.stages[0]:
        layer = step.bind(plan.graph)
        rows.append(_rows(plan, layer))
        starts.append(max(layer.rows_ahead, layer.startup_rows))
        every[layer.out.name] = every[layer.ins[0].name] * layer.reach(0).stride[0]
    outs = tuple(every[step.node.outputs[0]] for step in plan.stages[0])
    ring = plan.placements[source.name].ring
    return Turns(tuple(rows), tuple(starts), outs, turn_of(ring, source.row_bytes))


def _rows(plan: Plan, layer: Layer[Any]) -> int:
    periods = [turn_of(plan.placements[layer.out.name].ring, layer.out.row_bytes)]
    for index, tensor in enumerate(layer.ins):
        moved = layer.reach(index).stride[0] * tensor.row_bytes
        periods.append(turn_of(plan.placements[tensor.name].ring, moved))
    return math.lcm(*periods)


def macs_of_hop(plan: Plan) -> list[int]:
    """Multiply-accumulates of each layer from one answer to the next."""
    hop, first = plan.graph.state.step_rows, plan.stages[0]
    unbounded = [
        layer.macs // layer.out.shape[0] * (hop // every)
        for step, every in zip(first, turns_of(plan).every, strict=True)
        for layer in (step.bind(plan.graph),)
    ]
    return unbounded + [step.bind(plan.graph).macs for step in plan.steps[len(first) :]]


def first_rows(plan: Plan) -> int:
    """Rows of the input up to the first answer; less than a window where nobody reads its last."""
    stage = stage_at(plan, 0)
    assert stage is not None
    rows, last = 0, len(stage.layers) - 1
    for call in stage.calls():
        rows += call.layer == STREAMED
        if call.layer == last and call.x + call.columns == stage.layers[last].width:
            break
    return rows
