# SPDX-License-Identifier: Apache-2.0
"""If with a constant condition, and Loop of at most one step, as the nodes that run (ONNX operator
specification, opset 22)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, helper, numpy_helper

from ..common import MAX_NODES, PARSE_ERRORS, UnsupportedError
from .attributes import attributes_of
from .evaluation import evaluate, folds
from .node_writer import NodeWriter

# Shapes behind a node that is replaced are inferred again, at most so often.
_MAX_ROUNDS = 100
# Elements of a constant that a condition depends on.
_MAX_ELEMENTS = 1024


def inline_control_flow(model: onnx.ModelProto) -> None:
    """Replaces each If and Loop of the main graph that always runs the same nodes. Others stay."""
    graph = model.graph
    for _ in range(_MAX_ROUNDS):
        if len(graph.node) > 2 * MAX_NODES or not any(map(_is_control, graph.node)):
            return
        known, inliner, nodes = _constants(model), _Inliner(graph), list[NodeProto]()
        for node in graph.node:
            parts = inliner.parts(node, known) if _is_control(node) else None
            nodes += [node] if parts is None else parts
        if not inliner.replaced:
            return
        del graph.node[:]
        graph.node.extend(nodes)


def subgraphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and those of its nodes, at any depth."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from subgraphs(attribute.g)


def _is_control(node: NodeProto) -> bool:
    return node.op_type in ("If", "Loop") and not node.domain


def _own_names(graph: GraphProto) -> set[str]:
    names = {value.name for value in (*graph.input, *graph.initializer)}
    return names | {name for node in graph.node for name in node.output if name}


def _constants(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """The constants among the values that conditions and step counts depend on."""
    graph = model.graph
    wanted = {name for node in graph.node if _is_control(node) for name in node.input[:2]}
    for node in reversed(graph.node):
        if node.op_type != "Shape" and not wanted.isdisjoint(node.output):
            wanted.update(node.input)
    known = {t.name: numpy_helper.to_array(t) for t in graph.initializer if t.name in wanted}
    opset = max((o.version for o in model.opset_import if not o.domain), default=1)
    shapes = _shapes(model)
    for node in graph.node:
        if wanted.isdisjoint(node.output) or node.domain or not folds(node.op_type):
            continue
        given = {name: known[name] for name in node.input if name in known}
        if node.op_type == "Shape" and node.input[0] in shapes:
            given[node.input[0]] = np.broadcast_to(np.False_, shapes[node.input[0]])
        if given.keys() >= {name for name in node.input if name}:
            with suppress(UnsupportedError, RuntimeError, *PARSE_ERRORS):
                values = zip(node.output, evaluate(node, given, opset), strict=True)
                known |= {name: x for name, x in values if name and x.size <= _MAX_ELEMENTS}
    return known


def _shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """The fixed shapes by tensor name. A symbolic batch counts as 1."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value in copy.graph.input:
        sizes = value.type.tensor_type.shape.dim
        if len(sizes) > 1 and not sizes[0].HasField("dim_value"):
            sizes[0].dim_value = 1
    with suppress(onnx.shape_inference.InferenceError):
        copy = onnx.shape_inference.infer_shapes(copy, data_prop=True)
    kinds = {v.name: v.type.tensor_type for v in (*copy.graph.input, *copy.graph.value_info)}
    return {
        name: tuple(d.dim_value for d in kind.shape.dim)
        for name, kind in kinds.items()
        if kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim)
    }


class _Inliner:
    """Moves nodes of inner graphs into a graph, under names that no graph of the model has."""

    def __init__(self, graph: GraphProto):
        self.graph = graph
        self.taken = {name for inner in subgraphs(graph) for name in _own_names(inner)}
        self.replaced = False

    def parts(self, node: NodeProto, known: Mapping[str, np.ndarray]) -> list[NodeProto] | None:
        """The nodes in place of an If or a Loop; None where these are not known."""
        given, names = attributes_of(node), dict[str, str]()
        if node.op_type == "If":
            condition = known.get(node.input[0])
            if condition is None:
                return None
            body = given["then_branch" if condition.item() else "else_branch"]
            return self._inlined(node, body, names, [value.name for value in body.output])
        steps, states = _steps(node, known), list(node.input[2:])
        if steps is None or len(node.output) != len(states):
            return None
        if not steps:
            return self._inlined(node, GraphProto(), names, states)
        body, writer = given["body"], NodeWriter(self.graph, node.output[0])
        begin = writer.constant("step", np.int64(0)), writer.constant("condition", np.True_)
        names |= zip((value.name for value in body.input), (*begin, *states), strict=True)
        return self._inlined(node, body, names, [value.name for value in body.output[1:]])

    def _inlined(
        self, node: NodeProto, body: GraphProto, names: dict[str, str], results: Sequence[str]
    ) -> list[NodeProto]:
        """The nodes of a body. names: of its inputs in the graph; results: those of the node."""
        self.replaced = True
        for name in sorted(_own_names(body) - names.keys()):
            names[name] = f"{node.output[0]}/{name}"
            while names[name] in self.taken:
                names[name] += "_"
            self.taken.add(names[name])
        for tensor in body.initializer:
            tensor.name = names[tensor.name]
        self.graph.initializer.extend(body.initializer)
        for inner in body.node:
            _rename(inner, names)
            inner.name = inner.name and f"{node.output[0]}/{inner.name}"
        ends = zip(results, node.output, strict=True)
        last = [helper.make_node("Identity", [names.get(a, a)], [b], b) for a, b in ends if b]
        return [*body.node, *last]


def _steps(node: NodeProto, known: Mapping[str, np.ndarray]) -> int | None:
    """How often a Loop runs its body, None if that is not known or more than once."""
    limit, condition = node.input[:2]
    count = known[limit].item() if limit in known else np.inf
    starts = not condition or (known[condition].item() if condition in known else None)
    if count < 1 or starts is False:
        return 0
    return 1 if count == 1 and starts else None


def _rename(node: NodeProto, names: Mapping[str, str]) -> None:
    """Renames tensors in a node and where its own graphs read them."""
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for graph in (a.g for a in node.attribute if a.type == AttributeProto.GRAPH):
        outer = {name: names[name] for name in names.keys() - _own_names(graph)}
        for inner in graph.node:
            _rename(inner, outer)
