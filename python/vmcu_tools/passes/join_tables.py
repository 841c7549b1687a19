# SPDX-License-Identifier: Apache-2.0
"""Makes one table of two, and of a table and a change of scale before or behind it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..graph import Graph, Node
from ..ops.lookup import Lookup
from ..ops.requantize import Requantize
from ..quant import INT8_MAX, INT8_MIN
from .rewrite import rewrite_nodes, sole_consumer, with_nodes

_BYTES = np.arange(INT8_MIN, INT8_MAX + 1, dtype=np.int64)


def join_tables(graph: Graph) -> Graph:
    return rewrite_nodes(graph, _join)


def _join(graph: Graph, node: Node) -> Graph | None:
    first = graph.producer(node.inputs[0]) if node.inputs else None
    if first is None or sole_consumer(graph, node.inputs[0]) is not node:
        return None
    if not isinstance(node.op, Lookup) and not isinstance(first.op, Lookup):
        return None
    inner, outer = _results(graph, first), _results(graph, node)
    if inner is None or outer is None:
        return None
    table = outer[inner.astype(np.int64) - INT8_MIN]
    joined = replace(node, op=Lookup(table), inputs=first.inputs)
    nodes = [joined if other is node else other for other in graph.nodes if other is not first]
    return with_nodes(graph, nodes)


def _results(graph: Graph, node: Node) -> np.ndarray | None:
    """int8 (256,): what a node makes of every byte; None if that depends on more."""
    op = node.op
    if isinstance(op, Lookup):
        return op.table
    if not isinstance(op, Requantize):
        return None
    values = _BYTES
    if op.requant is not None:
        x, out = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
        values = op.requant.apply(_BYTES - x.zero_point) + out.zero_point
    return np.clip(values, op.act_min, op.act_max).astype(np.int8)
