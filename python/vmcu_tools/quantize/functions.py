# SPDX-License-Identifier: Apache-2.0
"""Operators of newer opsets that are functions of others, taken apart before onnxruntime does so
with more steps than int8 needs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import NodeProto, numpy_helper

from ..frontends.common import naming, reporting
from ..frontends.onnx.attributes import attributes_of
from ..frontends.onnx.file import Carry
from ..frontends.onnx.loops import open_loops, shapes_of
from ..frontends.onnx.node_writer import NodeWriter, replace_nodes
from .attention import attention, rotary
from .einsum import einsum
from .recurrent import GATES, scans


@dataclass
class Apart:
    """A model that is taken apart. alike: groups of tensors that are to have one scale; carries:
    the states of its loops."""

    model: onnx.ModelProto
    alike: list[list[str]] = field(default_factory=list)
    carries: list[Carry] = field(default_factory=list)


def take_apart(model: onnx.ModelProto, origin: str) -> Apart:
    """The model with GroupNormalization as PyTorch writes it in older opsets, Attention as two
    matrix products, RotaryEmbedding and Einsum as products and sums, and recurrent layers and Scan
    with rows for all steps; others stay as they are.

    Raises UserError, of the file `origin`, for a recurrent layer that has no such form."""
    if {*_REWRITES, *GATES, "Scan"}.isdisjoint(node.op_type for node in model.graph.node):
        return Apart(model)
    model = onnx.shape_inference.infer_shapes(model)
    graph, apart, shapes = model.graph, Apart(model), shapes_of(model.graph)
    nodes: list[NodeProto] = []
    with reporting(origin):
        for node in graph.node:
            parts = None
            if node.op_type in _REWRITES:
                parts = _REWRITES[node.op_type](graph, node, shapes)
            elif node.op_type in GATES:
                with naming(node.name, node.op_type):
                    parts = scans(graph, node, shapes, apart.alike)
            nodes += [node] if parts is None else parts
        replace_nodes(graph, nodes)
        apart.carries = open_loops(model)
    apart.alike += [[carry.before, *carry.outputs] for carry in apart.carries]
    return apart


def _group_normalization(
    graph: onnx.GraphProto, node: NodeProto, shapes: dict[str, list[int]]
) -> list[NodeProto] | None:
    given, shape = attributes_of(node), shapes.get(node.input[0], [])
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    factors = [constants[place] for place in node.input[1:3] if place in constants]
    if len(shape) < 3 or min(shape[1:]) < 1 or len(factors) < len(node.input[1:3]):
        return None
    groups, channels = given["num_groups"], shape[1]
    tail = [1] * (len(shape) - 2)
    steps = NodeWriter(graph, node.output[0])
    gain, offset = (
        steps.constant(what, np.repeat(array, channels // array.size).reshape(-1, *tail))
        for what, array in zip(("gain", "offset"), factors, strict=True)
    )
    plain = [
        steps.constant(what, np.full(groups, value, np.float32))
        for what, value in (("ones", 1), ("zeros", 0))
    ]
    parted = steps.add("Reshape", [node.input[0], steps.ints(0, groups, -1)])
    epsilon = given.get("epsilon", 1e-5)
    made = steps.add("InstanceNormalization", [parted, *plain], epsilon=epsilon)
    whole = steps.add("Reshape", [made, steps.ints(1, *shape[1:])])
    steps.add("Add", [steps.add("Mul", [whole, gain]), offset], node.output[0])
    return steps.nodes


_REWRITES = {
    "Attention": attention,
    "Einsum": einsum,
    "GroupNormalization": _group_normalization,
    "RotaryEmbedding": rotary,
}
