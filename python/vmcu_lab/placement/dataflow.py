# SPDX-License-Identifier: Apache-2.0
"""The dataflow of a graph, and the steps in which its tensors can be alive."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from vmcu_tools.ordering.bounds import ancestors
from vmcu_tools.ordering.tasks import TaskGraph

from .graph_files import GraphBuffer, NamedGraph


@dataclass(frozen=True)
class Dataflow:
    """Nodes with their buffers. `order`: of the nodes, if it is given."""

    tasks: TaskGraph
    edges: tuple[GraphBuffer, ...]
    order: tuple[int, ...] | None = None
    origin: str = ""


def dataflow_of(graph: NamedGraph) -> Dataflow:
    """The dataflow of a graph, edges of no bytes left out."""
    edges = tuple(edge for edge in graph.buffers if edge.size)
    return Dataflow(graph.tasks, edges, graph.order, graph.origin)


class Spans:
    """When nodes can run and edges can, or must, exist: ranges of steps, by node and by edge."""

    def __init__(self, flow: Dataflow):
        self.nodes, self.edges = len(flow.tasks.tasks), flow.edges
        self.before = ancestors(flow.tasks)
        first = self.before.sum(1).tolist()
        last = [self.nodes - 1 - behind for behind in self.before.sum(0).tolist()]
        if flow.order is not None:
            first = last = [flow.order.index(node) for node in range(self.nodes)]
        self.first, self.last = first, last
        self.useful = [self._useful(edge) for edge in self.edges]
        self.needed = [self._needed(edge) for edge in self.edges]

    def _useful(self, edge: GraphBuffer) -> range:
        """Outside, an edge never exists (equation 11)."""
        start = 0 if edge.source < 0 else self.first[edge.source]
        if edge.is_kept:
            return range(start, self.nodes)
        ends = [self.last[sink] for sink in edge.sinks] or [self.last[edge.source]]
        return range(start, max(ends) + 1)

    def _needed(self, edge: GraphBuffer) -> range:
        """Lists the steps in which an edge is kept, whatever the order (equation 12)."""
        start = 0 if edge.source < 0 else self.last[edge.source] + 1
        stops = [self.first[sink] + 1 for sink in edge.sinks]
        return range(start, max(self.nodes if edge.is_kept else max(stops, default=start), start))

    def are_disjoint(self, one: int, other: int) -> bool:
        """Whether two edges never exist together."""
        a, b = self.useful[one], self.useful[other]
        if a.stop <= b.start or b.stop <= a.start:
            return True
        first, second = self.edges[one], self.edges[other]
        return self._precedes(first, second) or self._precedes(second, first)

    def _precedes(self, one: GraphBuffer, other: GraphBuffer) -> bool:
        """Whether all readers of one run before the maker of the other (appendix A.2)."""
        if one.is_kept or other.source < 0:
            return False
        ends = one.sinks or (one.source,)
        return all(bool(self.before[other.source, end]) for end in ends)


def pyramid(flow: Dataflow, spans: Spans) -> dict[int, int]:
    """Offsets by edge of those at the bottom: each exists as long as any other above it may, and
    ends where any of these may begin."""
    edges = flow.edges
    if any(edge.offset is not None for edge in edges):
        return {}
    offsets: dict[int, int] = {}
    top = 0
    left = sorted(range(len(edges)), key=lambda e: -edges[e].alignment)
    going = True
    while going:
        going = False
        for edge in left:
            others = [spans.useful[other] for other in left if other != edge]
            lives = spans.needed[edge]
            covers = all(lives.start <= o.start and o.stop <= lives.stop for o in others)
            unit = lcm(*(edges[other].alignment for other in left if other != edge))
            if covers and (top + edges[edge].size) % unit == 0:
                offsets[edge], top, going = top, top + edges[edge].size, True
                left.remove(edge)
                break
    return offsets
