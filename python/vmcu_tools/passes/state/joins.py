# SPDX-License-Identifier: Apache-2.0
"""Nodes that put the new elements of a call behind those of a state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...graph import Graph, Node
from ...ops import bind
from ...ops.binary import Binary
from ...ops.concat import Concat
from ...ops.pad import Pad
from ...quant import INT8_MAX, INT8_MIN


@dataclass(frozen=True)
class Join:
    """nodes: what puts elements behind others; whole: the tensor with all; row: the bytes of a row;
    new: the tensor with the new elements, "" for the constant `byte`; table: what makes its bytes
    those of `whole`."""

    nodes: tuple[Node, ...]
    whole: str
    row: int
    new: str = ""
    byte: int = 0
    table: np.ndarray | None = None


def find_join(graph: Graph, node: Node, front: str, flat: bool) -> Join | str:
    """Returns how a node puts new rows behind those of `front`, or why it does not. flat: along any
    axis, all new elements are a row."""
    op, whole = node.op, graph.tensors[node.outputs[0]]
    if flat and isinstance(op, Pad):
        return _constant_join(graph, node, front) or f"'{front}' is padded"
    outer = whole.shape[: op.axis] if isinstance(op, Concat) else (0,)
    along = max(outer, default=1) == 1 if flat else not outer
    if not isinstance(op, Concat) or not along or len(node.inputs) != 2:
        return "it is not concatenated in front of new rows"
    if node.inputs[0] != front or node.inputs[1] == front:
        return "it is not concatenated in front of new rows"
    if op.tables[0] is not None:
        return "the scale or zero point differs from that of the new rows"
    new = graph.tensors[node.inputs[1]]
    row = new.bytes if flat else whole.row_bytes
    return Join((node,), whole.name, row, new.name, table=op.tables[1])


def _constant_join(graph: Graph, node: Node, front: str) -> Join | None:
    """Elements that a frontend adds to those that it pads with, if they are one constant."""
    first, readers = graph.tensors[front], graph.consumers(node.outputs[0])
    if len(readers) != 1 or not isinstance(readers[0].op, Binary):
        return None
    pad, added = bind(graph, node), bind(graph, readers[0])
    values = np.arange(INT8_MIN, INT8_MAX + 1)
    results = []
    for value in values:
        padded = pad.rows([np.full(first.shape, value, np.int8)], 0, pad.out.shape[0])
        results.append(added.rows([padded], 0, added.out.shape[0]).ravel())
    every, count = np.stack(results), first.bytes
    new = every[:, count:]
    if not (every[:, :count] == values[:, None]).all() or new.size == 0 or np.ptp(new) > 0:
        return None
    return Join((node, readers[0]), added.out.name, new.shape[1], byte=int(new[0, 0]))
