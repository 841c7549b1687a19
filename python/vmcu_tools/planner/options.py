# SPDX-License-Identifier: Apache-2.0
"""What a planner may be asked for."""

from __future__ import annotations

from dataclasses import dataclass

from ..plan.pools import Region
from .params import DEFAULT_PARAMS, SearchParams

DEFAULT = "vmcu"
# The planners of registry.py, for who chooses one.
SUMMARIES = {
    "vmcu": "stages, order, directions and overlap for the smallest pool",
    "model": "order and overlap without stages, as one integer program after MODeL",
    "single": "overlap in the file's order",
    "tflm": "TensorFlow Lite Micro's greedy arena",
    "tinyengine": "TinyEngine's first fit, depthwise in place",
    "hmcos": "HMCOS's order, whole tensors",
}
# What solvers may take, in seconds on a desktop computer.
SOLVER_SECONDS = 10.0


@dataclass(frozen=True)
class Options:
    """seconds: for solvers, where one is needed; ram: bytes the pool may have, None for as few as
    possible; stream_input: the only input is delivered row by row; input_elsewhere: it is read
    where the caller has it, see stages/external_input.py; tile_cost: the part of a model's cycles
    that tiles may cost, by estimate, None for what they save of the RAM, see costs.trade_off;
    extra_macs: the part of its multiply-accumulates that a model may do twice, see bands.py. Where
    `ram` asks for it, more are spent. plan_seconds: after which the best plan so far is taken, None
    for when the planner ends by itself. regions: memories to put pools in, those first that
    accesses cost least in; none for one pool. online: layers one by one, which a device can place
    anew, see places/online.py. hop: rows of the only input by which its window moves from one
    inference to the next, 0 where nothing is kept, see stages/unbounded.py. choices: note in the
    plan what else the search has found, which costs little. again: layers may be made part of those
    that compute them again, which containers and pools that rotate cannot have, see
    stages/recomputation.py. params: of the search."""

    seconds: float = SOLVER_SECONDS
    ram: int | None = None
    stream_input: bool = False
    input_elsewhere: bool = False
    tile_cost: float | None = None
    extra_macs: float = 0.0
    plan_seconds: float | None = None
    regions: tuple[Region, ...] = ()
    online: bool = False
    hop: int = 0
    choices: bool = False
    again: bool = True
    params: SearchParams = DEFAULT_PARAMS
