# SPDX-License-Identifier: Apache-2.0
"""Planners by name: each is a function from a graph to a plan, and none is trusted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from .. import collector
from ..errors import Problem, UserError
from ..graph import Graph
from ..machine.mcu import VirtualMcu
from ..plan.plan import Plan
from . import anytime
from .options import CompileOptions
from .others import hmcos, single, tflm, tinyengine
from .places import online
from .places.updated import at_one_address
from .places.widen import widened
from .stages import fusion, unbounded


@dataclass(frozen=True)
class Planner:
    """`plan`: from a graph and what is asked for. `streams`: can do without a whole input.
    `as_written`: plans the graph as the file has it, Pad and Reshape nodes included. `original`:
    for a planner that comes from elsewhere, the plan as it is there, for that tool's kernels and
    in that tool's count."""

    plan: Callable[[Graph, CompileOptions], Plan]
    original: Callable[[Graph, CompileOptions], Plan] | None = None
    as_written: bool = False
    streams: bool = False


# What each is, is said in options.py.
PLANNERS = {
    "vmcu": Planner(fusion.plan, streams=True),
    "single": Planner(lambda g, _: single.plan(g)),
    "tflm": Planner(lambda g, _: tflm.plan(g), lambda g, _: tflm.original(g), as_written=True),
    "tinyengine": Planner(lambda g, _: tinyengine.plan(g), lambda g, _: tinyengine.original(g)),
    "hmcos": Planner(
        lambda g, o: hmcos.plan(g, o.params), lambda g, o: hmcos.original(g, o.params)
    ),
}
DEFAULTS = CompileOptions()


@collector.seldom()
def make_plan(
    graph: Graph,
    options: CompileOptions = DEFAULTS,
    prove: bool = True,
    begun: float | None = None,
) -> Plan:
    """A plan by the planner options.planner.

    prove: replay it, which whoever emits or runs it does anyway. begun: when the time that
    options.plan_seconds allows began, of time.monotonic(), now if None. Raises UserError if it
    needs more than the bytes allowed, PlanError if the planner is wrong.
    """
    start = time.monotonic()
    chosen = PLANNERS[options.planner]
    if graph.states and not options.hop:
        reason = f"the model keeps state from call to call ('{graph.states[0]}')"
        remedy = "use `vmcu build`, `vmcu run`, `vmcu verify` or `vmcu bench`"
        raise UserError(Problem(reason, remedy, graph.origin))
    if options.stream_input:
        _check_stream(options.planner, graph)
    if options.external_input:
        _check_elsewhere(options.planner, graph)
    foreign = options.original and chosen.original is not None
    planned_by = (chosen.original if options.original else None) or chosen.plan
    if options.memory:
        from .regions import search

        planned_by = search.plan
    if options.online:
        planned_by = _online
    if options.hop:
        planned_by = unbounded.plan
    if options.plan_seconds is None or planned_by is not fusion.plan:
        plan = planned_by(graph, options)
        if planned_by is fusion.plan and options.ram is not None and plan.pool_bytes > options.ram:
            # What is called the smallest pool has been tried.
            plan = [plan, *fusion.below(graph, options, plan.pool_bytes)][-1]
    else:
        deadline = (start if begun is None else begun) + options.plan_seconds
        plan = anytime.plan_within(graph, options, planned_by, deadline)
    plan = at_one_address(plan)
    if not (options.online or options.hop or foreign):
        plan = widened(plan)
    plan = replace(plan, solve_seconds=time.monotonic() - start)
    if prove:
        VirtualMcu(plan).prove()
    ram = options.ram
    if ram is not None and plan.pool_bytes > ram:
        pareto = "; `vmcu build --pareto` lists the sizes that you can choose"
        rows = "" if options.hop or options.stream_input else ", stream the input (--stream-input)"
        raise UserError(
            Problem(
                f"does not fit: the smallest pool that planner '{options.planner}' found is "
                f"{plan.pool_bytes} bytes, with {plan.macs_extra} extra MACs; {ram} are "
                "allowed",
                f"allow more with --ram{rows}, or make the widest layers smaller"
                f"{pareto if planned_by is fusion.plan else ''}",
                graph.origin,
            )
        )
    return plan


def _online(graph: Graph, _: CompileOptions) -> Plan:
    return online.plan(graph)


def _check_elsewhere(planner: str, graph: Graph) -> None:
    if not PLANNERS[planner].streams:
        raise UserError(_holds(planner, "they cannot be external", "--external-input", graph))


def _holds(planner: str, so: str, option: str, graph: Graph) -> Problem:
    able = ", ".join(name for name, one in PLANNERS.items() if one.streams)
    return Problem(
        f"planner '{planner}' keeps inputs whole in the pool, so {so}",
        f"leave out {option} or use --planner {able}",
        graph.origin,
    )


def _check_stream(planner: str, graph: Graph) -> None:
    if not PLANNERS[planner].streams:
        raise UserError(_holds(planner, "they cannot be streamed", "--stream-input", graph))
    if len(graph.inputs) != 1:
        raise UserError(
            Problem(
                f"the model has {len(graph.inputs)} inputs; --stream-input needs a single one",
                "leave out --stream-input",
                graph.origin,
            )
        )
