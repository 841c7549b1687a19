# SPDX-License-Identifier: Apache-2.0
"""Expressions of one integer input as rows of a constant table.

A decoder compares its position with constants to make a mask. Such an expression has one value for
each number. A table has all of them, and the input picks one, as it picks an embedding. An
expression of many numbers, such as a mask of tokens, is one function of each number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from ..frontends.common import PARSE_ERRORS
from ..frontends.onnx.evaluation import folds
from ..frontends.onnx.in_float import KEEP_NUMBERS, picks_rows
from ..frontends.onnx.node_writer import NodeWriter, remove_dead

# The most numbers of a table, and its most elements.
_MOST_NUMBERS, _MOST_ELEMENTS = 4096, 1 << 22
# Softmax leaves out a score with this addend; in place of minus infinity.
_NEVER = -6e4
# From here down a number is no value but "never".
_IS_NEVER = -1e2
_INTEGERS = (TensorProto.INT32, TensorProto.INT64)


def tabulate(model: onnx.ModelProto, largest: Callable[[str], int | None]) -> None:
    """Replaces expressions of one integer input. largest: the largest number of an input, if no
    table of the model tells it; None: not known."""
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        kind = value.type.tensor_type
        if value.name in constants or kind.elem_type not in _INTEGERS:
            continue
        found = _Expression(model, value)
        if found.results and not found.count:
            found.count = (largest(value.name) or -1) + 1
        if found.results and 0 < found.count <= _MOST_NUMBERS:
            found.replace()


class _Expression:
    """The nodes that compute from one input and constants alone. results: those of their outputs
    that other nodes read; count: the fewest rows of tables that the input picks from, 0: none."""

    def __init__(self, model: onnx.ModelProto, value: onnx.ValueInfoProto):
        self.model, self.graph, self.value, name = model, model.graph, value, value.name
        self.shape = tuple(max(d.dim_value, 1) for d in value.type.tensor_type.shape.dim)
        known = {t.name for t in self.graph.initializer}
        numbers, computed = {name}, {name}
        self.nodes: list[NodeProto] = []
        self.constant: list[NodeProto] = []
        self.count = 0
        for node in self.graph.node:
            read = {one for one in node.input if one}
            if node.op_type == "Constant" or (read <= known and folds(node.op_type)):
                known.update(node.output)
                self.constant.append(node)
            elif rows := picks_rows(self.graph, node, numbers):
                self.count = min(rows, self.count or rows)
            elif read <= known | computed and folds(node.op_type):
                computed.update(node.output)
                self.nodes.append(node)
                if node.op_type in KEEP_NUMBERS and node.input[0] in numbers:
                    numbers.update(node.output)
        own = {id(node) for node in self.nodes}
        outside = [n for n in self.graph.node if id(n) not in own]
        read = {one for node in outside for one in node.input}
        read |= {value.name for value in self.graph.output}
        made = [out for node in self.nodes for out in node.output]
        self.results = [out for out in made if out in read and out not in numbers]

    def replace(self) -> None:
        """Writes a table for each result; leaves those that have none."""
        try:
            tables = dict(zip(self.results, self._tables(), strict=True))
        except (*PARSE_ERRORS, RuntimeError):
            return
        for name, table in tables.items():
            if table is not None:
                self._write(name, table)
        remove_dead(self.graph)

    def _tables(self) -> Iterator[np.ndarray | None]:
        """Yields each result for all numbers, (numbers, *shape)."""
        from onnx.reference import ReferenceEvaluator

        nodes = [*self.constant, *self.nodes]
        outs = [helper.make_empty_tensor_value_info(name) for name in self.results]
        read = {name for node in nodes for name in node.input}
        weights = [t for t in self.graph.initializer if t.name in read]
        part = helper.make_graph(nodes, "numbers", [self.value], outs, weights)
        whole = helper.make_model(part, opset_imports=self.model.opset_import)
        evaluator = ReferenceEvaluator(whole)
        dtype = helper.tensor_dtype_to_np_dtype(self.value.type.tensor_type.elem_type)

        def run(values: np.ndarray) -> Any:
            with np.errstate(all="ignore"):
                return evaluator.run(None, {self.value.name: values.astype(dtype)})

        runs = [run(np.full(self.shape, number)) for number in range(self.count)]
        size = int(np.prod(self.shape))
        drawn = np.random.default_rng(0).integers(0, self.count, size)
        mixed = run(drawn.reshape(self.shape))
        for place, other in enumerate(mixed):
            table = np.stack([one[place] for one in runs])
            if size > 1:
                # One function of each number, whatever its place.
                flat = table.reshape(self.count, -1)
                alike = flat.shape[1] == size and (flat == flat[:, :1]).all()
                if not alike or not np.array_equal(flat[drawn, 0], np.ravel(other)):
                    yield None
                    continue
            yield table if table.size <= _MOST_ELEMENTS else None

    def _write(self, name: str, table: np.ndarray) -> None:
        readers = [node for node in self.graph.node if name in node.input]
        if table.dtype.kind == "f":
            self._pick(name, table, readers)
            return
        for node in readers:
            # A chosen "never" is one that is added.
            never = [self._constants().get(one, np.ones(1)) for one in node.input[1:]]
            which = [bool((array <= _IS_NEVER).all()) for array in never]
            if node.op_type != "Where" or node.input[0] != name or sum(which) != 1:
                continue
            first = which[0]
            addend = np.where(table == first, np.float32(never[not first].max()), np.float32(0))
            made = f"{node.output[0]}/addend"
            values = node.input[1 + first]
            node.op_type = "Add"
            node.input[:] = [values, made]
            self._pick(made, addend, [node])

    def _constants(self) -> dict[str, np.ndarray]:
        found = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}
        stated = [
            n for n in self.constant if n.op_type == "Constant" and n.attribute[0].HasField("t")
        ]
        return found | {n.output[0]: numpy_helper.to_array(n.attribute[0].t) for n in stated}

    def _pick(self, name: str, table: np.ndarray, readers: list[NodeProto]) -> None:
        """Writes a result as rows of its table, in front of those that read it."""
        steps, shape = NodeWriter(self.graph, f"{name}/rows"), table.shape[1:]
        rows = table.reshape(self.count, -1).astype(np.float32)
        if int(np.prod(self.shape)) > 1:
            rows = rows[:, :1]
        if rows.max() <= 0:
            rows = np.maximum(rows, np.float32(_NEVER))
        picked = steps.add("Gather", [steps.constant("table", rows), self.value.name], axis=0)
        steps.add("Reshape", [picked, steps.ints(*shape)], f"{name}/row")
        nodes = list(self.graph.node)
        place = min((nodes.index(node) for node in readers), default=len(nodes))
        for node in readers:
            node.input[:] = [f"{name}/row" if one == name else one for one in node.input]
        for step in reversed(steps.nodes):
            self.graph.node.insert(place, step)
