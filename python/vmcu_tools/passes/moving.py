# SPDX-License-Identifier: Apache-2.0
"""A graph of a window that moves along time: the same network, over rows that go on and on.

Time is the input's H. A window of H rows moves by `hop` rows from one answer to the next, and most
rows of most layers are in both windows. In the graph made here each layer has its rows once,
whatever the number of windows that they are in, and the layer that brings the window down to one
row has one row for each of its positions. That is exact where a row is made in the same way
wherever it is.

From the first layer on that is otherwise, layers are those of one window. Of the tensors that they
read of layers in front the window's rows are kept, and looked back at hop by hop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..errors import Problem, UserError
from ..graph import Graph, Node, Tensor
from ..ops import bind
from ..ops.hop_count import BYTES, HopCount
from ..ops.look_back import LookBack
from .carried import carried
from .option import HOP_OPTION
from .recurring import HOPS, recurring
from .rewrite import free_name


@dataclass(frozen=True)
class Split:
    """A graph's nodes as they go on and on, in order, and those that do not; for how many rows of
    the input each tensor of the former has one; why each of the latter that read nothing but those
    does not go on, or why all of an answer does not come with its last row."""

    endless: tuple[Node, ...]
    whole: tuple[Node, ...]
    every: dict[str, int]
    reasons: tuple[Problem, ...]


def moving(graph: Graph, hop: int, hops: int) -> Graph:
    """The graph for `hops` positions of its window, `hop` rows apart: H of the input is as many
    rows as they cover, and so for the layers that go on. H of the output is `hops`, if all do. Of a
    graph that keeps its state see carried().

    Raises UserError where there is no such graph.
    """
    if graph.state.recurrent:
        return recurring(graph, hop, hops)
    if graph.state.names:
        return carried(graph, hop, hops)
    split = split_of(graph, hop)
    tensors = dict(graph.tensors)
    for name, step in split.every.items():
        tensors[name] = _taller(graph.tensors[name], step, hop, hops)
    found = replace(graph, tensors=tensors, nodes=split.endless).with_state(step_rows=hop)
    if not split.whole and not split.reasons:
        return found
    return _looked_back(graph, found, split, hops)


def split_of(graph: Graph, hop: int) -> Split:
    """Which of a graph's layers go on and on. Raises UserError where nothing can."""
    _check_ports(graph, hop)
    every = {graph.inputs[0].tensor: 1}
    endless, whole, reasons = [], [], []
    for node in graph.nodes:
        inside = all(name in every for name in node.inputs)
        moved = _moved(graph, node, every, hop) if inside else None
        if isinstance(moved, tuple):
            endless.append(moved[0])
            every[node.outputs[0]] = moved[1]
            continue
        whole.append(node)
        reasons += [moved] if moved is not None else []
    if not whole:
        reasons = _several(graph)
    return Split(tuple(endless), tuple(whole), every, tuple(reasons))


def _looked_back(graph: Graph, found: Graph, split: Split, hops: int) -> Graph:
    """With the layers of one window behind those that go on."""
    tensors, nodes = dict(found.tensors), []
    wanted = [name for node in split.whole for name in node.inputs]
    wanted += [port.tensor for port in graph.outputs]
    kept = [name for name in dict.fromkeys(wanted) if name in split.every]
    rows = tuple(graph.tensors[name].shape[0] for name in kept)
    steps = tuple(found.state.step_rows // split.every[name] for name in kept)
    count = free_name(graph, HOPS)
    tensors[count] = Tensor(count, (hops, 1, BYTES), 1.0, 0)
    endless = (*split.endless, Node(HOPS, HopCount(rows, steps), tuple(kept), (count,)))

    def look(name: str, reader: str) -> str:
        out = free_name(graph, f"{name} for {reader}")
        tensors[out] = replace(graph.tensors[name], name=out)
        op = LookBack(found.state.step_rows // split.every[name])
        nodes.append(Node(f"window of {name}", op, (name, count), (out,)))
        return out

    for node in split.whole:
        read = [name for name in dict.fromkeys(node.inputs) if name in split.every]
        # By what it makes: names of nodes may be alike.
        ins = {name: look(name, node.outputs[0]) for name in read}
        nodes.append(replace(node, inputs=tuple(ins.get(name, name) for name in node.inputs)))
    outs = {p.tensor: look(p.tensor, "the answer") for p in graph.outputs if p.tensor in kept}
    ports = tuple(replace(p, tensor=outs.get(p.tensor, p.tensor)) for p in graph.outputs)
    all_ = (*endless, *nodes)
    state = replace(found.state, unbounded_nodes=len(endless))
    return replace(found, tensors=tensors, nodes=all_, outputs=ports, state=state)


def _taller(tensor: Tensor, every: int, hop: int, hops: int) -> Tensor:
    """A tensor that has a row for `every` so many rows of the input."""
    height, width, channels = tensor.shape
    return replace(tensor, shape=(height + (hops - 1) * hop // every, width, channels))


def _check_ports(graph: Graph, hop: int) -> None:
    reason = remedy = ""
    if len(graph.inputs) != 1:
        reason = f"the model has {len(graph.inputs)} inputs; rows can be pushed into one only"
        remedy = f"leave out {HOP_OPTION}, or concatenate the inputs into one"
    elif not graph.nodes:
        reason, remedy = "the model has no layers", f"leave out {HOP_OPTION}"
    else:
        height = graph.tensors[graph.inputs[0].tensor].shape[0]
        if not 1 <= hop < height:
            reason = (
                f"the window has only {height} rows along H, the time axis of {HOP_OPTION} {hop}"
            )
            remedy = f"choose a hop from 1 to {height - 1}"
            if height < 2:
                remedy = (
                    f"export it with time in front of its other axes, or leave out {HOP_OPTION}"
                )
    if reason:
        raise UserError(Problem(reason, remedy, graph.origin))


def _moved(graph: Graph, node: Node, every: dict[str, int], hop: int) -> tuple[Node, int] | Problem:
    """The node over rows that go on and on, and for how many rows of the input it has one, or why
    there is none."""
    layer = bind(graph, node)
    steps = {every[name] for name in node.inputs}
    if not layer.by_rows or layer.reach(0).before[0] or len(steps) != 1:
        return _still(graph, node)
    (step,) = steps
    if layer.out.shape[0] > 1:
        step *= layer.reach(0).stride[0]
        return _uneven(graph, node, step, hop) if hop % step else (node, step)
    if all(tensor.shape[0] == 1 for tensor in layer.ins):
        step = hop
    if not node.op.windowed:
        return node, hop
    # The whole window, of which there is one for each hop, whatever its stride.
    op: Any = node.op
    window = replace(op.window, stride=(hop // step, op.window.stride[1]))
    return replace(node, op=replace(op, window=window)), hop


def _several(graph: Graph) -> list[Problem]:
    """Why an answer is more than the row that comes last."""
    rows = graph.tensors[graph.outputs[0].tensor].shape[0]
    if rows == len(graph.outputs) == 1:
        return []
    node = graph.producer(graph.outputs[0].tensor)
    reason, remedy = f"the model has {len(graph.outputs)} outputs", "split the model"
    if rows > 1:
        reason = f"the output has {rows} rows along time, but a hop computes one"
        remedy = "end the model with a layer over the whole window, or output only the last row"
    who = (node.name, node.kind) if node else ("", "")
    return [Problem(reason, remedy, graph.origin, *who)]


def _uneven(graph: Graph, node: Node, step: int, hop: int) -> Problem:
    """A layer that has no whole number of rows a hop."""
    reason = f"a row of its output needs {step} input rows, and {hop} is not a multiple of {step}"
    return Problem(
        reason, f"choose {HOP_OPTION} {step} or a multiple", graph.origin, node.name, node.kind
    )


def _still(graph: Graph, node: Node) -> Problem:
    """Why a layer's rows cannot be kept from one window to the next."""
    window = getattr(node.op, "window", None)
    if window is not None and (window.pad[0] or window.pad[2]):
        top, bottom = window.pad[0], window.pad[2]
        reason = (
            f"the layer pads along time ({top} rows before and {bottom} after the window), so its "
            "first or last rows differ from those of the next window"
        )
        remedy = 'train it with "valid" padding along time'
    else:
        reason = "the rows depend on their position in the window"
        remedy = "use convolutions, pooling and element-wise layers along time"
    return Problem(reason, remedy, graph.origin, node.name, node.kind)


def endless_part(graph: Graph) -> Graph:
    """The layers that go on of a graph that has others, which look back."""
    name = graph.nodes[graph.state.unbounded_nodes - 1].outputs[0]
    port = replace(graph.outputs[0], tensor=name)
    nodes = graph.nodes[: graph.state.unbounded_nodes]
    return replace(graph, nodes=nodes, outputs=(port,)).with_state(unbounded_nodes=0)
