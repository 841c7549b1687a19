# SPDX-License-Identifier: Apache-2.0
"""Edits that passes are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from ..graph import Graph, Node, Tensor
from ..ops.move import Move

# Returns the changed graph, or None if the node gives no reason for a change.
Step = Callable[[Graph, Node], Graph | None]


def rewrite_nodes(graph: Graph, step: Step) -> Graph:
    """Applies `step` to every node until it changes nothing; the same graph if it never did.

    Tensors that nothing refers to any more are dropped once, at the end: a long graph is edited
    in thousands of steps.
    """
    first, index = graph, 0
    while index < len(graph.nodes):
        changed = step(graph, graph.nodes[index])
        if changed is None:
            index += 1
        else:
            graph = changed
    return graph if graph is first else swept(graph)


def is_input(graph: Graph, tensor: str) -> bool:
    return any(port.tensor == tensor for port in graph.inputs)


def is_output(graph: Graph, tensor: str) -> bool:
    return any(port.tensor == tensor for port in graph.outputs)


def sole_consumer(graph: Graph, tensor: str) -> Node | None:
    """The one node that reads a tensor that nobody else sees."""
    consumers = graph.consumers(tensor)
    return consumers[0] if len(consumers) == 1 and not is_output(graph, tensor) else None


def same_quantisation(a: Tensor, b: Tensor) -> bool:
    return (a.scale, a.zero_point) == (b.scale, b.zero_point)


def moved_from(node: Node, index: np.ndarray) -> np.ndarray | None:
    """Which bytes of its input a node has as bytes `index` of its output; None if it does more than
    arrange bytes anew."""
    if isinstance(node.op, Move):
        found: np.ndarray = node.op.index.ravel()[index]
        return found
    return index if node.op.relabels else None


def swept(graph: Graph) -> Graph:
    """The graph without tensors that nothing refers to."""
    used = {port.tensor for port in (*graph.inputs, *graph.outputs)}
    used |= {name for node in graph.nodes for name in (*node.inputs, *node.outputs)}
    return replace(graph, tensors={name: t for name, t in graph.tensors.items() if name in used})


def with_nodes(graph: Graph, nodes: Iterable[Node]) -> Graph:
    return replace(graph, nodes=tuple(nodes))


def with_tensor(graph: Graph, tensor: Tensor) -> Graph:
    return replace(graph, tensors={**graph.tensors, tensor.name: tensor})


def replace_node(graph: Graph, old: Node, new: Node) -> Graph:
    return with_nodes(graph, [new if node is old else node for node in graph.nodes])


def reading(node: Node, old: str, new: str) -> Node:
    """The node with input `old` replaced."""
    return replace(node, inputs=tuple(new if name == old else name for name in node.inputs))


def all_reading(nodes: Sequence[Node], old: str, new: str) -> list[Node]:
    """The nodes with input `old` replaced where they have it."""
    return [reading(node, old, new) if old in node.inputs else node for node in nodes]


def bypass(graph: Graph, node: Node) -> Graph | None:
    """Removes a node that hands on its input's bytes; None where that cannot be done.

    The input's name goes, if the output is a graph output, else the output's. Either way the
    remaining tensor has the input's shape.
    """
    source, target = node.inputs[0], node.outputs[0]
    rest = [other for other in graph.nodes if other is not node]
    if not is_output(graph, target):
        return with_nodes(graph, all_reading(rest, target, source))
    producer = graph.producer(source)
    if producer is None or is_output(graph, source) or graph.consumers(target):
        return None
    renamed = replace(producer, outputs=(target,))
    tensor = replace(graph.tensors[source], name=target)
    nodes = all_reading(rest, source, target)
    nodes[rest.index(producer)] = renamed
    return replace(graph, nodes=tuple(nodes), tensors=graph.tensors | {target: tensor})


def free_name(graph: Graph, name: str) -> str:
    """A name for a tensor that the graph does not have."""
    while name in graph.tensors:
        name += "'"
    return name
