# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite Micro's arena, as its GreedyMemoryPlanner lays it out.

tensorflow/lite/micro/memory_planner/greedy_memory_planner.cc: sizes rounded up to 16 bytes, the
largest buffer first (among equals the later tensor), each in the first gap that is wide enough
between the placed buffers it overlaps in time, else on top of them. No buffer shares a byte with
another one alive at the same step.
"""

from __future__ import annotations

from ..graph import Graph
from ..plan import Placement, Plan, Step
from .lifetimes import Lifetime, lifetimes

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
    return Plan(
        planner="tflm",
        graph=graph,
        stages=tuple((Step(node),) for node in graph.nodes),
        placements=placements,
        pool_bytes=max(o + s for o, s in zip(offsets, sizes, strict=True)),
    )
