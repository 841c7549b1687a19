# SPDX-License-Identifier: Apache-2.0
"""Attention and RotaryEmbedding of opset 23 as operators that int8 has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto

from ..frontends.onnx.attributes import attributes_of
from .node_writer import NodeWriter

Shapes = dict[str, list[int]]


def attention(graph: onnx.GraphProto, node: NodeProto, shapes: Shapes) -> list[NodeProto] | None:
    """Products, scale, masks and softmax; keys and values of fewer heads are repeated, and earlier
    ones go in front. None: a form that is left as it is."""
    given, steps = attributes_of(node), NodeWriter(graph, node.output[0])
    names = [*node.input, *[""] * (6 - len(node.input))]
    mask, past = names[3], names[4:6]
    outputs = [*node.output, *[""] * (4 - len(node.output))]
    found = _by_heads(steps, names[:3], shapes, given)
    if found is None or outputs[3] or bool(past[0]) != bool(past[1]):
        return None
    (query, key, value), (heads, tokens, depth), keys = found
    shared, every = keys
    if past[0]:
        before = shapes.get(past[0], [])
        if len(before) != 4 or min(before) < 1 or given.get("is_causal"):
            return None
        every += before[2]
        key, value = (
            steps.add("Concat", [earlier, new], name, axis=2)
            for earlier, new, name in zip(past, (key, value), outputs[1:3], strict=True)
        )
    elif any(outputs[1:3]):
        return None
    if heads != shared:
        key, value = (_repeated(steps, one, shared, heads, every) for one in (key, value))
    scale = np.float32(given.get("scale") or depth**-0.5)
    turned = steps.add("Transpose", [key], perm=[0, 1, 3, 2])
    scores = steps.add("MatMul", [query, turned])
    scores = steps.add("Mul", [scores, steps.constant("scale", np.asarray(scale))])
    masks = [mask] if mask else []
    if given.get("is_causal"):
        later = np.triu(np.ones((tokens, every), np.bool_), 1)
        never = np.where(later, -np.inf, 0).astype(np.float32)
        masks.append(steps.constant("causal", never))
    if cap := given.get("softcap", 0.0):
        limit = steps.constant("softcap", np.float32(cap))
        scores = steps.add("Tanh", [steps.add("Div", [scores, limit])])
        scores = steps.add("Mul", [scores, limit])
    for one in masks:
        scores = steps.add("Add", [scores, one])
    shares = steps.add("Softmax", [scores], axis=-1)
    if len(shapes[names[0]]) == 4:
        steps.add("MatMul", [shares, value], node.output[0])
        return steps.nodes
    turned = steps.add("Transpose", [steps.add("MatMul", [shares, value])], perm=[0, 2, 1, 3])
    steps.add("Reshape", [turned, steps.ints(1, tokens, -1)], node.output[0])
    return steps.nodes


def _by_heads(
    steps: NodeWriter, names: Sequence[str], shapes: Shapes, given: dict[str, Any]
) -> tuple[list[str], tuple[int, int, int], tuple[int, int]] | None:
    """Queries, keys and values as (1, heads, tokens, depth); heads, tokens and depth of queries;
    heads and tokens of keys."""
    sizes = [shapes.get(name, []) for name in names]
    if any(len(s) not in (3, 4) or len(s) != len(sizes[0]) or min(s) < 1 for s in sizes):
        return None
    if any(s[0] != 1 for s in sizes):
        return None
    if len(sizes[0]) == 4:
        heads, shared = sizes[0][1], sizes[1][1]
        tokens, every, depth = sizes[0][2], sizes[1][2], sizes[0][3]
        made = list(names)
    else:
        heads, shared = given.get("q_num_heads", 0), given.get("kv_num_heads", 0)
        if min(heads, shared) < 1 or sizes[0][2] % heads or sizes[1][2] % shared:
            return None
        tokens, every, depth = sizes[0][1], sizes[1][1], sizes[0][2] // heads
        made = []
        for name, size, count in zip(names, sizes, (heads, shared, shared), strict=True):
            parted = steps.add("Reshape", [name, steps.ints(1, size[1], count, -1)])
            made.append(steps.add("Transpose", [parted], perm=[0, 2, 1, 3]))
    if heads % shared or sizes[2][-2 if len(sizes[0]) == 4 else 1] != every:
        return None
    return made, (heads, tokens, depth), (shared, every)


def _repeated(steps: NodeWriter, name: str, shared: int, heads: int, tokens: int) -> str:
    """(1, shared, tokens, depth) as (1, heads, tokens, depth), each head several times."""
    times = heads // shared
    parted = steps.add("Unsqueeze", [name, steps.ints(2)])
    spread = steps.add("Expand", [parted, steps.ints(1, shared, times, tokens, 1)])
    return steps.add("Reshape", [spread, steps.ints(1, heads, tokens, -1)])


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
