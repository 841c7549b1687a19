# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite Micro's arena, as its GreedyMemoryPlanner lays it out.

tensorflow/lite/micro/memory_planner/greedy_memory_planner.cc: sizes rounded up to 16 bytes, the
largest buffer first (among equals the later tensor), each in the first gap that is wide enough
between the placed buffers it overlaps in time, else on top of them. No buffer shares a byte with
another one alive at the same step. Tensors that a .tflite file has an offset for
(OfflineMemoryAllocation) lie there, before any other is placed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vmcu_tools.graph import Graph
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.places.lifetimes import Lifetime, lifetimes

from .foreign import foreign_plan

TFLM_ALIGN = 16


def greedy(
    sizes: list[int], lives: list[Lifetime], given: Mapping[int, int] = MappingProxyType({})
) -> list[int]:
    """Offsets for buffers of some sizes (bytes) and lifetimes; `given`: of some, by number."""
    offsets = [given.get(number, 0) for number in range(len(sizes))]
    placed = sorted(given, key=lambda number: offsets[number])
    for buffer in sorted(range(len(sizes)), key=lambda i: (-sizes[i], -i)):
        if buffer in given:
            continue
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


def bases_of(graph: Graph) -> tuple[dict[str, int], int]:
    """Every tensor's offset, in the file's order of tensors and nodes, and the arena's bytes."""
    lives = lifetimes(graph)
    sizes = [-(-graph.tensors[name].bytes // TFLM_ALIGN) * TFLM_ALIGN for name in lives]
    given = {n: graph.offline[name] for n, name in enumerate(lives) if name in graph.offline}
    offsets = greedy(sizes, list(lives.values()), given)
    arena = max(o + s for o, s in zip(offsets, sizes, strict=True))
    return dict(zip(lives, offsets, strict=True)), arena


def plan(graph: Graph) -> Plan:
    """The arena's head as TensorFlow Lite Micro's recorder tells it. Its reference kernels need no
    scratch."""
    bases, arena = bases_of(graph)
    return foreign_plan("tflm", graph, bases, arena)
