# SPDX-License-Identifier: Apache-2.0
"""Planners side by side on one model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .compiler import compile_model
from .planner import DEFAULT, PLANNERS
from .report.model import step_bytes


@dataclass(frozen=True)
class Row:
    """One planner's figures. `ratio`: its pool to the default planner's; `largest_step`: bytes in
    use at its worst step."""

    planner: str
    pool_bytes: int
    ratio: float
    largest_step: int
    solve_seconds: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    model: str
    planners: tuple[Row, ...]


def compare(path: Path) -> Comparison:
    """Every planner's proven plan for a model file; UserError as compile_model.

    Those that come from elsewhere as they are there, for their own kernels.
    """
    plans = {name: compile_model(path, name, original=True) for name in PLANNERS}
    best = plans[DEFAULT].pool_bytes
    rows = tuple(
        Row(
            name,
            plan.pool_bytes,
            round(plan.pool_bytes / best, 3),
            max(step_bytes(plan)),
            round(plan.solve_seconds, 3),
            plan.notes,
        )
        for name, plan in plans.items()
    )
    return Comparison(path.stem, rows)
