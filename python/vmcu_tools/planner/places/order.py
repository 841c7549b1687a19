# SPDX-License-Identifier: Apache-2.0
"""The execution order whose worst step needs the fewest bytes.

The search is that of ordering/, for graphs of anybody; here is what a step of this
library needs: the bound that Piece.bound gives it, overlap with dying inputs included, so the order
is chosen for the memory model it is then placed in. A chain has one order and is returned at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...graph import Graph, Node
from ...ops import bind
from ...ordering import best_order
from ...ordering.tasks import GraphTask, TaskGraph
from ...plan.plan import Plan, pool_scratch
from ..params import DEFAULT_PARAMS, SearchParams
from .overlap import clearance


@dataclass(frozen=True)
class Cost:
    """The bytes that a node adds to the pool while it runs: its output and scratch, and, by input,
    the bytes that the output can share with it if it dies here."""

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


def whole_cost(graph: Graph, node: Node) -> Cost:
    """The cost of whole tensors, as other tools count it: the bytes of the output, less those of a
    dying input that it can overwrite if the node is element-wise."""
    size = graph.tensors[node.outputs[0]].bytes
    shared = {name: min(size, graph.tensors[name].bytes) for name in node.inputs}
    return Cost(size, 0, shared if node.op.elementwise else dict.fromkeys(shared, 0))


@dataclass(frozen=True, eq=False)
class Ordered:
    """A graph with its nodes in the best order found. peak: bytes of the worst step, 0 where there
    is one order only; bound: those that the worst step of any order needs."""

    graph: Graph
    peak: int
    bound: int

    @property
    def proven(self) -> bool:
        """Whether no order has a smaller worst step."""
        return self.peak <= self.bound

    def noted(self, plan: Plan) -> Plan:
        """A plan in this order, with what a person should know of the search."""
        return replace(plan, notes=(*plan.notes, *self.notes))

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on the search."""
        if self.proven:
            return ()
        return (
            f"The search for an execution order stopped early: the best order found needs "
            f"{self.peak:,} bytes, the lower bound over all orders is {self.bound:,} bytes.",
        )


def task_graph(graph: Graph, cost: CostOf) -> TaskGraph:
    """A graph's nodes as tasks, numbered as they are, and its tensors likewise."""
    number = {name: at for at, name in enumerate(graph.tensors)}
    tasks = []
    for node in graph.nodes:
        needs = cost(graph, node)
        inputs = tuple(dict.fromkeys(node.inputs))
        shared = tuple(needs.shared[name] for name in inputs)
        tasks.append(
            GraphTask(
                tuple(number[name] for name in inputs),
                tuple(number[name] for name in node.outputs),
                (),
                needs.scratch,
                shared,
            )
        )
    sizes = tuple(tensor.bytes for tensor in graph.tensors.values())
    return TaskGraph(sizes, tuple(tasks), frozenset(number[port.tensor] for port in graph.outputs))


def reordered(
    graph: Graph, cost: CostOf = cost_of, params: SearchParams = DEFAULT_PARAMS
) -> Ordered:
    """The graph with its nodes in the best order found, the file's where no better one is.

    `cost`: what a step needs, by default with this library's kernels and all their overlap.
    """
    # The steps of a loop cannot be told from each other in a graph of tasks.
    if graph.loops or is_chain(graph):
        return Ordered(graph, 0, 0)
    best = best_order(task_graph(graph, cost), params.order_work)
    nodes = tuple(graph.nodes[number] for number in best.order)
    return Ordered(replace(graph, nodes=nodes), best.peak, best.bound)


def is_chain(graph: Graph) -> bool:
    """True if every node needs the one before it, so that there is one order only."""
    pairs = zip(graph.nodes, graph.nodes[1:], strict=False)
    return all(set(before.outputs) & set(after.inputs) for before, after in pairs)
