# SPDX-License-Identifier: Apache-2.0
"""The way of a model through the house: file -> graph -> plan."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .errors import Problem, UserError
from .frontends import load, may_keep_state
from .kernels.targets import named
from .passes import optimize
from .passes.carried import prepared
from .passes.fed_back import NONE, fed_back, recurs
from .passes.recurring import detached, optimized
from .passes.turned import with_time
from .plan.plan import Plan
from .plan.pools import Region
from .planner.options import DEFAULT, SOLVER_SECONDS, Options
from .planner.registry import PLANNERS, make_plan
from .planner.rotate import rotate


def compile_model(
    path: Path,
    planner: str = DEFAULT,
    ram: int | None = None,
    seconds: float = SOLVER_SECONDS,
    original: bool = False,
    stream_input: bool = False,
    input_elsewhere: bool = False,
    tile_cost: float | None = None,
    extra_macs: float = 0.0,
    rotated: bool = False,
    target: str | None = None,
    plan_seconds: float | None = None,
    begun: float | None = None,
    regions: tuple[Region, ...] = (),
    online: bool = False,
    hop: int = 0,
    state: Sequence[str] | None = (NONE,),
    choices: bool = False,
    time: str | None = None,
    contained: bool = False,
) -> Plan:
    """Reads a model file and returns a plan, which is proven when it is emitted (emit/proof.py).

    ram: bytes the pool may have, None for as few as possible. seconds: for solvers, if one is
    needed. original: as planner.make_plan has it. stream_input: the input comes row by row.
    input_elsewhere: it is read where the caller has it.
    tile_cost: see planner.Options. rotated: the pool's origin advances, see machine/rotation.py.
    target: the cores to lay constants out for, by their name in kernels/targets. plan_seconds: the
    best plan by then is taken, counted from `begun`, of time.monotonic(). regions: memories for
    several pools; one is the same as `ram`. Another planner does not go with them, nor does any of
    `ram`, `rotated` and `plan_seconds`.
    online: layers one by one, which a device can place anew. hop: rows by which the window of the
    only input moves, and what the next one needs is kept, 0 for none of it; of all other options
    only `ram` and `target` go with it. state: inputs that are given what an output was in the call
    before, each as "input:output"; None: those whose names say so, see passes/fed_back.py.
    choices: as planner.Options has it. time: the axis of the file's images that is time to `hop`,
    "h" or "w", as passes/turned.py has it. contained: the plan is for a container.
    Raises UserError for anything the user has to change: the file, an op, the limit.
    """
    if planner not in PLANNERS:
        known = ", ".join(PLANNERS)
        raise UserError(Problem(f"there is no planner '{planner}'", f"choose one of: {known}"))
    graph = replace(fed_back(load(path), state), target=named(target).name)
    if not PLANNERS[planner].as_written:
        # What is constant in a first call is not in the next.
        whole = PLANNERS[planner].original is not None or bool(graph.states)
        if graph.recurs:
            graph = optimized(graph)
        else:
            graph = optimize(graph, all_channels=whole)
            graph = (detached if recurs(graph) else prepared)(graph) if graph.states else graph
        graph = with_time(graph, hop, time) if hop else graph
    if regions:
        _check_alone(path, planner, ram, rotated, input_elsewhere, plan_seconds)
    if len(regions) == 1:
        ram, regions = regions[0].capacity, ()
    if graph.states:
        if planner != DEFAULT:
            reason = f"the model keeps state, which planner '{planner}' does not support"
            raise UserError(Problem(reason, f"leave out --planner {planner}", str(path)))
        # Without an input there is no plan either, and moving() says so.
        hop = hop or (graph.tensors[graph.inputs[0].tensor].shape[0] if graph.inputs else 1)
    options = Options(
        seconds,
        ram,
        stream_input,
        input_elsewhere,
        tile_cost,
        extra_macs,
        plan_seconds,
        regions,
        online,
        hop,
        choices,
        again=not (rotated or contained),
    )
    plan = make_plan(planner, graph, options, original, prove=False, begun=begun)
    if not rotated:
        return plan
    found = rotate(plan)
    if ram is None or found.ram_bytes <= ram:
        return found
    less = replace(options, ram=max(ram - (found.ram_bytes - found.pool_bytes), 1))
    # If there is no such plan, rotate() says by how much this one is too large.
    with contextlib.suppress(UserError):
        plan = make_plan(planner, graph, less, original, prove=False, begun=begun)
    return rotate(plan, ram)


def rows_of_call(path: Path, state: Sequence[str] | None) -> int:
    """Rows that a file takes a call which keeps its state, of which `state` is as compile_model()
    has it; 0 for one that keeps none, and for one of which compile_model() says what is wrong."""
    try:
        graph = fed_back(load(path), state) if may_keep_state(path) else None
    except UserError:
        return 0
    if graph is None or not graph.states or not graph.inputs:
        return 0
    return graph.tensors[graph.inputs[0].tensor].shape[0]


def _check_alone(
    path: Path,
    planner: str,
    ram: int | None,
    rotated: bool,
    input_elsewhere: bool,
    plan_seconds: float | None,
) -> None:
    """UserError for what does not go with memories."""
    asked = {
        "--planner": planner != DEFAULT,
        "--ram": ram is not None,
        "--rotate": rotated,
        "--external-input": input_elsewhere,
        "--plan-seconds": plan_seconds is not None,
    }
    others = [option for option, there in asked.items() if there]
    if others:
        reason = f"--memory cannot be combined with {others[0]}"
        raise UserError(Problem(reason, "leave out one of the two", str(path)))
