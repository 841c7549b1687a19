# SPDX-License-Identifier: Apache-2.0
"""Order and offsets in one integer program, placement/program.py, with overlap as third relation.

A layer's output may overlap an input that dies in it, at a distance that its access order allows in
the direction it runs. Exactly one node runs at each step, so that "dies in it" is well defined.
The planner has a search in its place, which tests compare with this program.
"""

from __future__ import annotations

from dataclasses import replace

from vmcu_lab.placement.dataflow import Dataflow, Overlap
from vmcu_lab.placement.graph_files import GraphBuffer
from vmcu_lab.placement.program import Proof
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


def dataflow_of(graph: Graph) -> Dataflow:
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
    return Dataflow(tasks, tuple(edges), None, tuple(overlaps))


def plan_from(graph: Graph, proof: Proof) -> Plan:
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
        search.descending[name] = maker.get(name, -1) in proof.descending
    return plan_of("vmcu", ordered, search, max(piece.bound() for piece in pieces))
