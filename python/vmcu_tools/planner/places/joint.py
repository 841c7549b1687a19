# SPDX-License-Identifier: Apache-2.0
"""Order and offsets in one integer program, placement/program.py, with overlap as third relation.

A layer's output may overlap an input that dies in it, at a distance that its access order allows in
the direction it runs. Exactly one node runs at each step, so that "dies in it" is well defined.
"""

from __future__ import annotations

from dataclasses import replace

from ... import progress
from ...graph import Graph
from ...ops import bind
from ...placement.graph_files import GraphBuffer
from ...placement.program import Dataflow, Overlap, Program, Proof
from ...plan.plan import SCRATCH_ALIGN, Plan, pool_scratch
from . import smallest_pool

# OR-tools and highspy, which pulp loads where it is installed, both bring HiGHS along: only in this
# order do their libraries get along.
from .constraints import cp_model  # noqa: F401
from .layout import Layout
from .order import Ordered, reordered, task_graph, whole_cost
from .overlap import clearance
from .pieces import pieces_of
from .sequential import SequentialPlacement, plan_of

import pulp as pulp  # isort: skip

# The program of a larger graph takes longer to write down than a planner may take.
MOST_NODES = 24


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


def plan(graph: Graph, seconds: float) -> Plan:
    """The best of three: placed in the order with the smallest bound, placed in the order that is
    best for whole tensors, whose overlap may be easier to have, and the integer program's."""
    order = reordered(graph)
    known = placed(order, seconds)
    if known.pool_bytes > smallest_pool.least(known):
        whole = reordered(graph, whole_cost)
        if whole.graph.nodes != order.graph.nodes:
            other = placed(whole, seconds, known.pool_bytes)
            known = min(known, other, key=lambda plan: plan.pool_bytes)
    most = known.pool_bytes
    if most <= smallest_pool.least(known) or len(graph.nodes) > MOST_NODES:
        return known
    program = Program(dataflow_of(graph), most - 1)
    name = "highs" if pulp.HiGHS(msg=False).available() else "cbc"
    with progress.clock("integer program", seconds) as watch:
        watch(0, most)
        proof = program.solve(name, seconds)
    return known if proof.order is None else plan_from(graph, proof)


def placed(order: Ordered, seconds: float, below: int | None = None) -> Plan:
    """The plan of an order, its places found by the walk and its solvers in `seconds`. below: as
    smallest_pool.packed() has it."""
    layout = Layout.singles(order.graph)
    return order.noted(smallest_pool.place("model", layout, seconds, below))


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
    return plan_of("model", ordered, search, max(piece.bound() for piece in pieces))
