# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite Micro's greedy arena for this library's kernels, as devices plan it: tensors at
that planner's offsets, the scratch of kernels in gaps or behind the arena."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vmcu_lab.planners import tflm
from vmcu_tools.graph import Graph
from vmcu_tools.ops import bind
from vmcu_tools.plan.plan import SCRATCH_ALIGN, Placement, Plan, Step, pool_scratch
from vmcu_tools.planner.places.lifetimes import lifetimes
from vmcu_tools.planner.places.scratch import first_gap


def greedy_plan(graph: Graph) -> Plan:
    """The plan of a graph; offsets that its file has for tensors do not count."""
    bases, arena = tflm.bases_of(replace(graph, offline={}))
    lives = lifetimes(graph)
    placements = {
        name: Placement(name, base, graph.tensors[name].bytes, lives[name].first, lives[name].last)
        for name, base in bases.items()
    }
    steps, pool = [], arena
    for number, node in enumerate(graph.nodes):
        size = pool_scratch(bind(graph, node))
        if not size:
            steps.append(Step(node))
            continue
        offset = scratch_offset(placements, number, arena, size)
        pool = max(pool, offset + size)
        steps.append(Step(node, offset, size))
    return Plan("greedy", graph, tuple((step,) for step in steps), placements, pool)


def scratch_offset(placements: Mapping[str, Placement], step: int, arena: int, size: int) -> int:
    """The lowest gap of `size` bytes between the tensors alive at a step, else the arena's end."""
    alive = (one for one in placements.values() if one.first <= step <= one.last)
    gap = first_gap([(one.base, one.ring) for one in alive], arena, size)
    return -(-arena // SCRATCH_ALIGN) * SCRATCH_ALIGN if gap is None else gap
