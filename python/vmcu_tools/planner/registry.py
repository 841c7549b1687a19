# SPDX-License-Identifier: Apache-2.0
"""Planners by name: each is a function from a graph to a plan, and none is trusted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from .. import collector
from ..errors import Problem, UserError
from ..graph import Graph
from ..machine.mcu import VirtualMcu
from ..plan.plan import Plan
from . import single
from .options import CompileOptions
from .params import LONG, NORMAL
from .places import online
from .places.updated import at_one_address
from .places.widen import widened
from .stages import fusion

Planner = Callable[[Graph, CompileOptions], Plan]
# Stages, order, directions and overlap for the smallest pool; overlap in the file's order.
PLANNERS: Mapping[str, Planner] = {
    "vmcu": fusion.plan,
    "single": lambda graph, _: single.plan(graph),
}
DEFAULTS = CompileOptions()
INTERRUPTED = "The search for a plan was interrupted: this is the best plan found."


@collector.seldom()
def make_plan(
    graph: Graph,
    options: CompileOptions = DEFAULTS,
    prove: bool = True,
) -> Plan:
    """A plan by the planner options.planner.

    prove: replay it, which whoever emits or runs it does anyway. Raises UserError if it needs more
    than the bytes allowed, PlanError if the planner is wrong.
    """
    start = time.monotonic()
    if graph.state.names and not options.hop:
        reason = f"the model keeps state from call to call ('{graph.state.names[0]}')"
        remedy = "use `vmcu build`, `vmcu run`, `vmcu verify` or `vmcu bench`"
        raise UserError(Problem(reason, remedy, graph.origin))
    if options.stream_input and len(graph.inputs) != 1:
        reason = f"the model has {len(graph.inputs)} inputs; --stream-input needs a single one"
        raise UserError(Problem(reason, "leave out --stream-input", graph.origin))
    planned_by = PLANNERS[options.planner]
    if options.memory:
        from .regions import search

        planned_by = search.plan
    if options.online:
        planned_by = _online
    if options.hop:
        from .stages import unbounded

        planned_by = unbounded.plan
    if options.effort == LONG:
        plan = _plan_long(graph, options, planned_by)
    else:
        plan = _plan_at(graph, options, planned_by)
    plan = at_one_address(plan)
    if not (options.online or options.hop):
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
                f"does not fit: the smallest pool found is {plan.pool_bytes} bytes, with "
                f"{plan.macs_extra} extra MACs; {ram} are allowed",
                f"allow more with --ram{rows}, or make the widest layers smaller"
                f"{pareto if planned_by is fusion.plan else ''}",
                graph.origin,
            )
        )
    return plan


def _plan_at(graph: Graph, options: CompileOptions, planned_by: Planner) -> Plan:
    """The plan of a planner with the limits of options.effort."""
    options = replace(options, params=options.params.at(options.effort))
    plan = planned_by(graph, options)
    if planned_by is fusion.plan and options.ram is not None and plan.pool_bytes > options.ram:
        # What is called the smallest pool has been tried.
        plan = [plan, *fusion.below(graph, options, plan.pool_bytes)][-1]
    return plan


def _plan_long(graph: Graph, options: CompileOptions, planned_by: Planner) -> Plan:
    """The plan of the long search, unless that of the normal one is better or Ctrl-C ends it."""
    plan = _plan_at(graph, replace(options, effort=NORMAL), planned_by)
    try:
        longer = _plan_at(graph, options, planned_by)
    except KeyboardInterrupt:
        return replace(plan, notes=(*plan.notes, INTERRUPTED))
    if options.ram is not None and plan.pool_bytes <= options.ram:
        fits = longer.pool_bytes <= options.ram
        return longer if fits and fusion.added_cycles(longer) <= fusion.added_cycles(plan) else plan
    return longer if longer.pool_bytes <= plan.pool_bytes else plan


def _online(graph: Graph, _: CompileOptions) -> Plan:
    if graph.loops:
        reason = "a device plans layers one by one, and those of a loop run in turns"
        raise UserError(Problem(reason, "leave out --online", graph.origin))
    return online.plan(graph)
