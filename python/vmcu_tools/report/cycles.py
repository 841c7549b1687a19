# SPDX-License-Identifier: Apache-2.0
"""Cycles of layers by estimate, from their rates, and milliseconds on a board; `vmcu bench` counts
cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ops import Layer
from ..plan.plan import Plan
from ..planner.stages.costs import calls_of

if TYPE_CHECKING:
    from ..bench.boards import Board

# Kernels with a float32 factor, as Op.requantisers names it.
FLOATING = "FLOAT"


def layer_cycles(layer: Layer[Any]) -> int:
    """Of one layer, on a Cortex-M4 without wait states."""
    rates = layer.rates
    each = rates.byte + rates.floating * (FLOATING in layer.op.requantisers)
    taps = layer.macs / layer.out.shape[2]
    moved = rates.tap * taps + each * layer.out.bytes
    return round(rates.call * calls_of(layer) + rates.mac * layer.macs + moved)


def cycles_of(plan: Plan) -> list[int]:
    """By step."""
    return [layer_cycles(step.bind(plan.graph)) for step in plan.steps]


def cycle_seconds(board: Board) -> float:
    """What a cycle on a Cortex-M4 without wait states becomes on a board that has an estimate."""
    assert board.megahertz is not None
    return board.cycle_factor / board.megahertz / 1e6


def printed(time: float) -> str:
    """Milliseconds with three digits at least."""
    return f"{time:,.0f}" if time >= 100 else f"{time:.3g}"
