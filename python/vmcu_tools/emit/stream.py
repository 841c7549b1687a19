# SPDX-License-Identifier: Apache-2.0
"""The tables of a model that keeps rows from one answer to the next."""

from __future__ import annotations

from dataclasses import dataclass

from ..plan.plan import Plan
from ..plan.turns import turns_of
from .initialisers import rows_of


@dataclass(frozen=True)
class StreamRow:
    """struct vmcu_stream: lines of `calls`, by layer, until its rings are as they were `again`
    calls after the first; `rows` of the input until its own is; `model` tells it from others.
    state, state_bytes: of the pool, the whole state. window, hop: for the header, rows. states:
    stages at the end that keep the states that layers have computed."""

    calls: list[str]
    again: list[str]
    rows: int
    state: int
    state_bytes: int
    window: int
    hop: int
    states: int = 0
    model: int = 0


def stream_row(plan: Plan) -> StreamRow | None:
    """Returns the row of a plan; None if it has no state."""
    if not plan.graph.state.step_rows:
        return None
    turns, calls, again = turns_of(plan), [], []
    for step, rows, start in zip(plan.stages[0], turns.rows, turns.starts, strict=True):
        layer = step.bind(plan.graph)
        across = -(-layer.width // layer.columns)
        calls.append((start + rows) * across)
        again.append(start * across)
    window = plan.model.tensors[plan.model.inputs[0].tensor].shape[0]
    made, later = (rows_of([*map(str, counts)], 12) for counts in (calls, again))
    states = len(plan.graph.stored_states)
    return StreamRow(
        made, later, turns.source, *plan.state, window, plan.graph.state.step_rows, states
    )
