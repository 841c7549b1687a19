# SPDX-License-Identifier: Apache-2.0
"""Many streaming steps of a graph whose window moves along time.

Time is the input's H. The window moves by `hop` rows from one output to the next, and most rows of
most layers are in both windows. In the graph of many steps a layer computes each row once. The
layer that reduces the window to one row has one row for each step. That is exact if rows do not
depend on their position in the window.

Layers behind one whose rows do depend on it compute a whole window in each step. The rows that they
read are stored, and a LookBack copies the window.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...errors import Problem, UserError
from ...graph import Graph, Node, Tensor
from ...ops import bind
from ...ops.hop_count import BYTES, HopCount
from ...ops.look_back import LookBack
from ..rewrite import free_name
from .concatenate import concatenate_calls
from .options import HOP_OPTION
from .recurrent import HOPS, expand_recurrent_calls


@dataclass(frozen=True)
class Split:
    """The nodes with an unbounded schedule, and those that compute a whole window in each step.

    every: input rows for each row, by tensor with an unbounded schedule
    reasons: why nodes, or the outputs, have no unbounded schedule
    """

    unbounded: tuple[Node, ...]
    whole: tuple[Node, ...]
    every: dict[str, int]
    reasons: tuple[Problem, ...]


def expand_steps(graph: Graph, hop: int, hops: int) -> Graph:
    """Returns the graph of `hops` streaming steps of `hop` rows, or of `hops` calls of a graph that
    keeps state. Raises UserError if the graph cannot stream."""
    if graph.state.recurrent:
        return expand_recurrent_calls(graph, hop, hops)
    if graph.state.names:
        found = concatenate_calls(graph, hop, hops)
        if len(graph.outputs) == 1:
            return found
        # The caller reads all of them behind the last layer.
        every = {port.tensor: hop for port in graph.outputs}
        return _append_windows(graph, found, Split(found.nodes, (), every, ()), hops)
    split = split_unbounded(graph, hop)
    tensors = dict(graph.tensors)
    for name, step in split.every.items():
        tensors[name] = _extend(graph.tensors[name], step, hop, hops)
    found = replace(graph, tensors=tensors, nodes=split.unbounded).with_state(step_rows=hop)
    if not split.whole and not split.reasons:
        return found
    return _append_windows(graph, found, split, hops)


def split_unbounded(graph: Graph, hop: int) -> Split:
    """Finds the layers that can have an unbounded schedule. Raises UserError if the ports exclude
    it."""
    _check_ports(graph, hop)
    every = {graph.inputs[0].tensor: 1}
    unbounded, whole, reasons = [], [], []
    starts = {loop.start for loop in graph.loops}
    for number, node in enumerate(graph.nodes):
        inside = all(name in every for name in node.inputs)
        moved = _stream_node(graph, node, every, hop) if inside else None
        if number in starts:
            moved = Problem(_AGAIN, _KEPT, graph.origin, node.name, node.kind)
        if isinstance(moved, tuple):
            unbounded.append(moved[0])
            every[node.outputs[0]] = moved[1]
            continue
        whole.append(node)
        reasons += [moved] if moved is not None else []
    if not whole:
        reasons = _output_problems(graph)
    return Split(tuple(unbounded), tuple(whole), every, tuple(reasons))


def _append_windows(graph: Graph, found: Graph, split: Split, hops: int) -> Graph:
    """Appends the layers that compute a whole window in each step."""
    tensors, nodes = dict(found.tensors), []
    wanted = [name for node in split.whole for name in node.inputs]
    wanted += [port.tensor for port in graph.outputs]
    kept = [name for name in dict.fromkeys(wanted) if name in split.every]
    rows = tuple(graph.tensors[name].shape[0] for name in kept)
    steps = tuple(found.state.step_rows // split.every[name] for name in kept)
    count = free_name(graph, HOPS)
    tensors[count] = Tensor(count, (hops, 1, BYTES), 1.0, 0)
    unbounded = (*split.unbounded, Node(HOPS, HopCount(rows, steps), tuple(kept), (count,)))

    def look(name: str, reader: str) -> str:
        out = free_name(graph, f"{name} for {reader}")
        tensors[out] = replace(graph.tensors[name], name=out)
        op = LookBack(found.state.step_rows // split.every[name])
        nodes.append(Node(f"window of {name}", op, (name, count), (out,)))
        return out

    for node in split.whole:
        read = [name for name in dict.fromkeys(node.inputs) if name in split.every]
        # Names of nodes can be equal, names of tensors cannot.
        ins = {name: look(name, node.outputs[0]) for name in read}
        nodes.append(replace(node, inputs=tuple(ins.get(name, name) for name in node.inputs)))
    outs = {p.tensor: look(p.tensor, "the answer") for p in graph.outputs if p.tensor in kept}
    ports = tuple(replace(p, tensor=outs.get(p.tensor, p.tensor)) for p in graph.outputs)
    all_ = (*unbounded, *nodes)
    state = replace(found.state, unbounded_nodes=len(unbounded))
    return replace(found, tensors=tensors, nodes=all_, outputs=ports, state=state)


def _extend(tensor: Tensor, every: int, hop: int, hops: int) -> Tensor:
    """Returns the tensor for many steps, with a row for each `every` rows of the input."""
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


def _stream_node(
    graph: Graph, node: Node, every: dict[str, int], hop: int
) -> tuple[Node, int] | Problem:
    """Returns the node with an unbounded schedule and its input rows for each row, or why it cannot
    have one."""
    layer = bind(graph, node)
    steps = {every[name] for name in node.inputs}
    if not layer.by_rows or layer.reach(0).before[0] or len(steps) != 1:
        return _position_problem(graph, node)
    (step,) = steps
    if layer.out.shape[0] > 1:
        step *= layer.reach(0).stride[0]
        return _step_problem(graph, node, step, hop) if hop % step else (node, step)
    if all(tensor.shape[0] == 1 for tensor in layer.ins):
        step = hop
    if not node.op.windowed:
        return node, hop
    # The layer reads the whole window: one position for each step, whatever its stride.
    op: Any = node.op
    window = replace(op.window, stride=(hop // step, op.window.stride[1]))
    return replace(node, op=replace(op, window=window)), hop


def _output_problems(graph: Graph) -> list[Problem]:
    """Returns why the last row is not all of the output."""
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


def _step_problem(graph: Graph, node: Node, step: int, hop: int) -> Problem:
    """Returns the problem of a layer without a whole number of rows in each step."""
    reason = f"a row of its output needs {step} input rows, and {hop} is not a multiple of {step}"
    return Problem(
        reason, f"choose {HOP_OPTION} {step} or a multiple", graph.origin, node.name, node.kind
    )


def _position_problem(graph: Graph, node: Node) -> Problem:
    """Returns the problem of a layer whose rows depend on their position in the window."""
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


_AGAIN = "its state begins again in each window"
_KEPT = "export it for a few steps, with the state as an input and an output"


def unbounded_part(graph: Graph) -> Graph:
    """Returns the graph of the layers that have an unbounded schedule."""
    name = graph.nodes[graph.state.unbounded_nodes - 1].outputs[0]
    port = replace(graph.outputs[0], tensor=name)
    nodes = graph.nodes[: graph.state.unbounded_nodes]
    return replace(graph, nodes=nodes, outputs=(port,)).with_state(unbounded_nodes=0)
