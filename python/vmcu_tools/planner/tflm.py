# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite Micro's arena, as its GreedyMemoryPlanner lays it out.

tensorflow/lite/micro/memory_planner/greedy_memory_planner.cc: sizes rounded up to 16 bytes, the
largest buffer first (among equals the later tensor), each in the first gap that is wide enough
between the placed buffers it overlaps in time, else on top of them. No buffer shares a byte with
another one alive at the same step.
"""

from __future__ import annotations

from ..graph import Graph
from ..kernels import bind
from ..plan import Placement, Plan, pool_scratch
from .lifetimes import Lifetime, lifetimes
from .scratch import first_gap, step_of

ALIGN = 16


def greedy(sizes: list[int], lives: list[Lifetime]) -> list[int]:
    """Offsets for buffers of the given sizes (bytes) and lifetimes."""
    offsets = [0] * len(sizes)
    placed: list[int] = []
    for buffer in sorted(range(len(sizes)), key=lambda i: (-sizes[i], -i)):
        candidate = 0
        for other in placed:
            if not lives[other].overlaps(lives[buffer]):
                continue
            if offsets[other] - candidate >= sizes[buffer]:
                break
            candidate = max(candidate, offsets[other] + sizes[other])
        offsets[buffer] = candidate
        # A new entry goes after the entries at the same offset.
        at = next((n for n, p in enumerate(placed) if offsets[p] > candidate), len(placed))
        placed.insert(at, buffer)
    return offsets


def plan(graph: Graph) -> Plan:
    """Every tensor whole, in the file's order of tensors and nodes."""
    lives = lifetimes(graph)
    names = list(lives)
    sizes = [-(-graph.tensors[name].bytes // ALIGN) * ALIGN for name in names]
    offsets = greedy(sizes, [lives[name] for name in names])
    placements = {}
    for name, offset in zip(names, offsets, strict=True):
        tensor = graph.tensors[name]
        placements[name] = Placement(
            name, offset, tensor.row_bytes, tensor.shape[0], lives[name].first, lives[name].last
        )
    arena = max(o + s for o, s in zip(offsets, sizes, strict=True))
    scratch, pool = place_scratch(graph, placements, arena)
    return Plan(
        planner="tflm",
        graph=graph,
        stages=tuple((step_of(graph, node, scratch),) for node in graph.nodes),
        placements=placements,
        pool_bytes=pool,
        notes=(
            f"TensorFlow Lite Micro's arena head is {arena:,} bytes of these; the rest is scratch "
            "of vmcu's kernels.",
        ),
    )


def place_scratch(
    graph: Graph, placements: dict[str, Placement], arena: int
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
        offsets[node.outputs[0]] = arena if gap is None else gap
        pool = max(pool, offsets[node.outputs[0]] + size)
    return offsets, pool
