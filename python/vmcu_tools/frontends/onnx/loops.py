# SPDX-License-Identifier: Apache-2.0
"""Scan as the nodes of its body, with a row for each step (ONNX operator specification, opset 22).

A state before a step becomes an input of the graph, the state behind it an output, both with the
rows of all steps; the importer connects them. Operators of a body work on each row by itself, so
that they are the same for one row and for many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from ..common import naming, parsing, require
from .attributes import attributes_of
from .file import MINIMUM_OPSET, Carry, FileModel, plain
from .logic import FUNCTIONS
from .node_writer import NodeWriter, renamed, replace_nodes

_FIXED = "export it for sequences of a fixed length and a fixed batch"
_ROWS = "use MatMul and Gemm with constant weights, functions and sums in its body"
# Operators, besides functions of elements, whose result has a row for each row of their operands,
# and those that join or part the last axis.
_BY_ROW = {"QuantizeLinear", "DequantizeLinear", "Identity", "Min", "Max", "Sum", "Gemm", "MatMul"}
_BY_LAST_AXIS = {"Concat", "Split", "Softmax", "LogSoftmax", "LayerNormalization"}


def read_opened(model: onnx.ModelProto, file: str, minimum: int = MINIMUM_OPSET) -> FileModel:
    """The dataclasses of a model whose loops are opened. file: for messages. Raises UserError as
    plain() does, and for a loop that cannot be opened."""
    with parsing(file):
        carries = tuple(open_loops(model))
    return replace(plain(model, file, minimum), carries=carries)


def open_loops(model: onnx.ModelProto) -> list[Carry]:
    """Replaces each Scan of a model. Returns its states.

    Raises UnsupportedError, with the node, for one whose body has no such form."""
    if all(node.op_type != "Scan" for node in model.graph.node):
        return []
    shapes = shapes_of(onnx.shape_inference.infer_shapes(model).graph)
    nodes: list[NodeProto] = []
    carries: list[Carry] = []
    for node in model.graph.node:
        if node.op_type != "Scan":
            nodes.append(node)
            continue
        with naming(node.name or node.output[0], "Scan"):
            opened = _Scan(model.graph, node, shapes)
        nodes += opened.nodes
        carries += opened.carries
    replace_nodes(model.graph, nodes)
    return carries


def shapes_of(graph: GraphProto) -> dict[str, list[int]]:
    """The shapes of a graph's tensors by name, 0 for a size that is not fixed."""
    values = [*graph.input, *graph.value_info, *graph.output]
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}
    return shapes | {tensor.name: [*tensor.dims] for tensor in graph.initializer}


class _Scan:
    """nodes: those in place of a Scan; carries: its states."""

    def __init__(self, graph: GraphProto, node: NodeProto, shapes: dict[str, list[int]]):
        given = attributes_of(node)
        self.graph, self.node, self.body = graph, node, given["body"]
        self.writer = NodeWriter(graph, next(name for name in node.output if name))
        scanned = int(given["num_scan_inputs"])
        states = len(self.body.input) - scanned
        for way in ("scan_input_axes", "scan_output_axes"):
            require(not any(given.get(way, ())), "it scans another axis than the first", _ROWS)
        known = [shapes.get(name, []) for name in node.input]
        require(all(known) and min(map(min, known)) > 0, "an input has no fixed shape", _FIXED)
        self.steps = known[states][0] if scanned else 0
        require(self.steps > 0, "it has no input with a row for each step", _FIXED)
        self.batch = self._batch(known, states)
        self.names = self._names()
        ways = [*given.get("scan_input_directions", ()), *[0] * scanned]
        for place in range(states, len(node.input)):
            self._scan_input(place, known[place], bool(ways[place - states]))
        self.after = [self._inner(self.body.output[place].name) for place in range(states)]
        self.carries: list[Carry] = []
        for place in range(states):
            self._state(place, known[place][-1])
        self._check_body()
        self.writer.nodes += self._inlined()
        ways = [*given.get("scan_output_directions", ()), *[0] * len(node.output)]
        for place, name in enumerate(node.output):
            if name and place < states:
                self._last(place, name, known[place])
            elif name:
                self._scan_output(place, name, bool(ways[place - states]))

    @property
    def nodes(self) -> list[NodeProto]:
        return self.writer.nodes

    def _batch(self, known: Sequence[Sequence[int]], states: int) -> int:
        """Rows of a step: 1 where its tensors have no axis for them."""
        sizes = {tuple(shape[:-1]) for shape in known[:states]}
        sizes |= {tuple(shape[1:-1]) for shape in known[states:]}
        plain = len(sizes) == 1 and all(len(size) < 2 for size in sizes)
        require(plain, "its states and rows are no vectors, or no matrices alike", _ROWS)
        (size,) = sizes
        return size[0] if size else 1

    def _names(self) -> dict[str, str]:
        """The names of the body's tensors in the graph: their own where these are free."""
        outer = {value.name for value in (*self.graph.input, *self.graph.initializer)}
        outer |= {name for node in self.graph.node for name in node.output}
        inner = [value.name for value in self.body.input]
        inner += [name for node in self.body.node for name in node.output]
        inner += [tensor.name for tensor in self.body.initializer]
        for tensor in self.body.initializer:
            outer.discard(tensor.name)
        return {name: f"{self.writer.name}/{name}" if name in outer else name for name in inner}

    def _inner(self, name: str) -> str:
        return self.names.get(name, name)

    def _rows(self, x: str, picked: Iterable[int], output: str = "") -> str:
        rows = self.writer.constant("rows", np.array([*picked]))
        return self.writer.add("Gather", [x, rows], output, axis=0)

    def _scan_input(self, place: int, shape: Sequence[int], backwards: bool) -> None:
        x, name = self.node.input[place], self._inner(self.body.input[place].name)
        if backwards:
            x = self._rows(x, reversed(range(self.steps)))
        flat = self.writer.ints(self.steps * self.batch, shape[-1])
        self.writer.add("Reshape", [x, flat], name)

    def _state(self, place: int, size: int) -> None:
        before = self.body.input[place]
        name, shape = self._inner(before.name), (self.steps * self.batch, size)
        if self.steps == 1:
            self.writer.add("Reshape", [self.node.input[place], self.writer.ints(*shape)], name)
            return
        kind = before.type.tensor_type.elem_type or TensorProto.FLOAT
        self.graph.input.append(helper.make_tensor_value_info(name, kind, shape))
        behind = helper.make_tensor_value_info(self.after[place], kind, shape)
        if behind.name not in {value.name for value in self.graph.output}:
            self.graph.output.append(behind)
        shape = (self.batch, size)
        initial = _initial_rows(self.graph, self.node.input[place], shape)
        if isinstance(initial, str):
            initial = self.writer.add("Reshape", [initial, self.writer.ints(*shape)])
            self.graph.output.append(helper.make_tensor_value_info(initial, kind, shape))
        carry = Carry(self.writer.name, name, behind.name, initial, *shape, self.steps)
        self.carries.append(carry)

    def _check_body(self) -> None:
        behind = {value.name for value in self.body.input[: len(self.after)]}
        for node in self.body.node:
            if not behind.isdisjoint(node.input):
                behind.update(node.output)
        for value in self.body.output[: len(self.after)]:
            reason = f"the state '{value.name}' does not depend on the step before"
            require(value.name in behind, reason, "delay that tensor outside of the Scan")
        for node in self.body.node:
            plain = not any(a.HasField("g") or a.graphs for a in node.attribute)
            axis = attributes_of(node).get("axis", -1)
            last = axis in (-1, 1 if self.batch > 1 else -1)
            fits = node.op_type in FUNCTIONS | _BY_ROW or (node.op_type in _BY_LAST_AXIS and last)
            reason = f"its body has a {node.op_type}, which does not work row by row"
            require(fits and plain and not node.domain, reason, _ROWS)

    def _inlined(self) -> list[NodeProto]:
        for tensor in self.body.initializer:
            self.graph.initializer.append(tensor)
            self.graph.initializer[-1].name = self._inner(tensor.name)
        return [renamed(node, self.names) for node in self.body.node]

    def _last(self, place: int, name: str, shape: Sequence[int]) -> None:
        """A state behind the last step."""
        first = (self.steps - 1) * self.batch
        last = self._rows(self.after[place], range(first, first + self.batch))
        self.writer.add("Reshape", [last, self.writer.ints(*shape)], name)

    def _scan_output(self, place: int, name: str, backwards: bool) -> None:
        value = self.body.output[place]
        inner = (self.batch, -1) if len(value.type.tensor_type.shape.dim) > 1 else (-1,)
        shape = self.writer.ints(self.steps, *inner)
        made = self.writer.add(
            "Reshape", [self._inner(value.name), shape], "" if backwards else name
        )
        if backwards:
            self._rows(made, reversed(range(self.steps)), name)


def all_nodes(graph: GraphProto) -> list[NodeProto]:
    """The nodes of a graph, those within a Scan in front of it."""
    bodies = ([*(n for a in node.attribute for n in a.g.node), node] for node in graph.node)
    return [node for nodes in bodies for node in nodes]


def expose(model: onnx.ModelProto, names: Iterable[str]) -> None:
    """Makes further tensors outputs of a model; those within a Scan with a row for each step."""
    wanted = dict.fromkeys(names)
    inside = {
        name: node
        for node in model.graph.node
        if node.op_type == "Scan"
        for inner in attributes_of(node)["body"].node
        for name in inner.output
        if name in wanted
    }
    for name, node in inside.items():
        body = next(a.g for a in node.attribute if a.name == "body")
        # A name of its own: an output of the body may be twice in a list.
        row = f"{name}/step"
        body.node.append(helper.make_node("Identity", [name], [row]))
        body.output.append(onnx.ValueInfoProto(name=row))
        node.output.append(name)
    outputs = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in wanted if n not in outputs)


def _initial_rows(graph: GraphProto, name: str, shape: tuple[int, int]) -> str | np.ndarray:
    """A tensor's values in that shape if it is a constant, else its name."""
    arrays = (numpy_helper.to_array(t).reshape(shape) for t in graph.initializer if t.name == name)
    return next(arrays, name)
