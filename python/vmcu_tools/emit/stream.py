# SPDX-License-Identifier: Apache-2.0
"""What the tables of a model say that keeps rows from one answer to the next."""

from __future__ import annotations

from dataclasses import dataclass

from ..plan.plan import Plan
from ..plan.turns import turns_of
from .initialisers import rows_of


@dataclass(frozen=True)
class StreamRow:
    """struct vmcu_stream: lines of `calls`, by layer, until its rings are as they were; `rows` of
    the input until its own is; `model` tells it from others. window, hop: for the header, rows."""

    calls: list[str]
    rows: int
    window: int
    hop: int
    model: int = 0


def stream_row(plan: Plan) -> StreamRow | None:
    """Of a plan; None if nothing of it is kept."""
    if not plan.graph.hop:
        return None
    turns, calls = turns_of(plan), []
    for step, rows in zip(plan.steps, turns.rows, strict=True):
        layer = step.bind(plan.graph)
        calls.append(rows * -(-layer.width // layer.columns))
    window = plan.model.tensors[plan.model.inputs[0].tensor].shape[0]
    return StreamRow(rows_of([*map(str, calls)], 12), turns.source, window, plan.graph.hop)
