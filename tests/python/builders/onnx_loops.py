# SPDX-License-Identifier: Apache-2.0
"""Float files with a Scan, as a person writes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE, INPUTS = 6, 4


def scan(
    steps: int = 5,
    batch: int = 1,
    backwards: bool = False,
    begins: np.ndarray | None = None,
    body: list[onnx.NodeProto] | None = None,
    vectors: bool = False,
    **given: Any,
) -> onnx.ModelProto:
    """s' = tanh(x W + s R), y = sigmoid(s'): the output are y of all steps and the last s.

    begins: the state before the first step, zeros by default; body: other nodes, from x and s to
    `after` and y; vectors: x and s of a step have no axis for the batch."""
    rng = np.random.default_rng(3)
    first = np.zeros((batch, SIZE)) if begins is None else begins
    arrays = {
        "W": rng.normal(size=(INPUTS, SIZE), scale=0.6),
        "R": rng.normal(size=(SIZE, SIZE), scale=0.4),
        "first": first[0] if vectors else first,
    }
    inner = body or [
        helper.make_node("MatMul", ["xt", "W"], ["xw"]),
        helper.make_node("MatMul", ["s", "R"], ["sr"]),
        helper.make_node("Add", ["xw", "sr"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["after"]),
        helper.make_node("Sigmoid", ["after"], ["yt"]),
    ]
    lead = [] if vectors else [batch]

    def value(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        inner,
        "body",
        [value("s", *lead, SIZE), value("xt", *lead, INPUTS)],
        [value("after", *lead, SIZE), value("yt", *lead, SIZE)],
    )
    ways = {"scan_input_directions": [1], "scan_output_directions": [1]} if backwards else {}
    node = helper.make_node(
        "Scan",
        ["first", "x"],
        ["last", "y"],
        "loop",
        body=graph,
        num_scan_inputs=1,
        **ways,
        **given,
    )
    outer = helper.make_graph(
        [node],
        "scan",
        [value("x", steps, *lead, INPUTS)],
        [value("y", steps, *lead, SIZE), value("last", *lead, SIZE)],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()],
    )
    return helper.make_model(outer, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
