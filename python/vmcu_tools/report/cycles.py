# SPDX-License-Identifier: Apache-2.0
"""Cycles of layers by estimate, from their rates, and milliseconds on a board; `vmcu bench` counts
cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..plan.plan import Plan
from ..planner.stages.costs import calls_of

if TYPE_CHECKING:
    from ..boards.table import Board

# Cycles of the executor for each call of a kernel: in a fused stage, and in a layer alone.
FUSED_CALL, ROW_CALL = 190, 45


def cycles_of(plan: Plan) -> list[int]:
    """Cycles of each step, on a Cortex-M4 without wait states, those of the executor included."""
    cycles = []
    for steps in plan.stages:
        executor = FUSED_CALL if len(steps) > 1 else ROW_CALL
        for layer in (step.bind(plan.graph) for step in steps):
            calls = calls_of(layer)
            cycles.append(round(layer.cycles(calls) + executor * calls))
    return cycles


def cycle_seconds(board: Board) -> float:
    """Converts a cycle on a Cortex-M4 without wait states to seconds on a board that has an
    estimate."""
    assert board.megahertz is not None
    return board.cycle_factor / board.megahertz / 1e6


def printed(time: float) -> str:
    """Milliseconds with three digits at least."""
    return f"{time:,.0f}" if time >= 100 else f"{time:.3g}"
