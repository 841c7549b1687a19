# SPDX-License-Identifier: Apache-2.0
"""Transposes images, so that time is H.

Files store one-dimensional sequences as images of one row. (1, T, C) and (T, 1, C) are the same
bytes in the same order, so only windows and weights change. If time is W of higher images, all
images are transposed, and a row in memory is a column of the file. A layer without a transposed
form works on the images of the file, between Reshapes or Moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from ...errors import Problem, UserError
from ...graph import EXCHANGED, Graph, Node, Op, Port, Tensor
from ...ops import bind
from ...ops.move import Move
from ...ops.reshape import Reshape
from .. import optimize
from ..rewrite import free_name
from .options import TIME_IN_COLUMNS, TIME_OPTION

# True for images to transpose.
Which = Callable[[Tensor], bool]


def transpose_rows(graph: Graph) -> Graph:
    """Transposes images of one row; returns the same graph if there are none."""
    if not any(_is_row(tensor) for tensor in graph.tensors.values()):
        return graph
    return _transpose(graph, _is_row)


def transpose_columns(graph: Graph) -> Graph:
    """Transposes images of one column, so that time is W: the inverse of transpose_rows()."""
    return _transpose(graph, _is_column)


def select_time_axis(graph: Graph, hop: int, time: str | None) -> Graph:
    """Returns the graph with time along H. time: the file's axis, "h" or "w"; None: W if the hop
    fits into W but not into H. Raises UserError for time along W if W is 1."""
    if graph.state.names or len(graph.inputs) != 1:
        return graph
    height, width, _ = graph.tensors[graph.inputs[0].tensor].shape
    if time == TIME_IN_COLUMNS and width < 2:
        axis = f"the time axis of {TIME_OPTION} {TIME_IN_COLUMNS}"
        reason = f"the window has {width} columns along W, {axis}"
        raise UserError(Problem(reason, f"leave out {TIME_OPTION}", graph.origin))
    if height > 1 and (time == TIME_IN_COLUMNS or (time is None and height <= hop < width)):
        return transpose_images(graph)
    return graph


def transpose_images(graph: Graph) -> Graph:
    """Transposes all images except the outputs."""
    nodes = []
    tensors, ports = dict(graph.tensors), []
    for port in graph.outputs:
        tensor = graph.tensors[port.tensor]
        if not _keeps_order(tensor):
            name = free_name(graph, f"{tensor.name} in rows")
            nodes.append(Node(name, Reshape(), (tensor.name,), (name,)))
            tensors[name] = replace(tensor, name=name)
            port = replace(port, tensor=name)
        ports.append(port)
    outside = {port.tensor for port in ports} - set(graph.tensors)
    shown = replace(graph, tensors=tensors, nodes=(*graph.nodes, *nodes), outputs=tuple(ports))
    inputs = tuple(_transpose_port(graph, port) for port in graph.inputs)
    return replace(_transpose(shown, lambda tensor: tensor.name not in outside), inputs=inputs)


def _transpose_port(graph: Graph, port: Port) -> Port:
    alike = _keeps_order(graph.tensors[port.tensor])
    return port if alike else replace(port, layout=EXCHANGED[port.layout])


def _transpose(graph: Graph, which: Which) -> Graph:
    nodes: list[Node] = []
    tensors = {
        name: _transpose_tensor(tensor) if which(tensor) else tensor
        for name, tensor in graph.tensors.items()
    }
    for node in graph.nodes:
        one = _transpose_node(graph, node, which)
        nodes += _keep_node(graph, node, tensors, which) if one is None else [one]
    return optimize(replace(graph, tensors=tensors, nodes=tuple(nodes)), all_channels=True)


def _is_row(tensor: Tensor) -> bool:
    return tensor.shape[0] == 1 and tensor.shape[1] > 1


def _is_column(tensor: Tensor) -> bool:
    return tensor.shape[1] == 1 and tensor.shape[0] > 1


def _keeps_order(tensor: Tensor) -> bool:
    """True if transposing keeps the order of the bytes."""
    return 1 in tensor.shape[:2]


def _transpose_tensor(tensor: Tensor) -> Tensor:
    height, width, channels = tensor.shape
    return replace(tensor, shape=(width, height, channels))


def _transpose_node(graph: Graph, node: Node, which: Which) -> Node | None:
    """Returns the node of transposed images; None if it has no transposed form."""
    tensors = [graph.tensors[name] for name in (*node.inputs, *node.outputs)]
    turning = [tensor for tensor in tensors if which(tensor)]
    if not turning or (node.op.relabels and all(map(_keeps_order, turning))):
        return node
    every = all(which(tensor) or tensor.shape[:2] == (1, 1) for tensor in tensors)
    op = bind(graph, node).transposed if every else None
    return None if op is None else replace(node, op=op)


def _keep_node(
    graph: Graph, node: Node, tensors: dict[str, Tensor], which: Which
) -> Iterator[Node]:
    """Yields an unchanged node, and layers that transpose its inputs and outputs."""

    def as_was(name: str) -> str:
        """Returns the name of the image that the node reads or writes."""
        tensor = graph.tensors[name]
        if not which(tensor) or tensor.shape[:2] == (1, 1):
            return name
        was = f"{name} for {node.outputs[0]}"
        tensors[was] = replace(tensor, name=was)
        return was

    ins, outs = ({name: as_was(name) for name in some} for some in (node.inputs, node.outputs))
    for name, was in ins.items():
        if was != name:
            op = _transpose_op(_transpose_tensor(graph.tensors[name]))
            yield Node(f"{node.name} as it was", op, (name,), (was,))
    inside = tuple(ins[name] for name in node.inputs)
    yield replace(node, inputs=inside, outputs=tuple(outs[name] for name in node.outputs))
    for name, was in outs.items():
        if was != name:
            yield Node(f"{node.name} in rows", _transpose_op(graph.tensors[name]), (was,), (name,))


def _transpose_op(tensor: Tensor) -> Op:
    """Returns the op that transposes an image."""
    if _keeps_order(tensor):
        return Reshape()
    index = np.arange(tensor.bytes, dtype=np.int64).reshape(tensor.shape)
    move = Move.of(np.ascontiguousarray(index.swapaxes(0, 1)))
    assert move is not None
    return move
