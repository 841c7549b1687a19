# SPDX-License-Identifier: Apache-2.0
"""Loops with rows for all steps, see frontends/onnx/loops.py, as Scan, which ONNX Runtime
executes step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper

from ..frontends.onnx.file import Carry
from ..frontends.onnx.node_writer import NodeWriter, renamed, replace_nodes, sort_nodes
from .judge import showing
from .samples import Samples


@dataclass(frozen=True, eq=False)
class BothModels:
    """A float model as it is quantised, and its int8 form, both with rows for all steps of loops,
    whose states the samples have. carries: those states."""

    real: onnx.ModelProto
    int8: onnx.ModelProto
    samples: Samples
    carries: Sequence[Carry]

    def closed(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """One of them, or another one with the same loops, with each loop as a Scan."""
        return closed(model, self.carries)


def with_states(model: onnx.ModelProto, carries: Sequence[Carry], samples: Samples) -> Samples:
    """The samples with the states before each step, as a float model computes them."""
    if not carries:
        return samples
    names = dict.fromkeys(name for carry in carries for name in carry.outputs)
    session, given = showing(closed(model, carries), [*names]), []
    for sample in samples:
        made = dict(zip(names, session.run([*names], sample), strict=True))
        states = {}
        for carry in carries:
            rows = made[carry.after].reshape(-1, carry.size)
            first = made[carry.initial] if isinstance(carry.initial, str) else carry.initial
            first = first.reshape(carry.batch, carry.size).astype(np.float32)
            states[carry.before] = np.concatenate([first, rows[: -carry.batch]])
        given.append(sample | states)
    return given


def closed(model: onnx.ModelProto, carries: Sequence[Carry]) -> onnx.ModelProto:
    """The model with each loop as a Scan."""
    if not carries:
        return model
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    sort_nodes(whole.graph)
    for loop in dict.fromkeys(carry.loop for carry in carries):
        _close(whole.graph, [carry for carry in carries if carry.loop == loop])
    sort_nodes(whole.graph)
    ends = {name for carry in carries for name in (carry.before, *carry.outputs)}
    for values in (whole.graph.input, whole.graph.output):
        left = [value for value in values if value.name not in ends]
        del values[:]
        values.extend(left)
    return whole


def _close(graph: GraphProto, carries: Sequence[Carry]) -> None:
    body = _body(graph, carries)
    inside = {name for node in body for name in node.output}
    states = {carry.before for carry in carries}
    constants = {tensor.name for tensor in graph.initializer}
    constants |= _of_constants(graph, constants)
    needed = dict.fromkeys(name for node in body for name in node.input if name)
    rows = [name for name in needed if name not in inside | states | constants]
    read = {n for node in graph.node if node not in body for n in node.input}
    read |= {value.name for value in graph.output}
    outs = [name for node in body for name in node.output if name in read]
    outs += [carry.before for carry in carries if carry.before in read]
    writer = NodeWriter(graph, f"{carries[0].loop}/loop")
    batch, steps = carries[0].batch, carries[0].steps
    scanned = [writer.add("Reshape", [x, writer.ints(steps, batch, -1)]) for x in rows]
    initial = [
        c.initial if isinstance(c.initial, str) else writer.constant(f"{n} initial", c.initial)
        for n, c in enumerate(carries)
    ]
    made = [f"{writer.name}/scanned {number}" for number in range(len(outs))]
    # Tensors of the graph have another name within.
    names = {name: f"{name}/row" for name in (*rows, *outs)}
    own = [*(carry.after for carry in carries), *outs]
    starts = [names.get(carry.before, carry.before) for carry in carries]
    ends, copies = _outputs([names.get(name, name) for name in own], starts)
    before = zip(starts, carries, strict=True)
    inner = helper.make_graph(
        [*(renamed(node, names) for node in body), *copies],
        f"{writer.name}/body",
        [
            *(_value(name, [batch, carry.size]) for name, carry in before),
            *(_value(names[name]) for name in rows),
        ],
        [_value(name) for name in ends],
    )
    title, inputs = f"{writer.name}/scan", [*initial, *scanned]
    outputs = [*(f"{writer.name}/{carry.after} last" for carry in carries), *made]
    count = len(rows)
    scan = helper.make_node("Scan", inputs, outputs, title, body=inner, num_scan_inputs=count)
    writer.nodes.append(scan)
    for name, out in zip(made, outs, strict=True):
        writer.add("Reshape", [name, writer.ints(steps * batch, -1)], out)
    replace_nodes(graph, [*(node for node in graph.node if node not in body), *writer.nodes])


def _outputs(names: Sequence[str], starts: Sequence[str]) -> tuple[list[str], list[NodeProto]]:
    """Names of a body's outputs, each once, and the nodes that copy those that are there twice, or
    are among its inputs."""
    ends: list[str] = []
    copies = []
    for name in names:
        end = name
        while end in (*ends, *starts):
            end += " again"
        if end != name:
            copies.append(helper.make_node("Identity", [name], [end]))
        ends.append(end)
    return ends, copies


def _value(name: str, shape: Sequence[int] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _of_constants(graph: GraphProto, constants: set[str]) -> set[str]:
    """Tensors that are computed from constants alone, such as weights that are dequantised."""
    known = set(constants)
    for node in graph.node:
        if node.input and all(name in known or not name for name in node.input):
            known.update(node.output)
    return known - constants


def _body(graph: GraphProto, carries: Sequence[Carry]) -> list[NodeProto]:
    """The nodes between the states before and behind a step."""
    behind = {carry.before for carry in carries}
    for node in graph.node:
        if not behind.isdisjoint(node.input):
            behind.update(node.output)
    needed = {carry.after for carry in carries}
    nodes = []
    for node in reversed(graph.node):
        if not needed.isdisjoint(node.output):
            needed.update(node.input)
            if not behind.isdisjoint(node.output):
                nodes.append(node)
    return nodes[::-1]
