# SPDX-License-Identifier: Apache-2.0
"""Replaces weights by int4 weights, to estimate the figures of a network quantised that way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..graph import Graph, Node

MOST = 7


def use_int4_weights(graph: Graph) -> Graph:
    """Returns the graph with 4 bits in all weights that support them. Its outputs have no meaning,
    because the scales stay."""
    return replace(graph, nodes=tuple(map(_use_int4, graph.nodes)))


def _use_int4(node: Node) -> Node:
    op: Any = node.op
    if not hasattr(op, "weight_bits"):
        return node
    largest = max(int(np.abs(op.weights.astype(np.int16)).max(initial=0)), 1)
    weights = np.round(op.weights * (MOST / largest)).astype(np.int8)
    return replace(node, op=replace(op, weights=weights, weight_bits=4))
