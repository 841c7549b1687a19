# SPDX-License-Identifier: Apache-2.0
"""Placing tensors one after the other in a circular pool, each as near to its dying input as the
layer's order of access allows.

A depth-first search over the few bases at which a new tensor can touch something: its dying
input at a safe distance, another live tensor, or an end of the pool; and over the directions in
which its layer may run. Ascending layers let addresses drift downwards, descending ones upwards,
so that a chain can swing between the ends of the pool and never wrap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..graph import Graph, Tensor
from ..kernels import Layer, bind
from ..plan import Placement, Plan, Step, pool_scratch
from .lifetimes import lifetimes
from .overlap import Clearance, clearance
from .scratch import first_gap

# Dead ends of the depth-first search before a pool size is given up.
MAX_BACKTRACKS = 300
# Pool sizes are tried one by one up to here above the bound, then in growing steps.
FINE_SIZES = 256


@dataclass(frozen=True)
class Live:
    """A tensor that is alive while a step writes its output."""

    name: str
    size: int
    clearance: Clearance


@dataclass(frozen=True)
class Way:
    """One direction in which a step may run, and what it then has to keep clear of."""

    descending: bool
    live: tuple[Live, ...]


@dataclass(frozen=True)
class Task:
    """One output to place: `whole` if callers address it as one array, so that it may not wrap.
    `scratch`: bytes that the step needs besides, in one piece and not wrapped."""

    tensor: Tensor
    ways: tuple[Way, ...]
    whole: bool
    scratch: int = 0

    def bound(self) -> int:
        """Bytes without which this step cannot run."""
        return min(self._bound(way) for way in self.ways)

    def _bound(self, way: Way) -> int:
        size = self.tensor.bytes
        alive = sum(live.size for live in way.live)
        shared = sum(
            live.size + size - live.clearance.footprint(live.size, size) for live in way.live
        )
        return self.scratch + max(alive, alive + size - shared)


@dataclass
class Search:
    """Depth-first search for bases in a pool of `pool` bytes; `wraps` allows tensors around the
    pool's end."""

    tasks: Sequence[Task]
    pool: int
    wraps: bool
    bases: dict[str, int] = field(default_factory=dict)
    descending: dict[str, bool] = field(default_factory=dict)
    scratch: dict[str, int] = field(default_factory=dict)
    backtracks: int = 0

    def run(self, index: int = 0) -> bool:
        if index == len(self.tasks):
            return True
        task = self.tasks[index]
        name = task.tensor.name
        tried: set[tuple[int, bool]] = set()
        for way in task.ways:
            for base in self._candidates(task, way):
                if (base, way.descending) in tried:
                    continue
                tried.add((base, way.descending))
                if not self._fits(task, way, base):
                    continue
                self.bases[name], self.descending[name] = base, way.descending
                if self.run(index + 1):
                    return True
                self.backtracks += 1
                if self.backtracks > MAX_BACKTRACKS:
                    return False
        return False

    def _candidates(self, task: Task, way: Way) -> Iterator[int]:
        """Bases worth trying, overlaps first; where one would reach around the pool's end, the
        nearest with a row's edge there."""
        size, stride = task.tensor.bytes, task.tensor.row_bytes
        wanted = []
        for live in way.live:
            base = self.bases[live.name]
            wanted += [base - live.clearance.below, base - live.clearance.above]
        wanted += [self.bases[live.name] - size for live in way.live]
        wanted += [self.bases[live.name] + live.size for live in way.live]
        for base in [*wanted, self.pool - size, 0]:
            inside = 0 <= base <= self.pool - size
            if inside:
                yield base
            elif self.wraps and not task.whole:
                base %= self.pool
                if base + size <= self.pool:
                    yield base
                else:
                    yield self.pool - -(-(self.pool - base) // stride) * stride

    def _fits(self, task: Task, way: Way, base: int) -> bool:
        size = task.tensor.bytes
        if base < 0 or size > self.pool:
            return False
        around = base + size > self.pool
        if around and (task.whole or (self.pool - base) % task.tensor.row_bytes):
            return False
        if not all(self._clear(base, live) for live in way.live):
            return False
        return task.scratch == 0 or self._place_scratch(task, way, base)

    def _clear(self, base: int, live: Live) -> bool:
        """True if the output at `base` spares `live`, seen at each of its places on the circle."""
        turns = (-self.pool, 0, self.pool) if self.wraps else (0,)
        apart = self.bases[live.name] - base
        return all(live.clearance.allows(apart + turn) for turn in turns)

    def _place_scratch(self, task: Task, way: Way, base: int) -> bool:
        """Finds the lowest gap for the step's scratch between everything that is alive."""
        taken = [(base, task.tensor.bytes)]
        taken += [(self.bases[live.name], live.size) for live in way.live]
        gap = first_gap(taken, self.pool, task.scratch)
        if gap is not None:
            self.scratch[task.tensor.name] = gap
        return gap is not None


def tasks_of(graph: Graph, both_ways: bool) -> list[Task]:
    """The tensors to place, in the order in which they come to life."""
    lives = lifetimes(graph)
    ports = {port.tensor for port in (*graph.inputs, *graph.outputs)}
    tasks: list[Task] = []
    placed: list[str] = []
    for port in graph.inputs:
        tensor = graph.tensors[port.tensor]
        live = tuple(_apart(graph.tensors[name], tensor) for name in placed)
        tasks.append(Task(tensor, (Way(False, live),), True))
        placed.append(port.tensor)
    for step, node in enumerate(graph.nodes):
        layer = bind(graph, node)
        layers = [layer]
        if both_ways and layer.can_descend:
            layers.append(bind(graph, node, descending=True))
        alive = [graph.tensors[name] for name in placed if lives[name].last >= step]
        dying = {name for name in node.inputs if lives[name].last == step}
        ways = tuple(Way(one.descending, _live(one, alive, dying)) for one in layers)
        name = layer.out.name
        tasks.append(Task(layer.out, ways, name in ports, pool_scratch(layer)))
        placed.append(name)
    return tasks


def _apart(tensor: Tensor, out: Tensor) -> Live:
    return Live(tensor.name, tensor.bytes, Clearance.apart(tensor.bytes, out.bytes))


def _live(layer: Layer, alive: Sequence[Tensor], dying: set[str]) -> tuple[Live, ...]:
    """What the layer's output has to keep clear of, and by how much."""
    found = []
    for tensor in alive:
        live = _apart(tensor, layer.out)
        if tensor.name in dying:
            names = [one.name for one in layer.ins]
            clearances = [clearance(layer, i) for i, n in enumerate(names) if n == tensor.name]
            worst = Clearance(
                max(c.below for c in clearances), min(c.above for c in clearances)
            )
            live = Live(tensor.name, tensor.bytes, worst)
        found.append(live)
    return tuple(found)


def sizes_from(bound: int) -> Iterator[int]:
    """Pool sizes to try."""
    yield from range(bound, bound + FINE_SIZES)
    size = float(bound + FINE_SIZES)
    while True:
        yield int(size)
        size *= 1.002


def plan_of(planner: str, graph: Graph, search: Search, bound: int) -> Plan:
    """The plan that a finished search found."""
    lives = lifetimes(graph)
    placements = {}
    for task in search.tasks:
        tensor, life = task.tensor, lives[task.tensor.name]
        placements[tensor.name] = Placement(
            tensor.name,
            search.bases[tensor.name],
            tensor.row_bytes,
            tensor.shape[0],
            life.first,
            life.last,
        )
    by_name = {task.tensor.name: task for task in search.tasks}
    steps = []
    for node in graph.nodes:
        name = node.outputs[0]
        scratch = by_name[name].scratch
        where = search.scratch[name] if scratch else 0
        steps.append(Step(node, where, scratch, search.descending[name]))
    gap = search.pool - bound
    return Plan(
        planner=planner,
        graph=graph,
        stages=tuple((step,) for step in steps),
        placements=placements,
        pool_bytes=search.pool,
        notes=(f"The bound for this order is {bound:,} bytes, the gap {gap:,}.",),
    )
