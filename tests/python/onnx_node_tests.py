# SPDX-License-Identifier: Apache-2.0
"""Runs ONNX's own node tests for quantised and integer operators, and writes the table of them.

    python tests/python/onnx_node_tests.py > doc/onnx-node-tests.md

The tests come with the package `onnx`. They hand every operand to the model at run time; scales and
zero points, and a convolution's weights, are made constants here, as in every real model.
"""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases
from vmcu_bench.runners.borders import to_file
from vmcu_tools import frontends
from vmcu_tools.errors import UserError
from vmcu_tools.graph import Graph, Port
from vmcu_tools.machine import reference

OPERATORS = ("ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger")
OPERATORS += ("QLinearConv", "QLinearMatMul", "QuantizeLinear")
DATA = ("x", "a", "b", "A", "B")

HEADER = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# ONNX's node tests

Every test for a quantised or integer operator that the package `onnx` {version} ships. Written by
`python tests/python/onnx_node_tests.py`; a test of this project runs them and holds this table
against the outcome.

| Test | | Why not |
| --- | --- | --- |
"""


@dataclass(frozen=True)
class Outcome:
    """`reason` is empty where the outputs are right to the byte."""

    test: str
    reason: str


def outcomes() -> list[Outcome]:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    cases = [case for case in cases if case.model.graph.node[-1].op_type in OPERATORS]
    for case in sorted(cases, key=lambda case: case.name):
        inputs, outputs = case.data_sets[0]
        found.append(Outcome(case.name, _run(case.model, list(inputs), list(outputs))))
    return found


def _run(model: onnx.ModelProto, inputs: list, outputs: list) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        data = _bake(model, inputs)
        onnx.save(model, path)
        try:
            graph = frontends.load(path)
        except UserError as error:
            return next((p for p in error.problems if p.op), error.problems[0]).reason
    sample = [_as_int8(graph, port, data[port.name]) for port in graph.inputs]
    values = reference.run(graph, sample)
    for port, wanted in zip(graph.outputs, outputs, strict=True):
        got = to_file(values[port.tensor], graph, port)
        np.testing.assert_array_equal(got, np.asarray(wanted), err_msg=model.graph.name)
    return ""


def _bake(model: onnx.ModelProto, inputs: list) -> dict[str, np.ndarray]:
    """Makes constants of all inputs but data; returns the latter."""
    data = {}
    for info, value in zip(list(model.graph.input), inputs, strict=True):
        if info.name in DATA:
            data[info.name] = np.asarray(value)
        else:
            tensor = value if isinstance(value, onnx.TensorProto) else None
            tensor = tensor or numpy_helper.from_array(np.asarray(value), info.name)
            tensor.name = info.name
            model.graph.initializer.append(tensor)
            model.graph.input.remove(info)
    return data


def _as_int8(graph: Graph, port: Port, values: np.ndarray) -> np.ndarray:
    tensor = graph.tensors[port.tensor]
    if port.layout == "nchw":
        values = np.moveaxis(values[0], 0, -1)
    values = values.reshape(tensor.shape)
    if port.dtype == "uint8":
        return (values.astype(np.int16) - 128).astype(np.int8)
    if port.dtype == "int8":
        return values
    q = np.rint(values / np.float32(tensor.scale)) + tensor.zero_point
    return np.clip(q, -128, 127).astype(np.int8)


def table(found: list[Outcome]) -> str:
    rows = (
        f"| {outcome.test} | {'out of scope' if outcome.reason else 'passes'} | {outcome.reason} |"
        for outcome in found
    )
    return HEADER.format(version=onnx.__version__) + "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(table(outcomes()), end="")
