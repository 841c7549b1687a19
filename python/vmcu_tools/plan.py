# SPDX-License-Identifier: Apache-2.0
"""What a plan is: which layers run together, and where every row lives in the pool."""

from __future__ import annotations

from dataclasses import dataclass, field

from .graph import Graph, Node
from .kernels import Layer

# The executor's own buffer for scratch; what does not fit into it lives in the pool.
STACK_SCRATCH = 256
SCRATCH_ALIGN = 4


def on_stack(layer: Layer) -> bool:
    """True if the layer's scratch takes no bytes of the pool."""
    return layer.scratch_bytes <= STACK_SCRATCH


def pool_scratch(layer: Layer) -> int:
    """Bytes of the pool that a layer's scratch takes."""
    if on_stack(layer):
        return 0
    return -(-layer.scratch_bytes // SCRATCH_ALIGN) * SCRATCH_ALIGN


@dataclass(frozen=True)
class Placement:
    """A tensor's ring of rows in the pool, in bytes.

    Row y lives at (base + (y % capacity) * stride) modulo the pool's size and is never split by
    the pool's end. Bytes live from step `first` (which writes them; -1 for a graph input) to step
    `last` (which reads them; the number of steps for a graph output), both included.
    """

    tensor: str
    base: int
    stride: int
    capacity: int
    first: int
    last: int

    @property
    def ring(self) -> int:
        """Bytes that the rows which exist at once take."""
        return self.stride * self.capacity

    def row(self, y: int, pool_bytes: int) -> int:
        return (self.base + (y % self.capacity) * self.stride) % pool_bytes


@dataclass(frozen=True, eq=False)
class Step:
    """One layer of the execution order, with its scratch in the pool (offset and size, bytes).
    `descending`: it works from the last row and pixel to the first. `foreign`: the layer as another
    library's kernel runs it; such a step can be replayed, not emitted."""

    node: Node
    scratch: int = 0
    scratch_bytes: int = 0
    descending: bool = False
    foreign: Layer | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """The outcome of planning, before or after its proof.

    `stages` holds the steps in execution order, grouped into runs that are worked row by row.
    `macs_extra` counts recomputed multiply-accumulates.
    """

    planner: str
    graph: Graph
    stages: tuple[tuple[Step, ...], ...]
    placements: dict[str, Placement]
    pool_bytes: int
    solve_seconds: float = 0.0
    macs_extra: int = 0
    input_streamed: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(step for stage in self.stages for step in stage)
