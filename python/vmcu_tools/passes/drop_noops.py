# SPDX-License-Identifier: Apache-2.0
"""Drops nodes that hand on their input unchanged, and merges chains of Reshape."""

from __future__ import annotations

import numpy as np

from ..graph import Graph, Node
from ..ops.pad import Pad
from ..ops.requantize import Requantize
from ..ops.reshape import Reshape
from ..quant import INT8_MAX, INT8_MIN
from .rewrite import bypass, reading, replace_node, rewrite_nodes, same_quantisation


def drop_noops(graph: Graph) -> Graph:
    graph = rewrite_nodes(graph, _skip_reshape)
    return rewrite_nodes(graph, _drop)


def _drop(graph: Graph, node: Node) -> Graph | None:
    return bypass(graph, node) if _hands_on(graph, node) else None


def _skip_reshape(graph: Graph, node: Node) -> Graph | None:
    """Lets a Reshape behind a Reshape read the first one's input."""
    first = graph.producer(node.inputs[0])
    if not isinstance(node.op, Reshape) or first is None or not isinstance(first.op, Reshape):
        return None
    source, middle = first.inputs[0], first.outputs[0]
    if not same_quantisation(graph.tensors[source], graph.tensors[middle]):
        return None
    return replace_node(graph, node, reading(node, middle, source))


def _hands_on(graph: Graph, node: Node) -> bool:
    """Whether the output equals the input, in bytes, shape, scale and zero point."""
    if len(node.inputs) != 1:
        return False
    source, target = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    if source.shape != target.shape or not same_quantisation(source, target):
        return False
    if isinstance(node.op, Pad):
        return not np.any(node.op.amounts)
    if node.op.relabels:
        return True
    return isinstance(node.op, Requantize) and _is_identity(node.op, source.zero_point)


def _is_identity(op: Requantize, zero_point: int) -> bool:
    """Tried out on all 256 values."""
    q = np.arange(INT8_MIN, INT8_MAX + 1)
    scaled = q if op.requant is None else op.requant.apply(q - zero_point) + zero_point
    return np.array_equal(np.clip(scaled, op.act_min, op.act_max), q)
