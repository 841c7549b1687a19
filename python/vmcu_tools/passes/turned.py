# SPDX-License-Identifier: Apache-2.0
"""Images of one row, as files have sequences in one dimension, stood up: time is H.

(1, T, C) and (T, 1, C) are the same bytes in the same order, so only windows and weights turn.
"""

from __future__ import annotations

from dataclasses import replace

from ..graph import Graph, Node, Tensor
from ..ops import bind
from . import optimize


def turned(graph: Graph) -> Graph:
    """The graph with columns of such images in the place of rows; the same graph where there are
    none, or where a layer between them cannot turn."""
    if not any(_lies(tensor) for tensor in graph.tensors.values()):
        return graph
    nodes = []
    for node in graph.nodes:
        one = _turned(graph, node)
        if one is None:
            return graph
        nodes.append(one)
    tensors = {name: _up(tensor) for name, tensor in graph.tensors.items()}
    return optimize(replace(graph, tensors=tensors, nodes=tuple(nodes)), all_channels=True)


def _lies(tensor: Tensor) -> bool:
    return tensor.shape[0] == 1 and tensor.shape[1] > 1


def _up(tensor: Tensor) -> Tensor:
    height, width, channels = tensor.shape
    return replace(tensor, shape=(width, height, channels)) if _lies(tensor) else tensor


def _turned(graph: Graph, node: Node) -> Node | None:
    tensors = [graph.tensors[name] for name in (*node.inputs, *node.outputs)]
    if node.op.relabels or not any(map(_lies, tensors)):
        return node
    op = bind(graph, node).turned if all(tensor.shape[0] == 1 for tensor in tensors) else None
    return None if op is None else replace(node, op=op)
