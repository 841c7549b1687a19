# SPDX-License-Identifier: Apache-2.0
"""A plan whose constants are read from a file, from one whose constants are in flash; see
plan/chunks.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..errors import Problem, UserError
from ..graph import Graph
from ..placement import Buffer, Instance, place
from ..plan.chunks import Chunk, ExternalWeights, WeightStore
from ..plan.plan import Plan
from ..plan.weights import ALIGN, chunk_bytes, layouts_of

# Stages that a read can start ahead of its own. More hide latency where short stages follow each
# other, and queue more reads.
MOST_AHEAD = 3
PLACE_SECONDS = 10.0


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
    chunks = next(filter(None, (_placed(sizes, d, ram) for d in range(MOST_AHEAD, -1, -1))))
    height = max(chunk.to + chunk.size for chunk in chunks)
    return replace(plan, weights=ExternalWeights(store, chunks, height))


def _placed(sizes: Sequence[int], ahead: int, ram: int) -> tuple[Chunk, ...] | None:
    """The chunks if no read starts more than `ahead` stages before its own; None if they need more
    than `ram` bytes. With 1 or 0 they never do: two neighbours always fit from the two ends."""
    starts = [_start(sizes, stage, ahead, ram) for stage in range(len(sizes))]
    # Reads start in the order of stages.
    for stage in range(len(sizes) - 2, -1, -1):
        starts[stage] = min(starts[stage], starts[stage + 1])
    buffers = tuple(
        Buffer(str(stage), starts[stage], stage + 1, size, ALIGN)
        for stage, size in enumerate(sizes)
        if size
    )
    found = place(Instance(buffers), capacity=ram, seconds=PLACE_SECONDS, workers=1)
    if found.height > ram:
        return None
    chunks: list[Chunk] = []
    offset = 0
    for buffer in buffers:
        stage = int(buffer.id)
        to = found.offsets[buffer.id]
        chunks.append(Chunk(stage, offset, buffer.size, to, buffer.lower))
        offset += buffer.size
    return tuple(chunks)


def _start(sizes: Sequence[int], stage: int, ahead: int, ram: int) -> int:
    """The first stage beside whose constants, and those between, this stage's fit."""
    first = stage
    while first > max(0, stage - ahead) and sum(sizes[first - 1 : stage + 1]) <= ram:
        first -= 1
    return first
