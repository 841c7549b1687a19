# SPDX-License-Identifier: Apache-2.0
"""Planners: each is a function from a graph to a plan. None is trusted; the replay proves them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..errors import Problem, UserError
from ..graph import Graph
from ..machine.mcu import VirtualMcu
from ..plan import Plan
from . import hmcos, joint, single, swing, tflm, tinyengine


@dataclass(frozen=True)
class Planner:
    """`plan`: from a graph and the seconds that a solver may take. `as_written`: plans the graph
    as the file has it, Pad and Reshape nodes included. `original`: for a planner that comes from
    elsewhere, the plan as it is there, for that tool's kernels and in that tool's count."""

    name: str
    plan: Callable[[Graph, float], Plan]
    as_written: bool
    summary: str
    original: Callable[[Graph, float], Plan] | None = None


PLANNERS = {
    planner.name: planner
    for planner in (
        Planner("vmcu", swing.plan, False, "order, directions and overlap for the smallest pool"),
        Planner("model", joint.plan, False, "the same as one integer program, after MODeL"),
        Planner("single", lambda g, _: single.plan(g), False, "overlap in the file's order"),
        Planner(
            "tflm",
            lambda g, _: tflm.plan(g),
            True,
            "TensorFlow Lite Micro's greedy arena",
            lambda g, _: tflm.original(g),
        ),
        Planner(
            "tinyengine",
            lambda g, _: tinyengine.plan(g),
            False,
            "TinyEngine's first fit, depthwise in place",
            lambda g, _: tinyengine.original(g),
        ),
        Planner("hmcos", hmcos.plan, False, "HMCOS's order, whole tensors", hmcos.original),
    )
}
DEFAULT = "vmcu"
# What solvers may take, in seconds on a desktop computer.
SOLVER_SECONDS = 10.0


def make_plan(
    planner: str,
    graph: Graph,
    ram: int | None = None,
    seconds: float = SOLVER_SECONDS,
    original: bool = False,
) -> Plan:
    """A proven plan; of a planner that comes from elsewhere the `original`, if wanted, which is to
    be compared and cannot be emitted.

    Raises UserError if it needs more than `ram` bytes, PlanError if the planner is wrong.
    """
    start = time.perf_counter()
    chosen = PLANNERS[planner]
    planned_by = chosen.original if original and chosen.original else chosen.plan
    plan = planned_by(graph, seconds)
    plan = replace(plan, solve_seconds=time.perf_counter() - start)
    VirtualMcu(plan).prove()
    if ram is not None and plan.pool_bytes > ram:
        raise UserError(
            Problem(
                f"does not fit: planner '{planner}' needs {plan.pool_bytes} bytes of RAM, "
                f"{ram} are allowed",
                "allow more with --ram, try another --planner, or make the widest layers smaller",
                graph.origin,
            )
        )
    return plan
