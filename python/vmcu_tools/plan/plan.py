# SPDX-License-Identifier: Apache-2.0
"""A plan: the layers that run together, and the place of every row in the pool."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..errors import PlanError
from ..graph import Graph, Node
from ..ops import Form, Layer, bind
from ..ops.layer import SCRATCH_ALIGN as SCRATCH_ALIGN
from ..ops.layer import STACK_SCRATCH
from .choice import Choice
from .chunks import ExternalWeights
from .pools import Pool, Region, pool_at, pools_of
from .workers import Team

# The bytes of the executor's progress of a layer of a stage of several: how many calls it has made.
PROGRESS_BYTES = 2
MOST_CALLS = 2**16 - 1


def on_stack(layer: Layer[Any]) -> bool:
    """True if the layer's scratch takes no bytes of the pool."""
    return layer.scratch_bytes <= STACK_SCRATCH and not layer.addressed


def pool_scratch(layer: Layer[Any]) -> int:
    """Bytes of the pool that a layer's scratch takes."""
    if on_stack(layer):
        return 0
    return -(-layer.scratch_bytes // SCRATCH_ALIGN) * SCRATCH_ALIGN


@dataclass(frozen=True)
class Placement:
    """A tensor's ring in the pool, in bytes.

    Byte o of the tensor, counted through its rows and pixels, lives at base + (o + phase) % ring
    modulo the pool's size; a whole tensor is a ring as large as itself. The pool's end never splits
    a row, the ring's end never a pixel; a ring whose end splits rows does not reach around the
    pool. Two tensors may share a ring if one's pixels take the places of the other's dead ones.
    Bytes live from step `first` (which writes them; -1 for a graph input) to step `last` (which
    reads them; the number of steps for a graph output), both included.
    """

    tensor: str
    base: int
    ring: int
    first: int
    last: int
    phase: int = 0

    def at(self, offset: int, circle: Pool) -> int:
        """Returns the address of byte `offset` of the tensor; `circle`: that of its pool."""
        return circle.around(self.base + (offset + self.phase) % self.ring)


@dataclass(frozen=True, eq=False)
class Step:
    """One layer of the execution order, with its scratch in the pool (offset and size, bytes).
    `descending`: it works from the last row and pixel to the first. `foreign`: the layer as another
    library's kernel runs it; such a step can be replayed, not emitted. `columns`: in a stage of
    several layers, how many columns of a row a call computes; `ahead`: of its first one, how many
    calls come before all others; `form`: how it works, where there is a choice."""

    node: Node
    scratch: int = 0
    scratch_bytes: int = 0
    descending: bool = False
    foreign: Layer[Any] | None = None
    columns: int | None = None
    form: Form = Form.USUAL
    ahead: int = 0

    def bind(self, graph: Graph) -> Layer[Any]:
        """The step's layer."""
        if self.foreign is not None:
            return self.foreign
        return bind(graph, self.node, self.descending, self.columns, self.form)


@dataclass(frozen=True)
class Rotation:
    """After each inference the pool's origin advances by `step` bytes. Bytes that must lie side by
    side, and begin in front of the pool's end, go on in an overhang behind it, see rotation.py."""

    step: int
    overhang: int


@dataclass(frozen=True, eq=False)
class Plan:
    """The outcome of planning, before or after its proof.

    `stages` holds the steps in execution order, grouped into runs that are worked on demand, see
    schedule.py; `progress` is where in the pool a stage of several layers notes how far each has
    come, PROGRESS_BYTES a layer. `taken`: columns of a streamed input that are taken at a time from
    the row that the caller delivers. `macs_extra` counts recomputed multiply-accumulates; where
    layers work in bands for that, or fetch an input that lies elsewhere, `original` is the graph
    before. `gap`: bytes of the pool beyond the bound of its order. `smallest`: bytes of the
    smallest plan, if a faster one was taken. `rotation`: how the pool
    rotates; its end then may split rows. `kept`: of a graph whose window moves
    (State.step_rows), the tensors whose rings hold rows from one answer to the next. `saved`:
    of such a graph where layers see windows anew, from where on so many bytes of the pool are
    those of the stage that never ends. `regions`: of a plan with several pools the memories
    that they are in. Each is a circle of its own; addresses go through one after the other, and
    `pool_bytes` is where the last one ends. `weights`: of a plan whose constants are in a file,
    how they are read. `choices`: the alternatives, where CompileOptions.choices asks for them.
    """

    planner: str
    graph: Graph
    stages: tuple[tuple[Step, ...], ...]
    placements: dict[str, Placement]
    pool_bytes: int
    solve_seconds: float = 0.0
    macs_extra: int = 0
    original: Graph | None = None
    input_streamed: bool = False
    taken: int = 0
    progress: tuple[int, ...] = ()
    gap: int = 0
    smallest: int | None = None
    notes: tuple[str, ...] = field(default=())
    rotation: Rotation | None = None
    kept: tuple[str, ...] = ()
    saved: tuple[int, int] | None = None
    regions: tuple[Region, ...] = ()
    choices: tuple[Choice, ...] = ()
    weights: ExternalWeights | None = None
    team: Team | None = None

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Lists the pools."""
        if not self.regions:
            return (Pool(0, self.pool_bytes),)
        return pools_of([region.pool_bytes for region in self.regions])

    def pool_of(self, at: int) -> Pool:
        """The pool of an address. Raises PlanError if it is one of several, and in none."""
        if not self.regions:
            return Pool(0, self.pool_bytes)
        circle = pool_at(self.pools, at)
        if circle is None:
            raise PlanError(f"address {at} is in no pool")
        return circle

    @property
    def ram_bytes(self) -> int:
        """Bytes of RAM that the pools take, and the scratch of a second worker."""
        if self.regions:
            return sum(region.pool_bytes for region in self.regions)
        more = self.rotation.overhang if self.rotation else 0
        return self.pool_bytes + more + (self.team.scratch_bytes if self.team else 0)

    @property
    def state(self) -> tuple[int, int]:
        """Returns the offset and the size of the part of the pool that is alive between two rows
        of a stream."""
        return self.saved or (0, self.pool_bytes)

    @property
    def tensors(self) -> tuple[str, ...]:
        """Those of the pool, then the inputs that lie elsewhere."""
        elsewhere = (port.tensor for port in self.graph.inputs)
        return (*self.placements, *(name for name in elsewhere if name in self.graph.elsewhere))

    @property
    def buffer_bytes(self) -> int:
        """Bytes of RAM beside the pool into which weights are read from a file."""
        return 0 if self.weights is None else self.weights.buffer_bytes

    @property
    def model(self) -> Graph:
        """Returns the planned graph, or that graph before it was rewritten."""
        return self.original or self.graph

    @property
    def steps(self) -> tuple[Step, ...]:
        """Lists the steps of all stages, in the order in which they run."""
        return tuple(step for stage in self.stages for step in stage)
