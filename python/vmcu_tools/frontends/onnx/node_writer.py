# SPDX-License-Identifier: Apache-2.0
"""Nodes in place of one, written one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper


class NodeWriter:
    """Names of tensors and constants begin with that of the replaced node's output. The tensors
    are of float."""

    def __init__(self, graph: onnx.GraphProto, name: str):
        self.graph, self.name = graph, name
        self.nodes: list[NodeProto] = []

    def add(self, op: str, inputs: Sequence[str], output: str = "", **given: Any) -> str:
        """Returns the name of its output."""
        made = output or float_tensor(self.graph, f"{self.name}/{len(self.nodes)}")
        self.nodes.append(helper.make_node(op, inputs, [made], made, **given))
        return made

    def constant(self, what: str, array: np.ndarray | np.generic) -> str:
        """Returns the name of an initializer of this value: an old one, or a new one."""
        array = np.asarray(array)
        name = f"{self.name}/{what}"
        given = {tensor.name: tensor for tensor in self.graph.initializer}
        while name in given:
            old = numpy_helper.to_array(given[name])
            if old.dtype == array.dtype and np.array_equal(old, array):
                return name
            name += "_"
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def ints(self, *values: int) -> str:
        return self.constant("ints_" + "_".join(map(str, values)), np.array(values, np.int64))

    def slice(self, x: str, axis: int, start: int, stop: int) -> str:
        return self.add("Slice", [x, self.ints(start), self.ints(stop), self.ints(axis)])


def renamed(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    """A copy of a node whose tensors have other names."""
    copy = NodeProto()
    copy.CopyFrom(node)
    for tensors in (copy.input, copy.output):
        tensors[:] = [names.get(name, name) for name in tensors]
    return copy


def replace_nodes(graph: onnx.GraphProto, nodes: Iterable[NodeProto]) -> None:
    """Gives a graph other nodes."""
    kept = list(nodes)
    del graph.node[:]
    graph.node.extend(kept)


def sort_nodes(graph: onnx.GraphProto) -> None:
    """Puts the nodes in an order of execution: each behind those that it alone waits for."""
    makers = {name: number for number, node in enumerate(graph.node) for name in node.output}
    order: dict[int, NodeProto] = {}
    waiting = [*range(len(graph.node))]
    while waiting:
        number = waiting[-1]
        read = [makers[name] for name in _read(graph.node[number]) if name in makers]
        missing = [one for one in read if one not in order]
        if missing and number not in order:
            waiting += reversed(missing)
        else:
            order.setdefault(waiting.pop(), graph.node[number])
    replace_nodes(graph, order.values())


def _read(node: NodeProto) -> Iterator[str]:
    """The tensors that a node reads, those within its graphs among them."""
    yield from node.input
    for attribute in node.attribute:
        made = {name for inner in attribute.g.node for name in inner.output}
        yield from (n for inner in attribute.g.node for n in inner.input if n not in made)


def remove_dead(graph: onnx.GraphProto) -> None:
    """Removes the nodes of a graph in an order of execution that lead to none of its outputs."""
    needed, live = {value.name for value in graph.output}, list[NodeProto]()
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            live.append(node)
            needed.update(node.input)
    replace_nodes(graph, reversed(live))


def float_tensor(graph: onnx.GraphProto, name: str) -> str:
    """Declares a tensor, which onnxruntime quantises only if it knows its type. Returns its
    name."""
    graph.value_info.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    return name
