# SPDX-License-Identifier: Apache-2.0
"""Joins inputs to one row: a model that keeps state reads one row in each call."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...graph import Graph, Node, Port, RowField, Tensor
from ...ops.move import Move
from ..rewrite import free_name

ROW = "inputs"


def join_inputs(graph: Graph) -> Graph:
    """Returns the graph with one input: a row with all inputs, one behind the other. A graph with
    one input stays the same."""
    if len(graph.inputs) < 2:
        return graph
    name, at = free_name(graph, ROW), 0
    fields, nodes = [], []
    for port in graph.inputs:
        tensor = graph.tensors[port.tensor]
        move = Move.of(at + np.arange(tensor.bytes, dtype=np.int64).reshape(tensor.shape))
        assert move is not None
        nodes.append(Node(f"{port.name} of {name}", move, (name,), (tensor.name,)))
        fields.append(RowField(port, tensor, at))
        at += tensor.bytes
    row = Tensor(name, (1, 1, at), 1.0, 0)
    return replace(
        graph,
        tensors={name: row, **graph.tensors},
        nodes=(*nodes, *graph.nodes),
        inputs=(Port(name, name, (1, at), "int8"),),
        state=replace(graph.state, row_fields=tuple(fields)),
    )
