# SPDX-License-Identifier: Apache-2.0
"""Everything that an inference writes, piece by piece, and which piece wears out first."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from vmcu_tools.plan.plan import SCRATCH_ALIGN, Plan

from . import pool
from .heap import Run
from .tasks import WORD
from .traces import Stored, StoreTrace

# Written by benchmarks/endurance/run.py: the costs of jobs on stacks that move, besides inferences.
SUPERVISED = Path(__file__).parent / "supervised.json"
STAYS, MOVES = "stack stays", "stack moves"
POSITION = re.compile(r"positions\[\d+\]")


@dataclass(frozen=True)
class Object:
    """A piece of memory. writes: to its most written byte an inference, in the long run.
    lifetime_inferences: until that byte has been written `endurance` times; years at the rate asked
    for. moves: its writes spread over it. within: the settings that have it, of STAYS and MOVES."""

    name: str
    bytes: int
    writes: float
    lifetime_inferences: int
    lifetime_years: float
    moves: bool
    within: tuple[str, ...]


@dataclass(frozen=True)
class Cells:
    """Memory whose cells survive `endurance` writes, at `rate` inferences a second."""

    endurance: int
    rate: float

    def piece(
        self,
        name: str,
        count: int,
        writes: float,
        inferences: int | None = None,
        moves: bool = False,
        within: tuple[str, ...] = (STAYS, MOVES),
    ) -> Object:
        """inferences: where they do not follow from the mean."""
        lasts = int(self.endurance / writes) if inferences is None else inferences
        years = lasts / self.rate / pool.SECONDS_PER_YEAR
        return Object(name, count, writes, lasts, years, moves, within)


def objects(plan: Plan, trace: StoreTrace, stack: Mapping[str, Run], cells: Cells) -> list[Object]:
    """All that one inference of the plan writes to. stack: runs under "walk", the moving stack.
    The share of a supervisor and the kernel was measured on the core's Zephyr board."""
    walk = stack["walk"]
    moving = float(walk.writes().max()) / walk.rounds
    written = [
        *_pool(plan, trace.pool, cells),
        *_context(plan, trace.context, cells),
        *(cells.piece(f"variable {one.name}", one.bytes, one.stores) for one in trace.variables),
        cells.piece("stack", WORD * trace.stack.size, float(trace.stack.max()), within=(STAYS,)),
        cells.piece("stack, moving", walk.setting.heap_bytes, moving, moves=True, within=(MOVES,)),
    ]
    # The caller may push rows in as many jobs.
    jobs = plan.graph.tensors[plan.graph.inputs[0].tensor].shape[0] if plan.input_streamed else 1
    for one in supervised(trace.target):
        written.append(cells.piece(one.name, one.bytes, jobs * one.writes, within=(MOVES,)))
    return written


def _pool(plan: Plan, writes: np.ndarray, cells: Cells) -> list[Object]:
    if plan.rotation is None:
        return [cells.piece("pool", plan.pool_bytes, float(writes.max()))]
    step = plan.rotation.step
    origins = writes.size // math.gcd(step, writes.size)
    most = float(pool.rotated_writes(writes, step, origins).max()) / origins
    lasts = pool.lifetime(writes, step, cells.endurance)
    pieces = [cells.piece("pool", plan.pool_bytes, most, lasts, moves=True)]
    if plan.rotation.overhang:
        # It stands for bytes of the circle, at some origins: never written more often than they.
        name = "pool's overhang, at most"
        pieces.append(cells.piece(name, plan.rotation.overhang, most, lasts, moves=True))
    return pieces


def _context(plan: Plan, fields: Sequence[Stored], cells: Cells) -> list[Object]:
    """Lists the members of the context, those of all positions as one."""
    positions = len({match[0] for one in fields if (match := POSITION.match(one.name))})
    share = position_share(plan, positions)
    stores: dict[str, tuple[int, float]] = {}
    for field in fields:
        name, changed = POSITION.subn("positions[]", field.name)
        size, before = stores.get(name, (0, 0.0))
        stores[name] = (size + field.bytes, before + field.stores * (share if changed else 1.0))
    return [
        cells.piece(f"context.{name}", size, writes)
        for name, (size, writes) in stores.items()
        if writes
    ]


def position_share(plan: Plan, positions: int) -> float:
    """Returns the share of inferences that use the context's most used position, see
    vmcu_position()."""
    if plan.rotation is None:
        return 1.0
    places = np.arange(plan.pool_bytes // SCRATCH_ALIGN)
    return float(np.bincount(places % positions).max() / places.size)


@dataclass(frozen=True)
class PerJob:
    """The writes of jobs on stacks that move, besides their inferences, under Zephyr."""

    name: str
    bytes: int
    writes: float


@functools.cache
def supervised(target: str) -> tuple[PerJob, ...]:
    """Returns the figures of the board with the target's core; of a core that was not measured,
    the most of any."""
    boards = json.loads(SUPERVISED.read_text(encoding="utf-8"))
    own = [board for board in boards.values() if target.startswith(board["target"])]
    worst: dict[str, PerJob] = {}
    for board in own or boards.values():
        for entry in board["per_job"]:
            one = PerJob(**entry)
            if one.name not in worst or worst[one.name].writes < one.writes:
                worst[one.name] = one
    return tuple(worst.values())


def worst(written: Sequence[Object], setting: str) -> Object:
    """Returns the object that wears out first."""
    own = (one for one in written if setting in one.within)
    return min(own, key=lambda one: one.lifetime_inferences)
