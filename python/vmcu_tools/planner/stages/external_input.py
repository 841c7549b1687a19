# SPDX-License-Identifier: Apache-2.0
"""An input that is read where the caller has it: each of its readers gets a fetch of its own."""

from __future__ import annotations

from dataclasses import replace

from ...errors import Problem, UserError
from ...graph import Graph, Node, Tensor
from ...ops.fetch import Fetch


def fetched(graph: Graph) -> Graph:
    """The graph with the only input outside of the pool.

    Raises UserError where there are several, or where the input is an output as well.
    """
    ports = tuple(port.tensor for port in graph.inputs)
    reason = ""
    if len(ports) != 1:
        reason = f"the model has {len(ports)} inputs; --external-input needs a single one"
    elif any(port.tensor in ports for port in graph.outputs):
        reason = f"the input '{graph.inputs[0].name}' is also an output, which must be in the pool"
    if reason:
        raise UserError(Problem(reason, "leave out --external-input", graph.origin))
    source = graph.tensors[ports[0]]
    tensors, nodes = dict(graph.tensors), []
    for node in graph.nodes:
        if source.name in node.inputs:
            out = f"{source.name} for {node.outputs[0]}"
            columns = range(source.shape[1])
            tensors[out] = fetched_tensor(source, columns, out)
            nodes.append(fetch_of(source, columns, out))
            inputs = tuple(out if name == source.name else name for name in node.inputs)
            node = replace(node, inputs=inputs)
        nodes.append(node)
    return replace(graph, tensors=tensors, nodes=tuple(nodes), elsewhere=frozenset(ports))


def fetch_of(source: Tensor, columns: range, out: str) -> Node:
    """The node that copies columns of an input that is elsewhere to a tensor in the pool."""
    label = f"{source.name} columns {columns[0]} to {columns[-1]}"
    return Node(label, Fetch(source.name, columns[0]), (), (out,))


def fetched_tensor(source: Tensor, columns: range, name: str) -> Tensor:
    """The tensor that fetch_of() makes."""
    height, _, channels = source.shape
    return replace(source, name=name, shape=(height, len(columns), channels))
