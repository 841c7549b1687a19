# SPDX-License-Identifier: Apache-2.0
"""Drops nodes whose results nobody reads."""

from __future__ import annotations

from ..graph import Graph
from .rewrite import swept, with_nodes


def drop_dead(graph: Graph) -> Graph:
    needed = {port.tensor for port in graph.outputs}
    kept = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    return graph if len(kept) == len(graph.nodes) else swept(with_nodes(graph, kept[::-1]))
