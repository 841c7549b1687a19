# SPDX-License-Identifier: Apache-2.0
"""Segment overlap layer by layer in a circular pool, without fusion (vMCU paper, sections 4, 5.1).

Every layer's output starts as little below its dying input as the layer's order of access allows,
so that a chain of tensors walks down through the pool and around its end. The pool is the
smallest found in which the walk succeeds: sizes are tried upwards from the bound that the live
tensors of the worst step set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..graph import Graph, Tensor
from ..kernels import bind
from ..plan import Placement, Plan, pool_scratch
from .lifetimes import lifetimes
from .overlap import min_distance
from .scratch import first_gap, step_of

# Dead ends of the depth-first search before a pool size is given up.
MAX_BACKTRACKS = 200


@dataclass(frozen=True)
class Live:
    """A tensor that is alive while a step writes its output. `distance` is None where the two may
    not share bytes, else the smallest safe b_in - b_out."""

    name: str
    size: int
    distance: int | None


@dataclass(frozen=True)
class Task:
    """One output to place: `whole` if callers address it as one array, so that it may not wrap.
    `scratch`: bytes that the step needs besides, in one piece and not wrapped."""

    tensor: Tensor
    live: tuple[Live, ...]
    whole: bool
    scratch: int = 0

    def bound(self) -> int:
        """Bytes without which this step cannot run."""
        size = self.tensor.bytes
        apart = self.scratch + sum(live.size for live in self.live if live.distance is None)
        dying = [live for live in self.live if live.distance is not None]
        if not dying:
            return apart + size
        together = [max(max(live.distance, 0) + live.size, size) for live in dying]
        return apart + max(max(together), sum(live.size for live in dying))


@dataclass
class Search:
    """Depth-first search for bases in a pool of `pool` bytes."""

    tasks: list[Task]
    pool: int
    bases: dict[str, int] = field(default_factory=dict)
    scratch: dict[str, int] = field(default_factory=dict)
    backtracks: int = 0

    def run(self, index: int = 0) -> bool:
        if index == len(self.tasks):
            return True
        task = self.tasks[index]
        tried = set()
        for base in self._candidates(task):
            if base in tried or not self._fits(task, base):
                continue
            tried.add(base)
            self.bases[task.tensor.name] = base
            if self.run(index + 1):
                return True
            self.backtracks += 1
            if self.backtracks > MAX_BACKTRACKS:
                return False
        return False

    def _candidates(self, task: Task) -> Iterator[int]:
        """Bases worth trying, the tightest overlap first. A base may be negative: it is modulo
        the pool, after a wrap has been moved to a row's edge."""
        size = task.tensor.bytes
        wanted = [
            self.bases[live.name] - live.distance for live in task.live if live.distance is not None
        ]
        wanted += [self.bases[live.name] - size for live in task.live]
        wanted += [self.bases[live.name] + live.size for live in task.live]
        for base in [*wanted, self.pool - size, 0]:
            base %= self.pool
            if base + size <= self.pool:
                yield base
            elif not task.whole:
                stride = task.tensor.row_bytes
                yield self.pool - -(-(self.pool - base) // stride) * stride
            yield self.pool - size

    def _fits(self, task: Task, base: int) -> bool:
        size = task.tensor.bytes
        if base < 0 or size > self.pool:
            return False
        if base + size > self.pool and (task.whole or (self.pool - base) % task.tensor.row_bytes):
            return False
        if not all(self._clear(base, size, live) for live in task.live):
            return False
        return task.scratch == 0 or self._place_scratch(task, base)

    def _place_scratch(self, task: Task, base: int) -> bool:
        """Finds the lowest gap for the step's scratch between everything that is alive."""
        taken = [(base, task.tensor.bytes)]
        taken += [(self.bases[live.name], live.size) for live in task.live]
        gap = first_gap(taken, self.pool, task.scratch)
        if gap is not None:
            self.scratch[task.tensor.name] = gap
        return gap is not None

    def _clear(self, base: int, size: int, live: Live) -> bool:
        """True if the output at `base` spares `live`, seen at each of its places on the circle."""
        needed = size if live.distance is None else live.distance
        for turn in (-self.pool, 0, self.pool):
            apart = self.bases[live.name] + turn - base
            if not (apart >= needed or apart <= -live.size):
                return False
        return True


def tasks_of(graph: Graph) -> list[Task]:
    """The tensors to place, in the order in which they come to life."""
    lives = lifetimes(graph)
    ports = {port.tensor for port in (*graph.inputs, *graph.outputs)}
    tasks = []
    placed: list[str] = []
    for port in graph.inputs:
        live = tuple(Live(name, graph.tensors[name].bytes, None) for name in placed)
        tasks.append(Task(graph.tensors[port.tensor], live, True))
        placed.append(port.tensor)
    for step, node in enumerate(graph.nodes):
        layer = bind(graph, node)
        live = []
        for name in placed:
            if lives[name].last < step:
                continue
            distances = [
                min_distance(layer, index)
                for index, tensor in enumerate(layer.ins)
                if tensor.name == name and lives[name].last == step
            ]
            live.append(Live(name, graph.tensors[name].bytes, max(distances, default=None)))
        whole = layer.out.name in ports
        tasks.append(Task(layer.out, tuple(live), whole, pool_scratch(layer)))
        placed.append(layer.out.name)
    return tasks


def plan(graph: Graph) -> Plan:
    """The smallest circular pool found; its bases are proven by the caller's replay."""
    tasks = tasks_of(graph)
    pool = max(task.bound() for task in tasks)
    while not (search := Search(tasks, pool)).run():
        pool += 1
    lives = lifetimes(graph)
    placements = {
        task.tensor.name: Placement(
            task.tensor.name,
            search.bases[task.tensor.name],
            task.tensor.row_bytes,
            task.tensor.shape[0],
            lives[task.tensor.name].first,
            lives[task.tensor.name].last,
        )
        for task in tasks
    }
    return Plan(
        planner="single",
        graph=graph,
        stages=tuple((step_of(graph, node, search.scratch),) for node in graph.nodes),
        placements=placements,
        pool_bytes=pool,
    )
