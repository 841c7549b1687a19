# SPDX-License-Identifier: Apache-2.0
"""Milliseconds on a board by estimate; `vmcu bench` counts cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..boards.table import Board


def cycle_seconds(board: Board) -> float:
    """Converts a cycle on a Cortex-M4 without wait states to seconds on a board that has an
    estimate."""
    assert board.megahertz is not None
    return board.cycle_factor / board.megahertz / 1e6


def printed(time: float) -> str:
    """Milliseconds with three digits at least."""
    return f"{time:,.0f}" if time >= 100 else f"{time:.3g}"
