# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers whose state is kept from call to call.

A frontend makes one node of such a layer, whose rows are its steps: each row is computed from the
row before. In a model whose calls cannot follow each other row by row, the state before the first
step is that behind the last one of the call before, and the steps are a loop.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...graph import Graph, Node, RecurrentState, Tensor
from ...ops.concat import Concat
from ...ops.lookup import Lookup
from ...ops.lstm import LstmStep
from ...ops.pad import Pad
from ...quant import INT8_MAX, INT8_MIN
from ..rewrite import reading


def keep_recurrent_states(graph: Graph) -> Graph:
    """The graph with the states of all recurrent layers as such of the graph."""
    for node in graph.nodes:
        if node.is_recurrent and isinstance(node.op, LstmStep):
            graph = _with_state(graph, node, node.op)
    return graph


def _with_state(graph: Graph, node: Node, op: LstmStep) -> Graph:
    """The graph with the state of one layer. Its only reader copies what the units output."""
    states = graph.tensors[node.outputs[0]]
    steps, columns, units = states.shape
    name = states.name.removesuffix("/state")
    reader = graph.readers[states.name][-1]
    state = Tensor(f"{name}/state before", (1, columns, units), 1.0, 0)
    tensors = {**graph.tensors, state.name: state, states.name: replace(state, name=states.name)}
    # A unit's output is stored less its zero point, as a byte that can wrap.
    table = (np.arange(INT8_MIN, INT8_MAX + 1) + op.zero).astype(np.int8)
    given = f"{name}/output"
    tensors[given] = replace(tensors[reader.outputs[0]], name=given)
    begin, end = [], []
    before, after = state.name, states.name
    if steps > 1:
        tensors[states.name] = replace(states, scale=1.0, zero_point=0)
        before, after = f"{name}/states before", f"{name}/state behind"
        tensors[before] = replace(tensors[states.name], name=before)
        tensors[after] = replace(state, name=after)
        rows = (state.name, states.name)
        begin = [Node(before, Concat(0, (None, None)), rows, (before,))]
        last = Pad(((1 - steps, 0), (0, 0), (0, 0)), 0)
        end = [Node(after, last, (states.name,), (after,))]
    step = reading(node, states.name, before)
    shown = [
        replace(reader, outputs=(given,)),
        Node(given, Lookup(table), (given,), reader.outputs),
    ]
    others = {id(node): [*begin, step, *end], id(reader): shown}
    found = tuple(new for old in graph.nodes for new in others.get(id(old), [old]))
    recurrent = (*graph.state.recurrent, RecurrentState(state.name, after, 0))
    return replace(graph, tensors=tensors, nodes=found).with_state(recurrent=recurrent)
