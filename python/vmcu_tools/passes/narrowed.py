# SPDX-License-Identifier: Apache-2.0
"""A network with int4 weights in place of its own, as one that was quantised anew would have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..graph import Graph, Node

MOST = 7


def narrowed(graph: Graph) -> Graph:
    """The graph with 4 bits in all weights that can have them. Its figures are those of such a
    network; what it computes means nothing, as the scales stay."""
    return replace(graph, nodes=tuple(map(_narrowed, graph.nodes)))


def _narrowed(node: Node) -> Node:
    op: Any = node.op
    if not hasattr(op, "weight_bits"):
        return node
    largest = max(int(np.abs(op.weights.astype(np.int16)).max(initial=0)), 1)
    weights = np.round(op.weights * (MOST / largest)).astype(np.int8)
    return replace(node, op=replace(op, weights=weights, weight_bits=4))
