# SPDX-License-Identifier: Apache-2.0
"""Order and offsets in one integer program, placement/program.py, with overlap as third relation.

A layer's output may overlap an input that dies in it, at a distance that its access order allows in
the direction it runs. Exactly one node runs at each step, so that "dies in it" is well defined.
The planner has a search in its place, which tests compare with this program.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from vmcu_lab.placement.dataflow import Dataflow
from vmcu_lab.placement.graph_files import GraphBuffer
from vmcu_lab.placement.program import Program, Proof
from vmcu_tools.graph import Graph
from vmcu_tools.ops import bind
from vmcu_tools.plan.plan import SCRATCH_ALIGN, Plan, pool_scratch
from vmcu_tools.planner.places import smallest_pool
from vmcu_tools.planner.places.layout import Layout
from vmcu_tools.planner.places.order import reordered, task_graph, whole_cost
from vmcu_tools.planner.places.overlap import clearance
from vmcu_tools.planner.places.pieces import pieces_of
from vmcu_tools.planner.places.sequential import SequentialPlacement, plan_of


def layers_one_by_one(graph: Graph) -> Plan:
    """The smaller plan of two: in the order with the smallest bound, and in the order that is best
    for whole tensors, whose overlap may be easier to have."""
    plans = []
    for order in (reordered(graph), reordered(graph, whole_cost)):
        layout = Layout.singles(order.graph)
        plans.append(order.noted(smallest_pool.place("vmcu", layout)))
    return min(plans, key=lambda plan: plan.pool_bytes)


@dataclass(frozen=True)
class Overlap:
    """The edges `source` and `target`, by index, may share bytes: a node makes the second of the
    first, which dies in it, at least `below` bytes below it or `above` bytes above it (negative),
    if the node runs in the given direction."""

    source: int
    target: int
    below: int
    above: int
    is_descending: bool


class JointProgram(Program):
    """The program of a graph. Overlaps are a third relation beside above and below."""

    may_share = True

    def __init__(self, graph: Graph, most: int):
        flow, overlaps = dataflow_of(graph)
        self.overlaps = defaultdict[tuple[int, ...], list[Overlap]](list)
        for overlap in overlaps:
            self.overlaps[tuple(sorted((overlap.source, overlap.target)))].append(overlap)
        self.descends: dict[int, Any] = {}
        super().__init__(flow, most)

    @property
    def descending(self) -> frozenset[int]:
        """Nodes that descend in what solve() has found."""
        # A direction that nothing depends on may have no value.
        values = {node: self.pulp.value(way) or 0 for node, way in self.descends.items()}
        return frozenset(node for node, value in values.items() if round(value) == 1)

    def ways(self, one: int, other: int) -> list[Any]:
        overlaps = enumerate(self.overlaps[one, other])
        ways = [self._overlap(f"{one}_{other}_{n}", overlap) for n, overlap in overlaps]
        return [way for pair in ways for way in pair]

    def _overlap(self, label: str, overlap: Overlap) -> list[Any]:
        """Two variables: the target lies far enough below the source, or above it."""
        if self.edges[overlap.source].is_kept:
            return []
        node = self.edges[overlap.target].source
        distance = self.base[overlap.source] - self.base[overlap.target]
        low, high = self.binary(f"o{label}b"), self.binary(f"o{label}a")
        self.add(distance >= overlap.below - 2 * self.most * (1 - low))
        self.add(distance <= overlap.above + 2 * self.most * (1 - high))
        if node not in self.descends:
            self.descends[node] = self.binary(f"d{node}")
        descends = self.descends[node]
        for way in (low, high):
            self.add(way <= (descends if overlap.is_descending else 1 - descends))
            for step in range(self.spans.nodes - 1):
                # Only if the source is not preserved after the step that reads it.
                kept = self.kept[overlap.source][step + 1]
                self.add(way <= 2 - self.runs[node][step] - kept)
        return [low, high]


def dataflow_of(graph: Graph) -> tuple[Dataflow, list[Overlap]]:
    """A graph's tensors and scratch tiles as edges, and its safe overlaps."""
    tasks = task_graph(graph, whole_cost)
    number = {name: at for at, name in enumerate(graph.tensors)}
    edges = [
        GraphBuffer(at, name, tasks.sizes[at], tasks.maker.get(at, -1), tuple(tasks.readers[at]),
                    at in tasks.kept)
        for name, at in number.items()
    ]  # fmt: skip
    overlaps = []
    for at, node in enumerate(graph.nodes):
        for descending in (False, True):
            if descending and not bind(graph, node).can_descend:
                continue
            layer = bind(graph, node, descending)
            for name in dict.fromkeys(node.inputs):
                safe = [clearance(layer, i) for i, n in enumerate(node.inputs) if n == name]
                below, above = max(c.below for c in safe), min(c.above for c in safe)
                target = number[layer.out.name]
                overlaps.append(Overlap(number[name], target, below, above, descending))
        scratch = pool_scratch(bind(graph, node))
        if scratch:
            name = f"scratch of {node.outputs[0]}"
            edges.append(GraphBuffer(~at, name, scratch, at, alignment=SCRATCH_ALIGN))
    return Dataflow(tasks, tuple(edges)), overlaps


def plan_from(graph: Graph, proof: Proof, descending: frozenset[int]) -> Plan:
    """The plan of a solved program."""
    number = {name: at for at, name in enumerate(graph.tensors)}
    maker = {name: at for at, node in enumerate(graph.nodes) for name in node.outputs}
    ordered = replace(graph, nodes=tuple(graph.nodes[n] for n in proof.order or ()))
    pieces = pieces_of(ordered, both_ways=True)
    ends = [proof.offsets[at] + graph.tensors[name].bytes for name, at in number.items()]
    scratch = {piece.name: proof.offsets[~maker[piece.name]] for piece in pieces if piece.scratch}
    ends += [scratch[piece.name] + piece.scratch for piece in pieces if piece.scratch]
    search = SequentialPlacement(pieces, max(ends), False)
    search.scratch |= scratch
    for name, at in number.items():
        search.bases[name] = proof.offsets[at]
        search.descending[name] = maker.get(name, -1) in descending
    return plan_of("vmcu", ordered, search, max(piece.bound() for piece in pieces))
