# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers with a node for each step.

A frontend makes one node of such a layer, whose rows are its steps: each row is computed from the
row before. In a model whose calls cannot follow each other row by row, the steps become nodes that
share weights, and the state after the last one is that of the next call.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...graph import Graph, Node, RecurrentState, Tensor
from ...ops.concat import Concat
from ...ops.lookup import Lookup
from ...ops.lstm import LstmStep
from ...ops.move import Move
from ...quant import INT8_MAX, INT8_MIN
from ..rewrite import swept


def unroll_recurrent_layers(graph: Graph) -> Graph:
    """The graph with all recurrent layers unrolled."""
    for node in graph.nodes:
        if node.is_recurrent and isinstance(node.op, LstmStep):
            graph = _unroll(graph, node, node.op)
    return swept(graph)


def _unroll(graph: Graph, node: Node, op: LstmStep) -> Graph:
    """The graph with one layer unrolled. Its only reader copies what the units output."""
    rows, states = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    steps, columns, units = states.shape
    name = states.name.removesuffix("/state")
    reader = graph.readers[states.name][-1]
    tensors, nodes = dict(graph.tensors), []

    def add(label: str, op: LstmStep | Move, inputs: tuple[str, ...], made: Tensor) -> str:
        tensors[label] = replace(made, name=label)
        nodes.append(Node(label, op, inputs, (label,)))
        return label

    state = Tensor(states.name, (1, columns, units), 1.0, 0)
    tensors[states.name] = state
    row = replace(rows, shape=(1, *rows.shape[1:]))
    output = replace(state, shape=(1, 1, units))
    before, parts = states.name, []
    for step in range(steps):
        x = rows.name
        if steps > 1:
            x = add(f"{name}/input {step}", _copy(step * row.bytes, row), (x,), row)
        before = add(f"{name}/state {step}", op, (x, before), state)
        parts.append(add(f"{name}/output {step}", _copy(0, output), (before,), output))
    # A unit's output is stored less its zero point, as a byte that can wrap.
    table = (np.arange(INT8_MIN, INT8_MAX + 1) + op.zero).astype(np.int8)
    whole = Lookup(table) if steps == 1 else Concat(0, (table if op.zero else None,) * steps)
    nodes.append(replace(reader, op=whole, inputs=tuple(parts)))
    others = {id(node): [], id(reader): nodes}
    found = tuple(new for old in graph.nodes for new in others.get(id(old), [old]))
    recurrent = (*graph.state.recurrent, RecurrentState(states.name, before, 0))
    return replace(graph, tensors=tensors, nodes=found).with_state(recurrent=recurrent)


def _copy(first: int, row: Tensor) -> Move:
    """Copies a row of a tensor from byte `first` on."""
    move = Move.of(first + np.arange(row.bytes).reshape(row.shape))
    assert move is not None
    return move
