# SPDX-License-Identifier: Apache-2.0
"""The vMCU paper's planner: layers one by one in a circular pool, each output as close below its
dying input as equation 1 allows, solved as integer programs over the kernel's accesses."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from vmcu_tools.graph import Graph, Node
from vmcu_tools.ops import ProgramLayer, bind
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.places.overlap import Clearance
from vmcu_tools.planner.places.pieces import Live, Piece, pieces_of
from vmcu_tools.planner.single import plan_of_pieces

from ..distances.program import Link, chain_distance, layer_distance


def plan(graph: Graph) -> Plan:
    """The smallest circular pool found. A layer whose kernel is no program shares no byte with its
    inputs."""
    makers = {node.outputs[0]: node for node in graph.nodes}
    links: list[Link] = []

    def with_distances(piece: Piece) -> Piece:
        node = makers.get(piece.name)
        if node is None:
            return piece
        ways = []
        for way in piece.ways:
            lives = [_with_distance(graph, node, piece, live) for live in way.live]
            links.extend(
                Link(live.name, piece.name, live.clearance.below)
                for live in lives
                if live.name in node.inputs
            )
            ways.append(replace(way, live=tuple(lives)))
        return replace(piece, ways=tuple(ways))

    pieces = [with_distances(piece) for piece in pieces_of(graph, both_ways=False)]
    smallest = plan_of_pieces("equations", graph, pieces)
    return replace(smallest, notes=(*smallest.notes, *_of_chain(graph.nodes, links)))


def _with_distance(graph: Graph, node: Node, piece: Piece, live: Live) -> Live:
    """A tensor that is alive while a layer runs, with its distance by equation 1 if it dies."""
    apart = Clearance.apart(live.size, piece.size)
    layer = bind(graph, node)
    if live.clearance == apart or not isinstance(layer, ProgramLayer):
        return replace(live, clearance=apart)
    indices = [index for index, name in enumerate(node.inputs) if name == live.name]
    distances = [layer_distance(layer, index) for index in indices]
    below = max(-live.size if distance is None else distance for distance in distances)
    return replace(live, clearance=Clearance(below, apart.above))


def _of_chain(nodes: Sequence[Node], links: Sequence[Link]) -> tuple[str, ...]:
    """The result of equation 2, if each layer reads the output of the layer before only."""
    chained = all(
        before.outputs == after.inputs for before, after in itertools.pairwise(nodes)
    ) and all(len(node.inputs) == 1 for node in nodes[:1])
    if not chained or not links:
        return ()
    distance = chain_distance(links, links[0].source, links[-1].target)
    return (f"Equation 2: the output starts {distance:,} bytes below the input.",)
