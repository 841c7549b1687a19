# SPDX-License-Identifier: Apache-2.0
"""The execution order whose worst step needs the fewest bytes.

A best-first search over sets of executed nodes: the path with the smallest peak so far is extended
first, so that only sets reachable below the optimal peak are ever visited. A chain has one order
and is returned at once. What a step needs is the bound that walk.Task.bound gives it, overlap with
dying inputs included, so the order is chosen for the memory model it is then placed in.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..graph import Graph, Node
from ..kernels import bind
from ..plan import pool_scratch
from .overlap import clearance

# Sets of executed nodes to visit before the best complete order found so far has to do.
MAX_STATES = 60_000


@dataclass(frozen=True)
class Cost:
    """What a node adds to the pool while it runs: its output and scratch, and by input how many
    bytes the output can share with it if it dies here."""

    output: int
    scratch: int
    shared: dict[str, int]

    def bytes(self, alive: int, dying: list[str]) -> int:
        """Pool bytes of the step; alive: of everything alive before it."""
        saved = sum(self.shared[name] for name in dying)
        return self.scratch + max(alive, alive + self.output - saved)


CostOf = Callable[[Graph, Node], Cost]


def cost_of(graph: Graph, node: Node) -> Cost:
    """The cheaper of a node's directions."""
    layer = bind(graph, node)
    layers = [layer] + ([bind(graph, node, True)] if layer.can_descend else [])
    shared: dict[str, int] = {}
    for index, tensor in enumerate(layer.ins):
        best = min(clearance(one, index).footprint(tensor.bytes, layer.out.bytes) for one in layers)
        together = tensor.bytes + layer.out.bytes - best
        shared[tensor.name] = min(shared.get(tensor.name, together), together)
    return Cost(layer.out.bytes, pool_scratch(layer), shared)


class Searcher:
    """State of the search: nodes as bits, tensors' consumers as masks."""

    def __init__(self, graph: Graph, cost: CostOf):
        self.graph = graph
        self.costs = [cost(graph, node) for node in graph.nodes]
        self.sizes = {name: tensor.bytes for name, tensor in graph.tensors.items()}
        self.kept = {port.tensor for port in graph.outputs}
        producer = {name: n for n, node in enumerate(graph.nodes) for name in node.outputs}
        self.needs = [
            sum({1 << producer[name] for name in node.inputs if name in producer})
            for node in graph.nodes
        ]
        self.users = dict.fromkeys(graph.tensors, 0)
        for number, node in enumerate(graph.nodes):
            for name in set(node.inputs):
                self.users[name] |= 1 << number
        self.inputs = [port.tensor for port in graph.inputs]

    def alive(self, done: int) -> dict[str, int]:
        """Tensors that exist after `done` and are still needed, with their sizes."""
        made = list(self.inputs)
        for number, node in enumerate(self.graph.nodes):
            if done >> number & 1:
                made += node.outputs
        return {
            name: self.sizes[name] for name in made if name in self.kept or self.users[name] & ~done
        }

    def steps(self, done: int):
        """Nodes that may run next, with the bytes their step needs."""
        alive = self.alive(done)
        total = sum(alive.values())
        for number, node in enumerate(self.graph.nodes):
            bit = 1 << number
            if done & bit or self.needs[number] & ~done:
                continue
            after = done | bit
            dying = [
                name
                for name in dict.fromkeys(node.inputs)
                if name not in self.kept and not self.users[name] & ~after
            ]
            yield number, self.costs[number].bytes(total, dying)

    def run(self) -> list[int]:
        everything = (1 << len(self.graph.nodes)) - 1
        # Among equal peaks the further set first, then the file's order: deterministic.
        queue: list[tuple[int, int, tuple[int, ...], int]] = [(0, 0, (), 0)]
        best: dict[int, int] = {0: 0}
        while queue and len(best) <= MAX_STATES:
            peak, _, order, done = heapq.heappop(queue)
            if done == everything:
                return list(order)
            if best[done] < peak:
                continue
            for number, needed in self.steps(done):
                after, worst = done | 1 << number, max(peak, needed)
                if worst < best.get(after, 1 << 62):
                    best[after] = worst
                    entry = (worst, -len(order) - 1, (*order, number), after)
                    heapq.heappush(queue, entry)
        return list(range(len(self.graph.nodes)))


def reordered(graph: Graph, cost: CostOf = cost_of) -> Graph:
    """The graph with its nodes in the best order found; unchanged if that is the file's.

    `cost`: what a step needs, by default with this library's kernels and all their overlap.
    """
    if is_chain(graph):
        return graph
    order = Searcher(graph, cost).run()
    return replace(graph, nodes=tuple(graph.nodes[number] for number in order))


def is_chain(graph: Graph) -> bool:
    """True if every node needs the one before it, so that there is one order only."""
    pairs = zip(graph.nodes, graph.nodes[1:], strict=False)
    return all(set(before.outputs) & set(after.inputs) for before, after in pairs)
