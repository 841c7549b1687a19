# SPDX-License-Identifier: Apache-2.0
"""Many calls of a graph whose states are ring buffers, as one tall image.

The graph of a first call has padding where later calls read rows of the previous ones. In the tall
image only the first row has padding in front.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import Problem, UserError
from ...graph import Graph, Node, Tensor, Window
from ...ops import Layer, bind
from ...ops.conv2d import Conv2D
from ...ops.dense_by_rows import COLUMNS as SUM_COLUMNS
from ...ops.dense_by_rows import MOST_BYTES, MOST_CHANNELS, MOST_ROWS, DenseByRows
from ...ops.max_pooling import MaxPool2D
from ...ops.move import Move
from ...ops.pick import MOST_ROW_BYTES, Pick
from ...quant import FixedPoint, wrap_int32
from .. import optimize
from ..join_branches import join_branches
from ..rewrite import free_name, moved_from
from .transpose import transpose_columns


def concatenate_calls(graph: Graph, hop: int, calls: int) -> Graph:
    """Returns the graph of so many calls, each with `hop` rows of the input.

    Raises UserError if the rows of a call cannot follow those of the previous one.
    """
    rows = graph.tensors[graph.inputs[0].tensor].shape[0]
    reason = ""
    if not graph.outputs:
        reason = "the model has no output besides its states"
    elif hop != rows:
        reason = f"the model keeps state and needs {rows} rows a call, not {hop}"
    elif any(graph.tensors[port.tensor].shape[0] != 1 for port in graph.outputs):
        reason = "the output has several rows, but a call computes one"
    if reason:
        raise UserError(Problem(reason, "leave out --hop, or export it otherwise", graph.origin))
    graph = _use_row_layers(graph)
    nodes = tuple(_concatenate_node(graph, node) for node in graph.nodes)
    tensors = {name: _repeat_rows(tensor, calls) for name, tensor in graph.tensors.items()}
    return replace(graph, tensors=tensors, nodes=nodes).with_state(step_rows=hop)


def merge_branches(graph: Graph) -> Graph:
    """The graph of a first call with branches joined, as concatenate_calls() requires. Where a call
    has one row, columns of pixels become rows."""
    graph = optimize(join_branches(graph), all_channels=True)
    one_row = bool(graph.inputs) and graph.tensors[graph.inputs[0].tensor].shape[0] == 1
    columns = any(t.shape[0] > 1 and t.shape[1] == 1 for t in graph.tensors.values())
    return transpose_columns(graph) if one_row and columns else graph


def can_concatenate_calls(graph: Graph) -> bool:
    """True if the rows of each call can follow those of the previous one."""
    return not graph.state.recurrent and not why_not_concatenated(graph)


def why_not_concatenated(graph: Graph) -> str:
    """Returns why the rows of a call cannot follow those of the previous one; "" if they can. In a
    graph with recurrent layers, padding is the file's own and is read in each call."""
    if not graph.inputs:
        return "the model has no input besides its states"
    rows = graph.tensors[graph.inputs[0].tensor].shape[0]
    try:
        found = concatenate_calls(merge_branches(graph), rows, 2)
    except UserError as error:
        problem = error.problems[0]
        where = f"{problem.node} ({problem.op}): " if problem.node else ""
        return f"{where}{problem.reason}"
    padded = any(bind(found, node).reach(0).before[0] > 0 for node in found.nodes)
    return "a layer computes rows from rows before" if padded and found.is_recurrent else ""


def _repeat_rows(tensor: Tensor, calls: int) -> Tensor:
    height, width, channels = tensor.shape
    return replace(tensor, shape=(height * calls, width, channels))


def _use_row_layers(graph: Graph) -> Graph:
    """The graph with layers that work row by row in place of layers that read a whole call, if it
    has recurrent layers: a pooling layer copies a row, DenseByRows computes a dense layer."""
    if not graph.is_recurrent:
        return graph
    tensors, nodes = dict(graph.tensors), []
    for node in graph.nodes:
        layer = bind(graph, node)
        rows, row, sums = layer.ins[0].shape[0], _copied_row(layer), _row_sums(layer)
        name, columns = node.inputs[0], 1
        if sums is not None:
            out, row = layer.out, rows - 1
            name, columns = free_name(graph, f"{out.name}/sums"), SUM_COLUMNS
            tensors[name] = replace(out, name=name, shape=(rows, columns, out.shape[2]))
            nodes.append(Node(f"{node.name}/sums", sums, (node.inputs[0], name), (name,)))
        if row is not None:
            # A window of the one row.
            window = Window(stride=(rows, columns), pad=(-row, 0, 0, 0))
            node = replace(node, op=MaxPool2D(window), inputs=(name,))
        nodes.append(node)
    return replace(graph, tensors=tensors, nodes=tuple(nodes))


def _row_sums(layer: Layer[Any]) -> DenseByRows | None:
    """Returns the op that computes a dense layer row by row; None if that saves no bytes."""
    op, given, channels = layer.op, layer.ins[0], layer.out.shape[2]
    if not isinstance(op, Conv2D) or not isinstance(op.requant, FixedPoint):
        return None
    rows, row_bytes = given.shape[0], given.row_bytes
    whole = op.window == Window(given.shape[:2]) and op.groups == 1
    few = rows <= MOST_ROWS and channels <= MOST_CHANNELS and row_bytes <= MOST_BYTES
    if not whole or not few or (rows - 1) * row_bytes <= SUM_COLUMNS * channels:
        return None
    totals = op.weights.astype(np.int64).reshape(channels, -1).sum(axis=1)
    weights = op.weights.reshape(channels, rows, row_bytes).swapaxes(0, 1)
    begin = wrap_int32(op.bias - given.zero_point * totals)
    return DenseByRows(weights, begin, op.requant, act_min=op.act_min, act_max=op.act_max)


def _concatenate_node(graph: Graph, node: Node) -> Node:
    """Returns the node of a graph in which calls follow each other."""
    node = _pick_bytes(graph, node)
    layer = bind(graph, node)
    if not layer.by_rows or not _is_zero_padded(layer):
        raise UserError(_problem(graph, node, "the rows depend on their position in a call"))
    here, given = layer.out.shape[0], layer.ins[0].shape[0]
    if here * layer.reach(0).stride[0] == given:
        return node
    if here != 1 or not node.op.windowed:
        reason = f"a call has {given} rows of its input and {here} of its output"
        raise UserError(_problem(graph, node, reason))
    op: Any = node.op
    window = replace(op.window, stride=(given, op.window.stride[1]))
    return replace(node, op=replace(op, window=window))


def _pick_bytes(graph: Graph, node: Node) -> Node:
    """Returns a node that arranges the bytes of one row anew with the op that does so in each."""
    of, out = (graph.tensors[name] for name in (node.inputs[0], node.outputs[0]))
    places = moved_from(node, np.arange(out.bytes))
    if places is None or (of.shape[0], out.shape[0]) != (1, 1) or of.bytes > MOST_ROW_BYTES:
        return node
    return replace(node, op=Pick(places))


def _copied_row(layer: Layer[Any]) -> int | None:
    """Returns the row of its input that a layer copies; None if it does anything else."""
    (_, *row), image = layer.out.shape, layer.ins[0].shape
    op = layer.op
    if not isinstance(op, Move) or layer.out.shape[0] != 1 or tuple(row) != image[1:]:
        return None
    index = op.index.ravel()
    return int(index[0]) // len(index) if _is_row(index) else None


def _is_row(index: np.ndarray) -> bool:
    """True if these are the bytes of a row, in order."""
    start = int(index[0])
    return start % len(index) == 0 and np.array_equal(index, start + np.arange(len(index)))


def _is_zero_padded(layer: Layer[Any]) -> bool:
    """True if padding in front of the first row is zeros, like variables."""
    padded = layer.reach(0).before[0] > 0
    return not padded or layer.op.columnwise or layer.op.channelwise


def _problem(graph: Graph, node: Node, reason: str) -> Problem:
    remedy = "use convolutions, dense and element-wise layers behind variables"
    return Problem(reason, remedy, graph.origin, node.name, node.kind)
