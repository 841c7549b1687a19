# SPDX-License-Identifier: Apache-2.0
"""The events of an inference, call by call, and their times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..ops import Layer
from ..plan.calls import STREAMED
from ..plan.plan import Plan, Step
from ..plan.schedule import Call, Stage, in_one_piece, operand, pieces, stage_at

TICKS = 1 << 32
# Stands for the layer in calls of a stage of one layer, which has no schedule.
WHOLE = -3
Called = tuple[Step | None, Layer[Any] | None, Call]


@dataclass(frozen=True, eq=False)
class Event:
    """One call of a step's layer: columns [x, x + columns) of row `y`. `number` counts calls from
    the start of the inference. Without a layer: the caller delivers row y of the streamed input.

    whole: the call is one of a layer on its own, whose order of access is known tick by tick.
    In a stage of several it is known for layers whose output shares an input's ring; otherwise all
    of a call's reads are taken to come after all of its writes.
    """

    number: int
    stage: int
    step: Step | None
    layer: Layer[Any] | None
    y: int
    x: int
    columns: int
    whole: bool
    first: bool
    last: bool

    @property
    def start(self) -> int:
        """Its first tick."""
        return self.number * TICKS


def events(plan: Plan, calls: Sequence[Sequence[Called]] | None = None) -> Iterator[Event]:
    """The calls of an inference in execution order; first, last: of a stage's memory. calls: by
    stage, those that emitted tables lead to, in place of those that the plan means."""
    number = 0
    for index in range(len(plan.stages)):
        here = list(planned_calls(plan, index)) if calls is None else calls[index]
        yield from events_of(index, here, number)
        number += len(here)


def events_of(stage: int, calls: Sequence[Called], number: int) -> Iterator[Event]:
    """The calls of a stage in which it is done, of which the first is `number`."""
    for place, (step, layer, call) in enumerate(calls):
        first, last = place == 0, place == len(calls) - 1
        where = (call.y, call.x, call.columns)
        whole = call.layer == WHOLE
        yield Event(number + place, stage, step, layer, *where, whole, first, last)


def planned_calls(plan: Plan, number: int) -> Iterator[Called]:
    """The calls of a stage as the plan means them."""
    stage = stage_at(plan, number)
    return _layer_calls(plan, number) if stage is None else _stage_calls(plan, number, stage)


def _layer_calls(plan: Plan, number: int) -> Iterator[Called]:
    step = plan.stages[number][0]
    layer = step.bind(plan.graph)
    for turn in range(layer.height):
        yield step, layer, Call(WHOLE, layer.turn(turn), 0, layer.out.shape[1])


def _stage_calls(plan: Plan, number: int, stage: Stage) -> Iterator[Called]:
    steps = plan.stages[number]
    joined = [[operand(layer, index) for index in in_one_piece(layer)] for layer in stage.layers]
    for call in stage.calls():
        if call.layer == STREAMED:
            assert stage.source is not None
            yield from ((None, None, part) for part in pieces(plan, call, [stage.source]))
        else:
            step, layer = steps[call.layer], stage.layers[call.layer]
            for part in pieces(plan, call, joined[call.layer]):
                yield step, layer, part
