# SPDX-License-Identifier: Apache-2.0
"""Attention and RotaryEmbedding of opset 23 as operators that int8 has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto

from ..frontends.onnx.attributes import attributes_of
from ..frontends.onnx.node_writer import NodeWriter

Shapes = dict[str, list[int]]


@dataclass(frozen=True)
class _Operands:
    """Queries (N, heads, tokens, depth), keys and values (N, shared, every, ...), by name."""

    query: str
    key: str
    value: str
    heads: int
    shared: int
    tokens: int
    every: int
    depth: int
    earlier: int = 0


def attention(graph: onnx.GraphProto, node: NodeProto, shapes: Shapes) -> list[NodeProto] | None:
    """Products, scale, masks and softmax; keys and values of fewer heads are repeated, and earlier
    ones go in front. None: a form that is left as it is."""
    given, steps = attributes_of(node), NodeWriter(graph, node.output[0])
    inputs = [*node.input, *[""] * (7 - len(node.input))]
    outputs = [*node.output, *[""] * (4 - len(node.output))]
    operands = _by_heads(steps, inputs[:3], shapes, given)
    if operands is not None:
        operands = _behind_earlier(steps, operands, inputs[4:6], outputs[1:3], shapes)
    if operands is None or outputs[3] or inputs[6]:
        return None
    key, value = (
        _repeated(steps, name, operands) if operands.heads != operands.shared else name
        for name in (operands.key, operands.value)
    )
    scores = _scores(steps, operands, key, given)
    for mask in _masks(steps, operands, inputs[3], bool(given.get("is_causal"))):
        scores = steps.add("Add", [scores, mask])
    shares = steps.add("Softmax", [scores], axis=-1)
    if len(shapes[inputs[0]]) == 4:
        steps.add("MatMul", [shares, value], node.output[0])
        return steps.nodes
    turned = steps.add("Transpose", [steps.add("MatMul", [shares, value])], perm=[0, 2, 1, 3])
    steps.add("Reshape", [turned, steps.ints(0, operands.tokens, -1)], node.output[0])
    return steps.nodes


def _by_heads(
    steps: NodeWriter, names: Sequence[str], shapes: Shapes, given: dict[str, Any]
) -> _Operands | None:
    """Queries, keys and values with an axis for their heads."""
    sizes = [shapes.get(name, []) for name in names]
    rank = len(sizes[0])
    if rank not in (3, 4) or any(len(s) != rank or min(s[1:]) < 1 for s in sizes):
        return None
    if rank == 4:
        heads, shared, depth, made = sizes[0][1], sizes[1][1], sizes[0][3], list(names)
    else:
        heads, shared = given.get("q_num_heads", 0), given.get("kv_num_heads", 0)
        if min(heads, shared) < 1 or sizes[0][2] % heads or sizes[1][2] % shared:
            return None
        depth, made = sizes[0][2] // heads, []
        for name, size, count in zip(names, sizes, (heads, shared, shared), strict=True):
            parted = steps.add("Reshape", [name, steps.ints(0, size[1], count, -1)])
            made.append(steps.add("Transpose", [parted], perm=[0, 2, 1, 3]))
    tokens, every, others = (size[-2] for size in sizes)
    if heads % shared or others != every:
        return None
    query, key, value = made
    return _Operands(query, key, value, heads, shared, tokens, every, depth)


def _behind_earlier(
    steps: NodeWriter,
    operands: _Operands,
    past: Sequence[str],
    present: Sequence[str],
    shapes: Shapes,
) -> _Operands | None:
    """Puts the keys and values of a cache in front, which then have the names `present`."""
    if not any(past):
        return None if any(present) else operands
    before = shapes.get(past[0], [])
    if not all(past) or len(before) != 4 or min(before[1:]) < 1:
        return None
    key, value = (
        steps.add("Concat", [earlier, new], name, axis=2)
        for earlier, new, name in zip(past, (operands.key, operands.value), present, strict=True)
    )
    earlier, every = before[2], operands.every + before[2]
    return replace(operands, key=key, value=value, every=every, earlier=earlier)


def _scores(steps: NodeWriter, operands: _Operands, key: str, given: dict[str, Any]) -> str:
    """Products of queries and keys, scaled and capped."""
    scale = np.float32(given.get("scale") or operands.depth**-0.5)
    turned = steps.add("Transpose", [key], perm=[0, 1, 3, 2])
    scores = steps.add("MatMul", [operands.query, turned])
    scores = steps.add("Mul", [scores, steps.constant("scale", scale)])
    if cap := given.get("softcap", 0.0):
        limit = steps.constant("softcap", np.float32(cap))
        scores = steps.add("Tanh", [steps.add("Div", [scores, limit])])
        scores = steps.add("Mul", [scores, limit])
    return scores


def _masks(steps: NodeWriter, operands: _Operands, mask: str, causal: bool) -> list[str]:
    """Lists the addends of scores."""
    masks = [mask] if mask else []
    values = (*steps.graph.input, *steps.graph.value_info)
    kinds = {v.name: v.type.tensor_type.elem_type for v in values}
    kinds |= {t.name: t.data_type for t in steps.graph.initializer}
    if kinds.get(mask) == onnx.TensorProto.BOOL:
        addends = (steps.constant(n, np.float32(v)) for n, v in (("read", 0), ("never", -np.inf)))
        masks = [steps.add("Where", [mask, *addends])]
    if causal:
        later = np.triu(np.ones((operands.tokens, operands.every), np.bool_), 1 + operands.earlier)
        never = np.where(later, -np.inf, 0).astype(np.float32)
        masks.append(steps.constant("causal", never))
    return masks


def _repeated(steps: NodeWriter, name: str, operands: _Operands) -> str:
    """(N, shared, every, ...) as (N, heads, every, ...), each head several times."""
    times = operands.heads // operands.shared
    parted = steps.add("Unsqueeze", [name, steps.ints(2)])
    shape = steps.ints(1, operands.shared, times, operands.every, 1)
    spread = steps.add("Expand", [parted, shape])
    return steps.add("Reshape", [spread, steps.ints(0, operands.heads, operands.every, -1)])


def rotary(graph: onnx.GraphProto, node: NodeProto, shapes: Shapes) -> list[NodeProto] | None:
    """Each pair of channels turned by the angle of its position. None: a form that is left as it
    is."""
    given, steps = attributes_of(node), NodeWriter(graph, node.output[0])
    x, shape = node.input[0], shapes.get(node.input[0], [])
    heads = given.get("num_heads", 0)
    if len(shape) not in (3, 4) or min(shape) < 1 or (len(shape) == 3 and heads < 1):
        return None
    if len(shape) == 3:
        x = steps.add("Reshape", [x, steps.ints(shape[0], shape[1], heads, -1)])
        depth, axis = shape[2] // heads, 2
    else:
        depth, axis = shape[3], 1
    turned = given.get("rotary_embedding_dim", 0) or depth
    angles = []
    for table in node.input[1:3]:
        if len(node.input) > 3 and node.input[3]:
            table = steps.add("Gather", [table, node.input[3]])
        angles.append(steps.add("Unsqueeze", [table, steps.ints(axis)]))
    rest = None
    if turned < depth:
        rest = steps.slice(x, -1, turned, depth)
        x = steps.slice(x, -1, 0, turned)
    if given.get("interleaved", 0):
        picks = (np.arange(first, turned, 2) for first in (0, 1))
        first, second = (
            steps.add("Gather", [x, steps.constant(f"pick{n}", pick)], axis=-1)
            for n, pick in enumerate(picks)
        )
    else:
        first = steps.slice(x, -1, 0, turned // 2)
        second = steps.slice(x, -1, turned // 2, turned)
    cos, sin = angles
    products = [
        steps.add("Mul", [a, b])
        for a, b in ((first, cos), (second, sin), (first, sin), (second, cos))
    ]
    parts = [steps.add("Sub", products[:2]), steps.add("Add", products[2:])]
    joined = steps.add("Concat", parts, axis=-1)
    if given.get("interleaved", 0):
        order = np.arange(turned).reshape(2, -1).T.ravel()
        joined = steps.add("Gather", [joined, steps.constant("order", order)], axis=-1)
    if rest is not None:
        joined = steps.add("Concat", [joined, rest], axis=-1)
    steps.add("Reshape", [joined, steps.ints(*shape)], node.output[0])
    return steps.nodes
