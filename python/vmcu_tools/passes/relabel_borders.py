# SPDX-License-Identifier: Apache-2.0
"""Drops a Reshape at a graph input or output by giving the port's tensor the inner shape.

The port still says how the file sees the tensor; its bytes are the same under either shape.
"""

from __future__ import annotations

from dataclasses import replace

from ..graph import Graph, Node
from ..ops.reshape import Reshape
from .rewrite import bypass, is_input, is_output, rewrite_nodes, same_quantisation, sole_consumer


def relabel_borders(graph: Graph) -> Graph:
    return rewrite_nodes(graph, _relabel)


def _relabel(graph: Graph, node: Node) -> Graph | None:
    if not isinstance(node.op, Reshape):
        return None
    source, target = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    if not same_quantisation(source, target):
        return None
    if not _free_shape(graph, source.name) or not _free_shape(graph, target.name):
        return None
    if is_output(graph, target.name):
        return bypass(graph, node)
    if not is_input(graph, source.name) or sole_consumer(graph, source.name) is not node:
        return None
    reshaped = replace(source, shape=target.shape)
    return bypass(replace(graph, tensors=graph.tensors | {source.name: reshaped}), node)


def _free_shape(graph: Graph, tensor: str) -> bool:
    """Whether a tensor's shape may change: a channels-first port needs it to turn the axes."""
    ports = [port for port in (*graph.inputs, *graph.outputs) if port.tensor == tensor]
    return all(port.layout == "nhwc" for port in ports)
