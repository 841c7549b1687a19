# SPDX-License-Identifier: Apache-2.0
"""QOperators as the operators that they stand for, between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import NodeProto, numpy_helper

from ..frontends.onnx.attributes import attributes_of
from ..frontends.onnx.node_writer import NodeWriter, replace_nodes
from ..frontends.onnx.qoperator import FORMS


def spell_qoperators(graph: onnx.GraphProto) -> None:
    """Rewrites a graph in place. Raises KeyError for a scale that is not constant."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    nodes: list[NodeProto] = []
    for node in graph.node:
        spelled = f"{node.domain}.{node.op_type}".lstrip(".") in FORMS
        nodes += _spelled(graph, node, constants) if spelled else [node]
    replace_nodes(graph, nodes)
    # onnx infers these types again: weights become constants.
    del graph.value_info[:]


def _spelled(
    graph: onnx.GraphProto, node: NodeProto, constants: dict[str, onnx.TensorProto]
) -> list[NodeProto]:
    form = FORMS[f"{node.domain}.{node.op_type}".lstrip(".")]
    steps, given = NodeWriter(graph, node.output[0]), attributes_of(node)
    inputs = [*node.input, *[""] * (9 - len(node.input))]
    starts = form.starts(len(node.input))
    operands = [
        steps.add("DequantizeLinear", inputs[start : start + 3], axis=form.axis(given))
        for start in starts
    ]
    if form.bias is not None and inputs[form.bias]:
        x, weights = (numpy_helper.to_array(constants[inputs[start + 1]]) for start in starts)
        scale = steps.constant("bias_scale", np.float32(x.ravel()[0]) * weights)
        operands.append(steps.add("DequantizeLinear", [inputs[form.bias], scale], axis=0))
    if form.op == "Softmax":
        given.setdefault("axis", -1)
    known = onnx.defs.get_schema(form.op).attributes
    kept = {name: value for name, value in given.items() if name in known}
    real = steps.add(form.op, operands, **kept)
    steps.add("QuantizeLinear", [real, *inputs[form.result : form.result + 2]], node.output[0])
    return steps.nodes
