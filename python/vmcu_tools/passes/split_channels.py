# SPDX-License-Identifier: Apache-2.0
"""Layers in parts by output channels, and a Concat of the parts.

For weights that are read into a buffer in RAM (plan/chunks.py), where each part has its own chunk,
and for workers, each of which computes a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..graph import Graph, Node
from ..ops.concat import Concat
from ..ops.conv2d import Conv2D
from ..ops.fully_connected import FullyConnected
from .rewrite import free_name

# Kernels compute so many channels at a time.
BLOCK = 4


def split_channels(graph: Graph, limit: int, size_of: Callable[[Graph, Node], int]) -> Graph:
    """The graph with each convolution and fully connected layer of more than `limit` bytes of
    constants in as few parts as have no more. A layer stays whole if that is not possible.
    size_of: bytes of the constants of a node."""
    for node in graph.nodes:
        if size_of(graph, node) > limit and _is_splittable(node):
            graph = _split(graph, node, limit, size_of) or graph
    return graph


def divisible(graph: Graph) -> list[Node]:
    """Convolutions and fully connected layers of one pixel that halved() can split."""
    nodes = filter(_is_splittable, graph.nodes)
    shapes = ((node, graph.tensors[node.outputs[0]].shape) for node in nodes)
    return [node for node, shape in shapes if shape[:2] == (1, 1) and shape[2] > BLOCK]


def halved(graph: Graph, nodes: Iterable[Node]) -> Graph:
    """The graph with some nodes in two parts, neither of which overwrites the input."""
    for node in nodes:
        graph, parts = _in_parts(graph, node, 2)
        graph = replace(graph, apart=graph.apart.union(part.outputs[0] for part in parts))
    return graph


def _is_splittable(node: Node) -> bool:
    return isinstance(node.op, FullyConnected) or (
        isinstance(node.op, Conv2D) and node.op.groups == 1
    )


def _split(
    graph: Graph, node: Node, limit: int, size_of: Callable[[Graph, Node], int]
) -> Graph | None:
    """The graph with one node in parts; None if parts of BLOCK channels are too large."""
    blocks = -(-graph.tensors[node.outputs[0]].shape[2] // BLOCK)
    fewest = -(-size_of(graph, node) // limit)
    for count in range(fewest, blocks + 1):
        split, parts = _in_parts(graph, node, count)
        if all(size_of(split, part) <= limit for part in parts):
            return split
    return None


def _in_parts(graph: Graph, node: Node, count: int) -> tuple[Graph, list[Node]]:
    """The graph with a node in `count` parts, and the parts."""
    op: Any = node.op
    out = graph.tensors[node.outputs[0]]
    tensors, parts = dict(graph.tensors), []
    for number, channels in enumerate(_ranges(out.shape[2], count)):
        name = free_name(graph, f"{out.name}.{number}")
        tensors[name] = replace(out, name=name, shape=(*out.shape[:2], len(channels)))
        part = replace(
            op,
            weights=op.weights[channels],
            bias=op.bias[channels],
            requant=op.requant.pick(channels),
        )
        parts.append(Node(f"{node.name}.{number}", part, node.inputs, (name,)))
    joined = Node(
        node.name, Concat(2, (None,) * count), tuple(p.outputs[0] for p in parts), node.outputs
    )
    at = graph.nodes.index(node)
    nodes = (*graph.nodes[:at], *parts, joined, *graph.nodes[at + 1 :])
    return replace(graph, nodes=nodes, tensors=tensors), parts


def _ranges(channels: int, count: int) -> list[np.ndarray]:
    """Channels in `count` parts, in whole blocks, as equal as possible."""
    blocks = np.array_split(np.arange(-(-channels // BLOCK)), count)
    return [np.arange(part[0] * BLOCK, min((part[-1] + 1) * BLOCK, channels)) for part in blocks]
