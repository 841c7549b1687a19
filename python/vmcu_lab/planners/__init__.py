# SPDX-License-Identifier: Apache-2.0
"""Planners to compare with: those of other tools, with that tool's memory accesses and in that
tool's count, which can be replayed, not emitted; and the vMCU paper's own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from vmcu_tools.errors import Problem, UserError
from vmcu_tools.frontends import load
from vmcu_tools.graph import Graph
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.passes import optimize
from vmcu_tools.plan.plan import Plan

from . import hmcos, tflm, tinyengine


@dataclass(frozen=True)
class Baseline:
    """as_written: plans the graph as the file has it, Pad and Reshape nodes included; package: the
    Python package that it needs."""

    summary: str
    plan: Callable[[Graph], Plan]
    as_written: bool = False
    package: str | None = None


def _equations(graph: Graph) -> Plan:
    from . import equations

    return equations.plan(graph)


BASELINES = {
    "tflm": Baseline("TensorFlow Lite Micro's greedy arena", tflm.plan, as_written=True),
    "tinyengine": Baseline("TinyEngine's first fit, depthwise in place", tinyengine.plan),
    "hmcos": Baseline("HMCOS's order, whole tensors", hmcos.plan),
    "equations": Baseline("integer programs of the vMCU paper", _equations, package="pulp"),
}


def installed() -> list[str]:
    """The names of the planners whose packages are installed."""
    return [n for n, one in BASELINES.items() if one.package is None or find_spec(one.package)]


def plan_by(name: str, graph: Graph, prove: bool = True) -> Plan:
    """The plan of a graph by one of BASELINES; prove: replayed. Raises PlanError if it is wrong."""
    start = time.monotonic()
    plan = BASELINES[name].plan(graph)
    plan = replace(plan, solve_seconds=time.monotonic() - start)
    if prove:
        VirtualMcu(plan).prove()
    return plan


def plan_of(name: str, path: Path, prove: bool = True) -> Plan:
    """The same of a file. Raises UserError as load() does, and for a file that keeps state."""
    graph = load(path)
    if graph.state.names:
        reason = f"the model keeps state, which planner '{name}' does not support"
        raise UserError(Problem(reason, "compare two files", str(path)))
    if not BASELINES[name].as_written:
        graph = optimize(graph, all_channels=True)
    return plan_by(name, graph, prove)
