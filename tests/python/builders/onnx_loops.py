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


def coupled(ops: list[onnx.NodeProto], outputs: tuple[str, ...], steps: int = 5) -> onnx.ModelProto:
    """Two states, a and b, that become `an` and `bn`, from a row `xt`; `yt` is a result. outputs:
    those of y, and the last a and b, "al" and "bl"."""
    rng = np.random.default_rng(3)
    arrays = {"W": rng.normal(size=(INPUTS, SIZE), scale=0.6), "z": np.zeros((1, SIZE))}
    arrays |= {name: rng.normal(size=(SIZE, SIZE), scale=0.4) for name in "RQ"}
    ins, outs = (("a", "b", "xt"), ("an", "bn", "yt"))
    rows, results = (
        [
            helper.make_tensor_value_info(
                name, TensorProto.FLOAT, [1, INPUTS if name == "xt" else SIZE]
            )
            for name in names
        ]
        for names in (ins, outs)
    )
    body = helper.make_graph(ops, "body", rows, results)
    node = helper.make_node(
        "Scan", ["z", "z", "x"], ["al", "bl", "y"], "loop", body=body, num_scan_inputs=1
    )
    shapes = {"y": [steps, 1, SIZE], "al": [1, SIZE], "bl": [1, SIZE]}
    graph = helper.make_graph(
        [node],
        "coupled",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, 1, INPUTS])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shapes[n]) for n in outputs],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
