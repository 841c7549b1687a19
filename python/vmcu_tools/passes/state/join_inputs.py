# SPDX-License-Identifier: Apache-2.0
"""Joins inputs to one row: a model that keeps state reads one row in each call."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...graph import Graph, Node, Port, RowField, Tensor
from ...ops.move import Move
from ...ops.reshape import Reshape
from ..rewrite import free_name, with_tensor

ROW = "inputs"


def join_inputs(graph: Graph, in_rows: bool = False) -> Graph:
    """Returns the graph with one input: a row with all inputs, one behind the other. A graph with
    one input stays the same. in_rows: images are copied as a row, then reshaped."""
    if len(graph.inputs) < 2:
        return graph
    name, at = free_name(graph, ROW), 0
    fields: list[RowField] = []
    nodes: list[Node] = []
    for port in graph.inputs:
        tensor = graph.tensors[port.tensor]
        flat, made = (1, 1, tensor.bytes), tensor.name
        image = in_rows and min(tensor.shape[:2]) > 1
        move = Move.of(at + np.arange(tensor.bytes).reshape(flat if image else tensor.shape))
        assert move is not None
        if image:
            made = free_name(graph, f"{tensor.name} in a row")
            graph = with_tensor(graph, replace(tensor, name=made, shape=flat))
        nodes.append(Node(f"{port.name} of {name}", move, (name,), (made,)))
        if image:
            nodes.append(Node(f"shape of {port.name}", Reshape(), (made,), (tensor.name,)))
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
