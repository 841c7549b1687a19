# SPDX-License-Identifier: Apache-2.0
"""What a planner may be asked for."""

from __future__ import annotations

from dataclasses import dataclass

# What solvers may take, in seconds on a desktop computer.
SOLVER_SECONDS = 10.0
# The part of its instructions that a model may spend on tiles.
TILE_COST = 1.0


@dataclass(frozen=True)
class Options:
    """seconds: for solvers, where one is needed; ram: bytes the pool may have, None for as few as
    possible; stream_input: the only input is delivered row by row; tile_cost: the part of a
    model's instructions that working in tiles may cost, by estimate."""

    seconds: float = SOLVER_SECONDS
    ram: int | None = None
    stream_input: bool = False
    tile_cost: float = TILE_COST
