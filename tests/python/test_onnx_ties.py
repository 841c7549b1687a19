# SPDX-License-Identifier: Apache-2.0
"""A sum or product with a number whose results are all half way between two bytes: the table has
the byte of ONNX Runtime's kernel, which is a float or an integer one, by types and readers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders.onnx_models import OnnxModel
from onnx import TensorProto
from vmcu_bench.oracle.ort import session_of
from vmcu_tools.frontends import load
from vmcu_tools.machine import reference
from vmcu_tools.passes import optimize

# As quantize_static gives a GELU's erf and its number one: 2/255 and 1/255.
STEP = np.float32(2 / 255)


def tied_file(folder: Path, op: str, types: tuple[type, type], readers: int) -> Path:
    m = OnnxModel(dtype=types[0])
    middle = 0 if types[0] == np.int8 else 128
    x = m.qdq("x", m.stated(STEP, middle))
    number, half = (255, STEP / 2) if op == "Add" else (1, np.float32(0.5))
    lowest = np.iinfo(types[1]).min
    stored = [types[1](number + lowest), np.float32(half), types[1](lowest)]
    one = m.node("DequantizeLinear", [m.constant(value) for value in stored])
    y = m.qdq(m.node(op, [x, one]), m.stated(STEP, middle if op == "Mul" else middle - 128))
    outputs = [y, *(m.qdq(m.node("Erf", [x]), m.stated(STEP, middle)) for _ in range(readers - 1))]
    shapes = dict.fromkeys(outputs, (TensorProto.FLOAT, (1, 256)))
    path = folder / "tied.onnx"
    path.write_bytes(m.proto({"x": (TensorProto.FLOAT, (1, 256))}, shapes).SerializeToString())
    return path


@pytest.mark.parametrize("readers", (1, 2))
@pytest.mark.parametrize("constant", (np.int8, np.uint8))
@pytest.mark.parametrize("activation", (np.int8, np.uint8))
@pytest.mark.parametrize("op", ("Add", "Mul"))
def test_ties_are_rounded_as_onnxruntime_does(
    tmp_path: Path, op: str, activation: type, constant: type, readers: int
) -> None:
    assert_bytes_of_runtime(tied_file(tmp_path, op, (activation, constant), readers))


@pytest.mark.parametrize("ratio", (0.5, 1, 1.5, 2))
@pytest.mark.parametrize("op", ("Add", "Sub"))
def test_nearly_tied_constants(tmp_path: Path, op: str, ratio: float) -> None:
    """One a channel, a little off half a step, which a layer's bias cannot tell from it."""
    m = OnnxModel(dtype=np.int8)
    out = STEP * np.float32(ratio)
    off = np.array([3.5001, -0.4997, 0.499, -2.5003, 4.75, 0, 7.0002, -9.9998], np.float32)
    x = m.qdq("x", m.stated(STEP, 3))
    y = m.qdq(m.node(op, [x, m.constant(off * out)]), m.stated(out, -5))
    path = tmp_path / "nearly.onnx"
    shape = (TensorProto.FLOAT, (1, 32, 8))
    path.write_bytes(m.proto({"x": shape}, {y: shape}).SerializeToString())
    assert_bytes_of_runtime(path)


def assert_bytes_of_runtime(path: Path) -> None:
    graph = optimize(load(path))
    q = np.arange(-128, 128, dtype=np.int8)
    out = graph.outputs[0]
    found = reference.run(graph, [q.reshape(graph.tensors[graph.inputs[0].tensor].shape)])
    session = session_of(path, "ORT_ENABLE_ALL")
    shape = session.get_inputs()[0].shape
    real = (
        (q.astype(np.float32) - graph.tensors[graph.inputs[0].tensor].zero_point) * STEP
    ).reshape(shape)
    expected = session.run([out.name], {"x": real})[0].ravel()
    tensor = graph.tensors[out.tensor]
    steps = np.rint(expected / np.float32(tensor.scale)).astype(int) + tensor.zero_point
    np.testing.assert_array_equal(found[out.tensor].ravel(), steps)
