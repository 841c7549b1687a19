# SPDX-License-Identifier: Apache-2.0
"""Planners: each is a function from a graph to a plan. None is trusted; the replay proves them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..errors import Problem, UserError
from ..graph import Graph
from ..machine.mcu import VirtualMcu
from ..plan.plan import Plan
from .options import SOLVER_SECONDS, Options
from .others import hmcos, single, tflm, tinyengine
from .places import joint
from .stages import fusion


@dataclass(frozen=True)
class Planner:
    """`plan`: from a graph and what is asked for. `streams`: can do without a whole input.
    `as_written`: plans the graph
    as the file has it, Pad and Reshape nodes included. `original`: for a planner that comes from
    elsewhere, the plan as it is there, for that tool's kernels and in that tool's count."""

    name: str
    plan: Callable[[Graph, Options], Plan]
    as_written: bool
    summary: str
    original: Callable[[Graph, Options], Plan] | None = None
    streams: bool = False


PLANNERS = {
    planner.name: planner
    for planner in (
        Planner(
            "vmcu",
            fusion.plan,
            False,
            "stages, order, directions and overlap for the smallest pool",
            streams=True,
        ),
        Planner(
            "model",
            lambda g, o: joint.plan(g, o.seconds),
            False,
            "order and overlap without stages, as one integer program after MODeL",
        ),
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
        Planner(
            "hmcos",
            lambda g, o: hmcos.plan(g, o.seconds),
            False,
            "HMCOS's order, whole tensors",
            lambda g, o: hmcos.original(g, o.seconds),
        ),
    )
}
DEFAULT = "vmcu"
DEFAULTS = Options()

__all__ = ["DEFAULT", "PLANNERS", "SOLVER_SECONDS", "Options", "Planner", "make_plan"]


def make_plan(
    planner: str,
    graph: Graph,
    options: Options = DEFAULTS,
    original: bool = False,
    prove: bool = True,
) -> Plan:
    """A plan; of a planner that comes from elsewhere the `original`, if wanted, which is to be
    compared and cannot be emitted.

    prove: replay it, which whoever emits or runs it does anyway. Raises UserError if it needs more
    than the bytes allowed, PlanError if the planner is wrong.
    """
    start = time.perf_counter()
    chosen = PLANNERS[planner]
    if options.stream_input:
        _check_stream(chosen, graph)
    planned_by = chosen.original if original and chosen.original else chosen.plan
    plan = planned_by(graph, options)
    plan = replace(plan, solve_seconds=time.perf_counter() - start)
    if prove:
        VirtualMcu(plan).prove()
    ram = options.ram
    if ram is not None and plan.pool_bytes > ram:
        raise UserError(
            Problem(
                f"does not fit: the smallest pool of planner '{planner}' is {plan.pool_bytes} "
                f"bytes, reached with {plan.macs_extra} extra MACs; {ram} are allowed",
                "allow more with --ram, deliver the input row by row with --stream-input, or make "
                "the widest layers smaller",
                graph.origin,
            )
        )
    return plan


def _check_stream(planner: Planner, graph: Graph) -> None:
    if not planner.streams:
        able = ", ".join(name for name, one in PLANNERS.items() if one.streams)
        raise UserError(
            Problem(
                f"planner '{planner.name}' keeps inputs whole, so they cannot be streamed",
                f"leave out --stream-input or use --planner {able}",
                graph.origin,
            )
        )
    if len(graph.inputs) != 1:
        raise UserError(
            Problem(
                f"{len(graph.inputs)} inputs, only a single one can be streamed",
                "leave out --stream-input",
                graph.origin,
            )
        )
