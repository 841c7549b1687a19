# SPDX-License-Identifier: Apache-2.0
"""Rows and columns in each other's place, so that time is H.

Images of one row, as files have sequences in one dimension, are stood up: (1, T, C) and (T, 1, C)
are the same bytes in the same order, so only windows and weights turn. Of higher images whose time
is W, all are exchanged, and a row in memory is a column of the file. A layer that cannot turn works
on images as they were, between Reshapes or Moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from ..errors import Problem, UserError
from ..graph import EXCHANGED, Graph, Node, Op, Port, Tensor
from ..ops import bind
from ..ops.move import Move
from ..ops.reshape import Reshape
from . import optimize
from .rewrite import free_name

TIME_OPTION = "--time"
TIME_IN_COLUMNS = "w"
# Tells which images turn.
Which = Callable[[Tensor], bool]


def turned(graph: Graph) -> Graph:
    """The graph with columns of images of one row in the place of rows; the same graph where there
    are none."""
    if not any(_lies(tensor) for tensor in graph.tensors.values()):
        return graph
    return _with(graph, _lies)


def with_time(graph: Graph, hop: int, time: str | None) -> Graph:
    """The graph with time along H, of one that has it along H or W, as `time` says; None: along W
    where a hop is none of H's, and fits into W. Raises UserError where there is no time along W."""
    if graph.state.names or len(graph.inputs) != 1:
        return graph
    height, width, _ = graph.tensors[graph.inputs[0].tensor].shape
    if time == TIME_IN_COLUMNS and width < 2:
        axis = f"the time axis of {TIME_OPTION} {TIME_IN_COLUMNS}"
        reason = f"the window has {width} columns along W, {axis}"
        raise UserError(Problem(reason, f"leave out {TIME_OPTION}", graph.origin))
    if height > 1 and (time == TIME_IN_COLUMNS or (time is None and height <= hop < width)):
        return exchanged(graph)
    return graph


def exchanged(graph: Graph) -> Graph:
    """The graph with rows and columns of all images exchanged, but for its outputs."""
    nodes = []
    tensors, ports = dict(graph.tensors), []
    for port in graph.outputs:
        tensor = graph.tensors[port.tensor]
        if not _alike(tensor):
            name = free_name(graph, f"{tensor.name} in rows")
            nodes.append(Node(name, Reshape(), (tensor.name,), (name,)))
            tensors[name] = replace(tensor, name=name)
            port = replace(port, tensor=name)
        ports.append(port)
    outside = {port.tensor for port in ports} - set(graph.tensors)
    shown = replace(graph, tensors=tensors, nodes=(*graph.nodes, *nodes), outputs=tuple(ports))
    inputs = tuple(_by_columns(graph, port) for port in graph.inputs)
    return replace(_with(shown, lambda tensor: tensor.name not in outside), inputs=inputs)


def _by_columns(graph: Graph, port: Port) -> Port:
    alike = _alike(graph.tensors[port.tensor])
    return port if alike else replace(port, layout=EXCHANGED[port.layout])


def _with(graph: Graph, which: Which) -> Graph:
    nodes: list[Node] = []
    tensors = {
        name: _exchange(tensor) if which(tensor) else tensor
        for name, tensor in graph.tensors.items()
    }
    for node in graph.nodes:
        one = _turned(graph, node, which)
        nodes += _between(graph, node, tensors, which) if one is None else [one]
    return optimize(replace(graph, tensors=tensors, nodes=tuple(nodes)), all_channels=True)


def _lies(tensor: Tensor) -> bool:
    return tensor.shape[0] == 1 and tensor.shape[1] > 1


def _alike(tensor: Tensor) -> bool:
    """True if its bytes are in the same order either way."""
    return 1 in tensor.shape[:2]


def _exchange(tensor: Tensor) -> Tensor:
    height, width, channels = tensor.shape
    return replace(tensor, shape=(width, height, channels))


def _turned(graph: Graph, node: Node, which: Which) -> Node | None:
    """The node of images that have turned; None where they have and it cannot."""
    tensors = [graph.tensors[name] for name in (*node.inputs, *node.outputs)]
    turning = [tensor for tensor in tensors if which(tensor)]
    if not turning or (node.op.relabels and all(map(_alike, turning))):
        return node
    every = all(which(tensor) or tensor.shape[:2] == (1, 1) for tensor in tensors)
    op = bind(graph, node).transposed if every else None
    return None if op is None else replace(node, op=op)


def _between(graph: Graph, node: Node, tensors: dict[str, Tensor], which: Which) -> Iterator[Node]:
    """A node as it is, of images as they were, which are added to the tensors."""

    def as_was(name: str) -> str:
        """An image's name as the node has it."""
        tensor = graph.tensors[name]
        if not which(tensor) or tensor.shape[:2] == (1, 1):
            return name
        was = f"{name} for {node.outputs[0]}"
        tensors[was] = replace(tensor, name=was)
        return was

    ins, outs = ({name: as_was(name) for name in some} for some in (node.inputs, node.outputs))
    for name, was in ins.items():
        if was != name:
            op = _order(_exchange(graph.tensors[name]))
            yield Node(f"{node.name} as it was", op, (name,), (was,))
    inside = tuple(ins[name] for name in node.inputs)
    yield replace(node, inputs=inside, outputs=tuple(outs[name] for name in node.outputs))
    for name, was in outs.items():
        if was != name:
            yield Node(f"{node.name} in rows", _order(graph.tensors[name]), (was,), (name,))


def _order(tensor: Tensor) -> Op:
    """What exchanges rows and columns of an image."""
    if _alike(tensor):
        return Reshape()
    index = np.arange(tensor.bytes, dtype=np.int64).reshape(tensor.shape)
    move = Move.of(np.ascontiguousarray(index.swapaxes(0, 1)))
    assert move is not None
    return move
