# SPDX-License-Identifier: Apache-2.0
"""Images of one row, as files have sequences in one dimension, stood up: time is H.

(1, T, C) and (T, 1, C) are the same bytes in the same order, so only windows and weights turn. A
layer that cannot turn works on images that lie, between Reshapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..graph import Graph, Node, Tensor
from ..ops import bind
from ..ops.reshape import Reshape
from . import optimize


def turned(graph: Graph) -> Graph:
    """The graph with columns of such images in the place of rows; the same graph where there are
    none."""
    if not any(_lies(tensor) for tensor in graph.tensors.values()):
        return graph
    nodes: list[Node] = []
    tensors = {name: _up(tensor) for name, tensor in graph.tensors.items()}
    for node in graph.nodes:
        one = _turned(graph, node)
        nodes += _between(graph, node, tensors) if one is None else [one]
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


def _between(graph: Graph, node: Node, tensors: dict[str, Tensor]) -> Iterator[Node]:
    """A node as it is, of images that lie, which are added to the tensors."""

    def lying(name: str) -> str:
        """An image's name as the node has it."""
        if not _lies(graph.tensors[name]):
            return name
        flat = f"{name} for {node.outputs[0]}"
        tensors[flat] = replace(graph.tensors[name], name=flat)
        return flat

    ins, outs = ({name: lying(name) for name in some} for some in (node.inputs, node.outputs))
    for name, flat in ins.items():
        if flat != name:
            yield Node(f"{node.name} of one row", Reshape(), (name,), (flat,))
    inside = tuple(ins[name] for name in node.inputs)
    yield replace(node, inputs=inside, outputs=tuple(outs[name] for name in node.outputs))
    for name, flat in outs.items():
        if flat != name:
            yield Node(f"{node.name} in rows", Reshape(), (flat,), (name,))
