# SPDX-License-Identifier: Apache-2.0
"""Makes one Move of two, and of a Move and a Reshape before or behind it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..graph import Graph, Node
from ..ops.move import Move
from ..ops.reshape import Reshape
from .rewrite import moved_from, rewrite_nodes, same_quantisation, sole_consumer, with_nodes


def join_moves(graph: Graph) -> Graph:
    return rewrite_nodes(graph, _join)


def _join(graph: Graph, node: Node) -> Graph | None:
    first = graph.producer(node.inputs[0]) if node.inputs else None
    if first is None or not any(isinstance(n.op, Move) for n in (node, first)):
        return None
    out = graph.tensors[node.outputs[0]]
    index = moved_from(node, np.arange(out.bytes).reshape(out.shape))
    index = None if index is None else moved_from(first, index)
    if index is None:
        return None
    source, middle = graph.tensors[first.inputs[0]], graph.tensors[node.inputs[0]]
    # A Move that others need stays, and nothing is won by reading around it.
    shared = sole_consumer(graph, middle.name) is not node and isinstance(first.op, Move)
    if shared or not same_quantisation(source, middle):
        return None
    still = np.array_equal(index.ravel(), np.arange(source.bytes))
    op = Reshape() if still else Move.of(index)
    if op is None:
        return None
    joined = replace(node, op=op, inputs=first.inputs)
    return with_nodes(graph, [joined if other is node else other for other in graph.nodes])
