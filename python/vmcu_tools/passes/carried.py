# SPDX-License-Identifier: Apache-2.0
"""A graph that keeps its state from call to call, over all of its calls.

The graph of a first call has padding where later ones have rows of those before. Over many calls
in a row that is one tall image with padding in front of its first row only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import Problem, UserError
from ..graph import Graph, Node, Tensor, Window
from ..ops import Layer, bind
from ..ops.conv2d import Conv2D
from ..ops.dense_by_rows import COLUMNS as SUM_COLUMNS
from ..ops.dense_by_rows import MOST_BYTES, MOST_CHANNELS, MOST_ROWS, DenseByRows
from ..ops.max_pooling import MaxPool2D
from ..ops.move import Move
from ..quant import FixedPoint, wrap_int32
from . import optimize
from .join_branches import join_branches
from .rewrite import free_name


def carried(graph: Graph, hop: int, calls: int) -> Graph:
    """The graph for so many calls, each of which takes the `hop` rows of the graph's input.

    Raises UserError where it cannot go on from call to call.
    """
    rows = graph.tensors[graph.inputs[0].tensor].shape[0]
    reason = ""
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        ports = f"{len(graph.inputs)} inputs and {len(graph.outputs)} outputs"
        reason = f"the model has {ports}, not one of each"
    elif hop != rows:
        reason = f"the model keeps state and needs {rows} rows a call, not {hop}"
    elif graph.tensors[graph.outputs[0].tensor].shape[0] != 1:
        reason = "the output has several rows, but a call computes one"
    if reason:
        raise UserError(Problem(reason, "leave out --hop, or export it otherwise", graph.origin))
    graph = _by_rows(graph)
    nodes = tuple(_over_calls(graph, node) for node in graph.nodes)
    tensors = {name: _taller(tensor, calls) for name, tensor in graph.tensors.items()}
    return replace(graph, tensors=tensors, nodes=nodes).with_state(step_rows=hop)


def prepared(graph: Graph) -> Graph:
    """The graph of a first call in the form that carried() takes."""
    return optimize(join_branches(graph), all_channels=True)


def goes_on(graph: Graph) -> bool:
    """True if all of a call's rows can follow those of the call before. Where layers carry their
    own rows, padding is of the file and comes in each call."""
    if not graph.inputs or graph.state.recurrent:
        return False
    rows = graph.tensors[graph.inputs[0].tensor].shape[0]
    try:
        found = carried(prepared(graph), rows, 2)
    except UserError:
        return False
    padded = any(bind(found, node).reach(0).before[0] > 0 for node in found.nodes)
    return not (padded and found.is_recurrent)


def _taller(tensor: Tensor, calls: int) -> Tensor:
    height, width, channels = tensor.shape
    return replace(tensor, shape=(height * calls, width, channels))


def _by_rows(graph: Graph) -> Graph:
    """With nodes that take rows as they come in place of such as read all of a call, where others
    carry rows: the copy of a row, and sums of a dense layer, which take less time than those."""
    if not graph.is_recurrent:
        return graph
    tensors, nodes = dict(graph.tensors), []
    for node in graph.nodes:
        layer = bind(graph, node)
        rows, row, sums = layer.ins[0].shape[0], _row_taken(layer), _summed(layer)
        name, columns = node.inputs[0], 1
        if sums is not None:
            out, row = layer.out, rows - 1
            name, columns = free_name(graph, f"{out.name}/sums"), SUM_COLUMNS
            tensors[name] = replace(out, name=name, shape=(rows, columns, out.shape[2]))
            nodes.append(Node(f"{node.name}/sums", sums, (node.inputs[0], name), (name,)))
        if row is not None:
            # A window of one row, so far down.
            window = Window(stride=(rows, columns), pad=(-row, 0, 0, 0))
            node = replace(node, op=MaxPool2D(window), inputs=(name,))
        nodes.append(node)
    return replace(graph, tensors=tensors, nodes=tuple(nodes))


def _summed(layer: Layer[Any]) -> DenseByRows | None:
    """The op that sums up a dense layer row by row, where that saves bytes; None if none can."""
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


def _over_calls(graph: Graph, node: Node) -> Node:
    """The node where every call's rows follow those of the call before."""
    layer = bind(graph, node)
    if not layer.by_rows or not _starts_with_zeros(layer):
        raise UserError(_stays(graph, node, "the rows depend on their position in a call"))
    here, given = layer.out.shape[0], layer.ins[0].shape[0]
    if here * layer.reach(0).stride[0] == given:
        return node
    if here != 1 or not node.op.windowed:
        reason = f"a call has {given} rows of its input and {here} of its output"
        raise UserError(_stays(graph, node, reason))
    op: Any = node.op
    window = replace(op.window, stride=(given, op.window.stride[1]))
    return replace(node, op=replace(op, window=window))


def _row_taken(layer: Layer[Any]) -> int | None:
    """Which row of its input a layer copies, and nothing else; None if it does not."""
    (_, *row), image = layer.out.shape, layer.ins[0].shape
    op = layer.op
    if not isinstance(op, Move) or layer.out.shape[0] != 1 or tuple(row) != image[1:]:
        return None
    index = op.index.ravel()
    return int(index[0]) // len(index) if _is_row(index) else None


def _is_row(index: np.ndarray) -> bool:
    """True if bytes are those of a row, in order."""
    start = int(index[0])
    return start % len(index) == 0 and np.array_equal(index, start + np.arange(len(index)))


def _starts_with_zeros(layer: Layer[Any]) -> bool:
    """True if what is in front of the first row is zeros, as it is in variables."""
    padded = layer.reach(0).before[0] > 0
    return not padded or layer.op.columnwise or layer.op.channelwise


def _stays(graph: Graph, node: Node, reason: str) -> Problem:
    remedy = "use convolutions, dense and element-wise layers behind variables"
    return Problem(reason, remedy, graph.origin, node.name, node.kind)
