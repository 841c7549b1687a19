# SPDX-License-Identifier: Apache-2.0
"""Plans that a device can make itself, of layers one by one: lib/vmcu/container/segments.c."""

from __future__ import annotations

from dataclasses import replace

from ...graph import Graph
from ...plan.plan import Plan
from . import smallest_pool
from .layout import Layout
from .lifetimes import lifetimes
from .pieces import pieces_of
from .sequential import SequentialPlacement, plan_of

# The most tensors that may be alive beside one that is placed: MOST_LIVE there.
MOST_LIVE = 16


def plan(graph: Graph) -> Plan:
    """The smallest pool found for layers one by one, with the tensors in the graph's order, which
    is what TensorFlow Lite Micro's planner goes by among tensors of one size."""
    return in_file_order(smallest_pool.plan(graph))


def segments(graph: Graph) -> Plan | None:
    """The plan that a device makes in a graph's own order, if it needs the bytes of the worst
    layer. None if the device falls back to the greedy plan."""
    layout = Layout.singles(graph)
    pieces = pieces_of(layout, both_ways=True)
    if any(len(piece.ways[0].live) > MOST_LIVE for piece in pieces):
        return None
    bound = max(piece.bound() for piece in pieces)
    search = SequentialPlacement(pieces, bound, wraps=False)
    return in_file_order(plan_of("vmcu", layout, search, bound)) if search.run() else None


def in_file_order(plan: Plan) -> Plan:
    """The plan with its placements in the order of the graph's tensors."""
    placements = {name: plan.placements[name] for name in lifetimes(plan.graph)}
    return replace(plan, placements=placements)
