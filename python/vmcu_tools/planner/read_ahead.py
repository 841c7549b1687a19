# SPDX-License-Identifier: Apache-2.0
"""A plan whose constants are read from a file, from one whose constants are in flash; see
plan/chunks.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..errors import Problem, UserError
from ..graph import Graph
from ..plan.chunks import Chunk, ExternalWeights, WeightStore
from ..plan.plan import Plan
from ..plan.weights import ALIGN, chunk_bytes, layouts_of

# Stages that a read can start ahead of its own. More hide latency where short stages follow each
# other, and queue more reads.
MOST_AHEAD = 3
# First and last stage of a read's bytes in the buffer, and how many they are.
Span = tuple[int, int, int]
# Orders in which they are placed, one after the other.
TRIES = 200


def stage_limit(graph: Graph, store: WeightStore) -> int:
    """Bytes of constants that a stage of several layers may have: of a buffer of given size one
    half, so that the next stage's fit beside them, else those of the largest layer."""
    if store.ram is not None:
        return store.ram // 2
    return max((chunk_bytes(graph, node) for node in graph.nodes), default=0)


def with_reads(plan: Plan, store: WeightStore) -> Plan:
    """The plan with its constants in a file, read as early as the buffer allows. Raises UserError
    if the constants of a stage are larger than the buffer, or if there are none."""
    sizes = [layout.size for layout in layouts_of(plan)]
    largest = max(sizes, default=0)
    if largest == 0:
        problem = Problem(
            "no layer has constants to read", "leave out --external-weights", plan.graph.origin
        )
        raise UserError(problem)
    if store.ram is None:
        ram = max(a + b for a, b in zip(sizes, [*sizes[1:], 0], strict=True))
    else:
        ram = store.ram
    if largest > ram:
        node = plan.stages[sizes.index(largest)][0].node
        reason = f"its constants have {largest:,} bytes, the weights buffer {ram:,}"
        hint = (
            f"allow more with --external-weights ...,ram={2 * largest}, or make the layer smaller"
        )
        raise UserError(Problem(reason, hint, plan.graph.origin, node.name, node.kind))
    # Between the rows of a first stage no read runs.
    earliest = int(plan.input_streamed)
    ways = (_placed(sizes, ahead, ram, earliest) for ahead in range(MOST_AHEAD, -1, -1))
    chunks = next(filter(None, ways))
    height = max(chunk.to + chunk.size for chunk in chunks)
    return replace(plan, weights=ExternalWeights(store, chunks, height))


def _placed(sizes: Sequence[int], ahead: int, ram: int, earliest: int) -> tuple[Chunk, ...] | None:
    """The chunks if no read starts more than `ahead` stages before its own, and that of no later
    stage before stage `earliest`; None if they need more than `ram` bytes. With 1 or 0 they never
    do: two neighbours always fit from the two ends."""
    starts = [max(_start(sizes, n, ahead, ram), min(n, earliest)) for n in range(len(sizes))]
    # Reads start in the order of stages.
    for stage in range(len(sizes) - 2, -1, -1):
        starts[stage] = min(starts[stage], starts[stage + 1])
    spans = [(starts[stage], stage, size) for stage, size in enumerate(sizes) if size]
    height, places = _lowest(spans)
    if height > ram:
        return None
    chunks: list[Chunk] = []
    offset = 0
    for (start, stage, size), to in zip(spans, places, strict=True):
        chunks.append(Chunk(stage, offset, size, to, start))
        offset += size
    return tuple(chunks)


def _lowest(spans: Sequence[Span]) -> tuple[int, list[int]]:
    """The fewest bytes found, and the offset of each. The largest is placed first; then, again and
    again, what was highest, before all others."""
    most = max(
        sum(size for first, last, size in spans if first <= at <= last) for _, at, _ in spans
    )
    order = sorted(range(len(spans)), key=lambda number: (-spans[number][2], number))
    best: tuple[int, list[int]] | None = None
    for _ in range(TRIES):
        places = _places(spans, order)
        tops = [to + size for (_, _, size), to in zip(spans, places, strict=True)]
        height = max(tops)
        if best is None or height < best[0]:
            best = height, places
        if height <= most:
            break
        highest = tops.index(height)
        order = [highest, *(number for number in order if number != highest)]
    assert best is not None
    return best


def _places(spans: Sequence[Span], order: Sequence[int]) -> list[int]:
    """Offsets: each in turn at the lowest that is free while it is read and used."""
    offsets: dict[int, int] = {}
    for number in order:
        first, last, size = spans[number]
        beside = sorted(
            (offsets[other], offsets[other] + spans[other][2])
            for other in offsets
            if spans[other][0] <= last and first <= spans[other][1]
        )
        at = 0
        for start, stop in beside:
            if start - at >= size:
                break
            at = max(at, -(-stop // ALIGN) * ALIGN)
        offsets[number] = at
    return [offsets[number] for number in range(len(spans))]


def _start(sizes: Sequence[int], stage: int, ahead: int, ram: int) -> int:
    """The first stage beside whose constants, and those between, this stage's fit."""
    first = stage
    while first > max(0, stage - ahead) and sum(sizes[first - 1 : stage + 1]) <= ram:
        first -= 1
    return first
