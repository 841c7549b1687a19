# SPDX-License-Identifier: Apache-2.0
"""Plans of whole tensors at addresses that a baseline chose, for this library's kernels."""

from __future__ import annotations

from collections.abc import Mapping

from ...graph import Graph
from ...ops import bind
from ...plan.plan import SCRATCH_ALIGN, Placement, Plan, pool_scratch
from ..places.lifetimes import lifetimes
from ..places.scratch import first_gap, step_of


def whole_plan(
    planner: str,
    graph: Graph,
    bases: Mapping[str, int],
    arena: int,
    notes: tuple[str, ...],
    least: int = 0,
) -> Plan:
    """A plan from base addresses below `arena`; its pool has at least `least` bytes."""
    lives = lifetimes(graph)
    placements = {}
    for name, base in bases.items():
        tensor, life = graph.tensors[name], lives[name]
        placements[name] = Placement(name, base, tensor.bytes, life.first, life.last)
    scratch, pool = place_scratch(graph, placements, arena)
    return Plan(
        planner,
        graph,
        tuple((step_of(graph, node, scratch),) for node in graph.nodes),
        placements,
        max(least, pool),
        notes=notes,
    )


def place_scratch(
    graph: Graph, placements: Mapping[str, Placement], arena: int
) -> tuple[dict[str, int], int]:
    """Offsets by output for the scratch of this library's own kernels, and the pool's size.

    Scratch takes what the arena leaves free at its step, and else goes on top of the arena.
    """
    offsets, pool = {}, arena
    for step, node in enumerate(graph.nodes):
        size = pool_scratch(bind(graph, node))
        if size == 0:
            continue
        live = [p for p in placements.values() if p.first <= step <= p.last]
        taken = [(p.base, graph.tensors[p.tensor].bytes) for p in live]
        gap = first_gap(taken, arena, size)
        top = -(-arena // SCRATCH_ALIGN) * SCRATCH_ALIGN
        offsets[node.outputs[0]] = top if gap is None else gap
        pool = max(pool, offsets[node.outputs[0]] + size)
    return offsets, pool
