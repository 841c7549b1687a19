# SPDX-License-Identifier: Apache-2.0
"""Operators of newer opsets that are functions of others, taken apart before onnxruntime does so
with more steps than int8 needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from ..errors import Problem, UserError
from ..frontends.common import UnsupportedError
from ..frontends.onnx.attributes import attributes_of
from .recurrent import GATES, unrolled


def take_apart(model: onnx.ModelProto, origin: str) -> tuple[onnx.ModelProto, list[list[str]]]:
    """The model with GroupNormalization as PyTorch writes it in older opsets, Attention of
    queries, keys and values alone as two matrix products, and recurrent layers step by step;
    others stay as they are. Also groups of tensors that are to have one scale.

    Raises UserError, of the file `origin`, for a recurrent layer that has no such form."""
    ops = {node.op_type for node in model.graph.node}
    if not ops & {"GroupNormalization", "Attention", *GATES}:
        return model, []
    model = onnx.shape_inference.infer_shapes(model)
    values = [*model.graph.input, *model.graph.value_info, *model.graph.output]
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}
    nodes: list[NodeProto] = []
    alike: list[list[str]] = []
    for node in model.graph.node:
        parts = None
        if node.op_type == "GroupNormalization":
            parts = _group_normalization(model.graph, node, shapes.get(node.input[0], []))
        elif node.op_type == "Attention":
            parts = _attention(model.graph, node, shapes)
        elif node.op_type in GATES:
            parts = _steps(model.graph, node, shapes, alike, origin)
        nodes += [node] if parts is None else parts
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model, alike


def _steps(
    graph: onnx.GraphProto,
    node: NodeProto,
    shapes: dict[str, list[int]],
    alike: list[list[str]],
    origin: str,
) -> list[NodeProto]:
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    try:
        found = unrolled(node, constants, shapes.get(node.input[0], []))
    except UnsupportedError as error:
        problem = Problem(error.reason, error.remedy, origin, node.name, node.op_type)
        raise UserError(problem) from error
    graph.initializer.extend(found.constants)
    alike += found.alike.values()
    return found.nodes


def _constant(graph: onnx.GraphProto, name: str, array: np.ndarray) -> str:
    graph.initializer.append(numpy_helper.from_array(array, name))
    return name


def _group_normalization(
    graph: onnx.GraphProto, node: NodeProto, shape: list[int]
) -> list[NodeProto] | None:
    given, name = attributes_of(node), node.output[0]
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    factors = [constants[place] for place in node.input[1:3] if place in constants]
    if len(shape) < 3 or min(shape[1:]) < 1 or len(factors) < len(node.input[1:3]):
        return None
    groups, channels = given["num_groups"], shape[1]
    tail = [1] * (len(shape) - 2)
    spread = [np.repeat(f, channels // f.size).reshape(-1, *tail) for f in factors]
    gain, offset = (
        _constant(graph, f"{name}/{what}", array)
        for what, array in zip(("gain", "offset"), spread, strict=True)
    )
    ones = _constant(graph, f"{name}/ones", np.ones(groups, np.float32))
    zeros = _constant(graph, f"{name}/zeros", np.zeros(groups, np.float32))
    parted = _constant(graph, f"{name}/parted", np.array([0, groups, -1]))
    whole = _constant(graph, f"{name}/whole", np.array([1, *shape[1:]]))
    epsilon = given.get("epsilon", 1e-5)
    steps = [
        ("Reshape", [node.input[0], parted], {}),
        ("InstanceNormalization", [f"{name}/0", ones, zeros], {"epsilon": epsilon}),
        ("Reshape", [f"{name}/1", whole], {}),
        ("Mul", [f"{name}/2", gain], {}),
        ("Add", [f"{name}/3", offset], {}),
    ]
    return _chain(name, steps)


def _attention(
    graph: onnx.GraphProto, node: NodeProto, shapes: dict[str, list[int]]
) -> list[NodeProto] | None:
    given, name = attributes_of(node), node.output[0]
    query, key, value = node.input[:3]
    further = [*node.input[4:], *node.output[1:]]
    sizes = shapes.get(query, []), shapes.get(key, [])
    plain = all(len(s) == 4 and min(s[1:]) > 0 and s[1] == sizes[0][1] for s in sizes)
    if not plain or any(further) or given.get("softcap", 0) != 0:
        return None
    scale = np.float32(given.get("scale", sizes[0][3] ** -0.5))
    steps: list[tuple[str, list[str], dict[str, Any]]] = [
        ("Transpose", [key], {"perm": [0, 1, 3, 2]}),
        ("MatMul", [query, f"{name}/0"], {}),
        ("Mul", [f"{name}/1", _constant(graph, f"{name}/scale", np.asarray(scale))], {}),
    ]
    masks = [mask for mask in node.input[3:4] if mask]
    if given.get("is_causal"):
        later = np.triu(np.ones((sizes[0][2], sizes[1][2]), np.bool_), 1)
        never = np.where(later, -np.inf, 0).astype(np.float32)
        masks.append(_constant(graph, f"{name}/causal", never))
    steps += [("Add", [f"{name}/{len(steps) + i - 1}", m], {}) for i, m in enumerate(masks)]
    steps.append(("Softmax", [f"{name}/{len(steps) - 1}"], {"axis": -1}))
    steps.append(("MatMul", [f"{name}/{len(steps) - 1}", value], {}))
    return _chain(name, steps)


def _chain(name: str, steps: list[tuple[str, list[str], dict[str, Any]]]) -> list[NodeProto]:
    """Nodes whose outputs are name/0, name/1 and so on; that of the last one is `name`."""
    outputs = [f"{name}/{place}" for place in range(len(steps) - 1)] + [name]
    pairs = zip(steps, outputs, strict=True)
    return [helper.make_node(op, ins, [out], out, **more) for (op, ins, more), out in pairs]
