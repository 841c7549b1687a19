# SPDX-License-Identifier: Apache-2.0
"""Drops nodes whose results nobody reads."""

from __future__ import annotations

from ..graph import Graph, Node
from .rewrite import swept, with_nodes


def drop_dead(graph: Graph) -> Graph:
    needed, kept, count = {port.tensor for port in graph.outputs}, list[Node](), -1
    while len(needed) != count:
        # Once, but for a loop, whose first node reads what later ones make.
        kept, count = [], len(needed)
        for node in reversed(graph.nodes):
            if needed.intersection(node.outputs):
                needed.update(node.inputs)
                kept.append(node)
        if not graph.loops:
            break
    return graph if len(kept) == len(graph.nodes) else swept(with_nodes(graph, kept[::-1]))
