# SPDX-License-Identifier: Apache-2.0
"""Moves a stand-alone clamp (Requantize that keeps the scale) into the layer before it."""

from __future__ import annotations

from dataclasses import replace

from ..graph import Graph, Node
from ..ops.requantize import Requantize
from .rewrite import rewrite_nodes, same_quantisation, sole_consumer, with_nodes


def fuse_activation(graph: Graph) -> Graph:
    return rewrite_nodes(graph, _fuse)


def _fuse(graph: Graph, node: Node) -> Graph | None:
    if not isinstance(node.op, Requantize) or node.op.requant is not None:
        return None
    source, target = node.inputs[0], node.outputs[0]
    producer = graph.producer(source)
    if producer is None or not producer.op.clamps:
        return None
    if sole_consumer(graph, source) is not node:
        return None
    if not same_quantisation(graph.tensors[source], graph.tensors[target]):
        return None
    low, high = node.op.act_min, node.op.act_max
    op = replace(
        producer.op,
        act_min=min(max(producer.op.act_min, low), high),
        act_max=min(max(producer.op.act_max, low), high),
    )
    fused = replace(producer, op=op, outputs=(target,))
    return with_nodes(
        graph, [fused if other is producer else other for other in graph.nodes if other is not node]
    )
