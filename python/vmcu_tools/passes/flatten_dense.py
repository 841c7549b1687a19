# SPDX-License-Identifier: Apache-2.0
"""Turns a flattened image under a FullyConnected into a Conv2D whose kernel is the whole image."""

from __future__ import annotations

from ..graph import Graph, Node, Window
from ..ops.conv2d import as_convolution
from ..ops.fully_connected import FullyConnected
from ..ops.reshape import Reshape
from .rewrite import replace_node, rewrite_nodes, same_quantisation


def flatten_dense(graph: Graph) -> Graph:
    return rewrite_nodes(graph, _flatten)


def _flatten(graph: Graph, node: Node) -> Graph | None:
    reshape = graph.producer(node.inputs[0])
    if not isinstance(node.op, FullyConnected) or reshape is None:
        return None
    if not isinstance(reshape.op, Reshape):
        return None
    image, vector = graph.tensors[reshape.inputs[0]], graph.tensors[node.inputs[0]]
    if vector.shape != (1, 1, image.bytes) or not same_quantisation(image, vector):
        return None
    weights = node.op.weights.reshape(len(node.op.weights), *image.shape)
    conv = as_convolution(node.op, weights, Window(image.shape[:2]))
    return replace_node(graph, node, Node(node.name, conv, (image.name,), node.outputs))
