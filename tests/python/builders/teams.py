# SPDX-License-Identifier: Apache-2.0
"""Plans of random networks for two workers."""

from __future__ import annotations

from dataclasses import replace

from random_networks import AnyNetwork, EveryNetwork, two_layers, wide
from vmcu_tools.graph import Graph
from vmcu_tools.passes.split_channels import divisible, halved
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.workers.assign import assigned
from vmcu_tools.planner.workers.conflicts import dependencies
from vmcu_tools.planner.workers.pieces import CallCut, pieces_of
from vmcu_tools.planner.workers.share import share

KINDS = (EveryNetwork, two_layers, AnyNetwork, wide)
# Of every so many networks one has halves.
HALVED = 5


def random_plan(seed: int) -> Plan:
    """A network of the next of four kinds. Every other one of a kind gives the second worker
    scratch for each kernel that can have its own, every fifth has layers of one pixel in parts."""
    drawn = KINDS[seed % len(KINDS)](seed)
    graph = drawn if isinstance(drawn, Graph) else drawn.made
    if seed % HALVED == 3:
        graph = halved(graph, divisible(graph))
    plan = share(make_plan(graph, CompileOptions(), prove=False))
    return with_scratch(plan) if seed // len(KINDS) % 2 else plan


def with_scratch(plan: Plan) -> Plan:
    pieces = pieces_of(plan, CallCut(2))
    most = max(piece.scratch_bytes for piece in pieces)
    return replace(plan, team=assigned(pieces, dependencies(pieces), most))
