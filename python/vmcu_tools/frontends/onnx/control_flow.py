# SPDX-License-Identifier: Apache-2.0
"""If with a constant condition, and Loop of at most one step, as the nodes that run (ONNX operator
specification, opset 22)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

import numpy as np
import onnx
import onnx.inliner
from onnx import AttributeProto, GraphProto, NodeProto, helper, numpy_helper

from ..common import MAX_NODES, PARSE_ERRORS, UnsupportedError
from .attributes import attributes_of
from .evaluation import evaluate, folds
from .node_writer import NodeWriter

# Shapes behind a node that is replaced are inferred again, at most so often.
_MAX_ROUNDS = 100
# Elements of a constant that a condition depends on.
_MAX_ELEMENTS = 1024
# The domain of functions that are inlined at once.
_DOMAIN = "vmcu.inlined"


def inline_control_flow(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the nodes of each If and Loop of its main graph that always runs the same
    ones. Others stay."""
    for _ in range(_MAX_ROUNDS):
        nodes = model.graph.node
        if len(nodes) > 5 * MAX_NODES or not any(map(_is_control, nodes)):
            break
        known = _constants(model)
        calls = [_call(model, node, known) for node in filter(_is_control, nodes)]
        if not any(calls):
            break
        model = onnx.inliner.inline_local_functions(model)
    return model


def subgraphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and those of its nodes, at any depth."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from subgraphs(attribute.g)


def _is_control(node: NodeProto) -> bool:
    return node.op_type in ("If", "Loop") and not node.domain


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


def _call(model: onnx.ModelProto, node: NodeProto, known: Mapping[str, np.ndarray]) -> bool:
    """Turns an If or a Loop into the call of a function with its nodes. Returns False where these
    are not known."""
    given, inputs, body = attributes_of(node), list[str](), GraphProto()
    writer = NodeWriter(model.graph, node.output[0])
    if node.op_type == "If":
        if node.input[0] not in known:
            return False
        body = given["then_branch" if known[node.input[0]].item() else "else_branch"]
        results = [value.name for value in body.output]
    else:
        steps, results = _steps(node, known), list(node.input[2:])
        if steps is None or len(node.output) != len(results):
            return False
        if steps:
            body = given["body"]
            begin = writer.constant("step", np.int64(0)), writer.constant("goes_on", np.True_)
            inputs, results = [*begin, *results], [value.name for value in body.output[1:]]
    inputs += [writer.constant(t.name, numpy_helper.to_array(t)) for t in body.initializer]
    ends = [f"{name}/{place}" for place, name in enumerate(results)]
    copies = [helper.make_node("Identity", [a], [b]) for a, b in zip(results, ends, strict=True)]
    formal = [value.name for value in (*body.input, *body.initializer)]
    # onnx leaves names from outside a function as they are.
    name = f"f{len(model.functions)}"
    model.functions.append(
        helper.make_function(_DOMAIN, name, formal, ends, [*body.node, *copies], model.opset_import)
    )
    node.CopyFrom(helper.make_node(name, inputs, node.output, node.name, domain=_DOMAIN))
    return True


def _steps(node: NodeProto, known: Mapping[str, np.ndarray]) -> int | None:
    """How often a Loop runs its body, None if that is not known or more than once."""
    limit, condition = node.input[:2]
    count = known[limit].item() if limit in known else np.inf
    starts = not condition or (known[condition].item() if condition in known else None)
    if count < 1 or starts is False:
        return 0
    return 1 if count == 1 and starts else None
