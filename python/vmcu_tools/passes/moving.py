# SPDX-License-Identifier: Apache-2.0
"""A graph of a window that moves along time: the same network, over rows that go on and on.

Time is the input's H. A window of H rows moves by `hop` rows from one answer to the next, and most
rows of most layers are in both windows. In the graph made here each layer has its rows once,
whatever the number of windows that they are in, and the layer that brings the window down to one
row has one row for each of its positions. That is exact where a row is made in the same way
wherever it is.
"""

from __future__ import annotations

from dataclasses import replace

from ..errors import Problem, UserError
from ..graph import Graph, Node, Tensor
from ..ops import bind
from .carried import carried
from .option import OPTION


def moving(graph: Graph, hop: int, hops: int) -> Graph:
    """The graph for `hops` positions of its window, `hop` rows apart: H of the input is as many
    rows as they cover, H of the output is `hops`. Of a graph that keeps its state see carried().

    Raises UserError where there is no such graph, with the layer that stands in its way.
    """
    if graph.states:
        return carried(graph, hop, hops)
    _check_ports(graph, hop)
    source = graph.inputs[0].tensor
    every = {source: 1}
    tensors = {source: _taller(graph.tensors[source], 1, hop, hops)}
    nodes = []
    for node in graph.nodes:
        node, step = _moved(graph, node, every, hop)
        out = graph.tensors[node.outputs[0]]
        every[out.name] = step
        tensors[out.name] = _taller(out, step, hop, hops)
        nodes.append(node)
    return replace(graph, tensors=tensors, nodes=tuple(nodes), hop=hop)


def _taller(tensor: Tensor, every: int, hop: int, hops: int) -> Tensor:
    """A tensor that has a row for `every` so many rows of the input."""
    height, width, channels = tensor.shape
    return replace(tensor, shape=(height + (hops - 1) * hop // every, width, channels))


def _check_ports(graph: Graph, hop: int) -> None:
    reason = remedy = ""
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        reason = f"{len(graph.inputs)} inputs and {len(graph.outputs)} outputs"
        remedy = f"{OPTION} takes models of one input and one output"
    elif not graph.nodes:
        reason, remedy = "there is no layer", f"leave out {OPTION}"
    else:
        height = graph.tensors[graph.inputs[0].tensor].shape[0]
        if not 1 <= hop < height:
            reason = f"its window has {height} rows along H, which is time to {OPTION} {hop}"
            remedy = f"choose a hop from 1 to {height - 1}" if height > 1 else f"leave out {OPTION}"
    if reason:
        raise UserError(Problem(reason, remedy, graph.origin))
    answer = graph.tensors[graph.outputs[0].tensor]
    if answer.shape[0] != 1:
        node = graph.producer(answer.name)
        reason = f"its output has {answer.shape[0]} rows in time, an answer of a hop is one"
        remedy = "end the model with a layer that sees the whole window, or take the last row of it"
        raise UserError(
            Problem(
                reason, remedy, graph.origin, node.name if node else "", node.kind if node else ""
            )
        )


def _moved(graph: Graph, node: Node, every: dict[str, int], hop: int) -> tuple[Node, int]:
    """The node over rows that go on and on, and for how many rows of the input it has one."""
    layer = bind(graph, node)
    steps = {every[name] for name in node.inputs}
    if not layer.by_rows or layer.reach(0).before[0] or len(steps) != 1:
        raise UserError(_still(graph, node))
    (step,) = steps
    if layer.out.shape[0] > 1:
        return node, step * layer.reach(0).stride[0]
    if all(tensor.shape[0] == 1 for tensor in layer.ins):
        return node, hop
    # The whole window, of which there is one for each hop.
    if hop % step:
        reason = f"a row of its input comes every {step} rows, which {hop} is no multiple of"
        raise UserError(
            Problem(
                reason, f"choose {OPTION} {step} or a multiple", graph.origin, node.name, node.kind
            )
        )
    window = replace(node.op.window, stride=(hop // step, node.op.window.stride[1]))
    return replace(node, op=replace(node.op, window=window)), hop


def _still(graph: Graph, node: Node) -> Problem:
    """Why a layer's rows cannot be kept from one window to the next."""
    window = getattr(node.op, "window", None)
    if window is not None and (window.pad[0] or window.pad[2]):
        top, bottom = window.pad[0], window.pad[2]
        reason = (
            f"it pads in time, {top} rows in front of the window and {bottom} behind it, so that "
            "the rows at its ends are others than those of the next window"
        )
        remedy = 'train it with "valid" padding along time'
    else:
        reason = "its rows depend on where in the window they are"
        remedy = "use convolutions, pooling and element-wise layers along time"
    return Problem(reason, f"{remedy}, or leave out {OPTION}", graph.origin, node.name, node.kind)
