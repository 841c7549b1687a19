# SPDX-License-Identifier: Apache-2.0
"""Every tensor of every .tflite model equals TensorFlow Lite Micro's, to the byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders.networks import MODELS, network_file, random_inputs
from builders.tflite_models import CASES, TfliteModel, conv
from vmcu_bench import oracle
from vmcu_bench.verify import verify
from vmcu_tools import frontends
from vmcu_tools.compiler import compile_model
from vmcu_tools.graph import Graph
from vmcu_tools.machine import reference
from vmcu_tools.ops.requantize import Requantize


def assert_equal_to_oracle(path: Path, runs: int = 2) -> Graph:
    judge = oracle.open(path)
    for seed in range(runs):
        inputs = random_inputs(judge.graph, seed)
        expected = judge.run(inputs)
        computed = reference.run(judge.graph, inputs)
        assert set(expected) <= set(computed)
        for name, values in expected.items():
            np.testing.assert_array_equal(computed[name], values, err_msg=name)
    return judge.graph


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_operator_equals_tflm(tmp_path, case, seed):
    model = TfliteModel(seed)
    inputs, outputs = CASES[case](model)
    graph = assert_equal_to_oracle(model.save(tmp_path / "m.tflite", inputs, outputs))
    assert len(graph.nodes) == 1


@pytest.mark.parametrize("name", MODELS)
def test_network_equals_tflm(name):
    assert_equal_to_oracle(network_file(name), runs=1)


def test_float_borders_are_stripped(tmp_path):
    m = TfliteModel()
    x = m.activation((1, 4, 4, 3), dtype=np.float32)
    q = m.op("QUANTIZE", [x], m.activation((1, 4, 4, 3)))
    r = m.op("RELU", [q], m.activation((1, 4, 4, 3)))
    y = m.op("DEQUANTIZE", [r], m.activation((1, 4, 4, 3), dtype=np.float32))
    graph = assert_equal_to_oracle(m.save(tmp_path / "m.tflite", [x], [y]))
    assert [node.kind for node in graph.nodes] == ["Requantize"]
    port_in, port_out = graph.inputs[0], graph.outputs[0]
    assert (port_in.name, port_in.tensor, port_in.dtype) == ("t0", "t1", "float32")
    assert (port_out.name, port_out.tensor, port_out.dtype) == ("t3", "t2", "float32")


def test_uint8_borders_are_relabelled(tmp_path):
    m = TfliteModel()
    x = m.activation((1, 10), 0.1, 140, dtype=np.uint8)
    y = m.op("QUANTIZE", [x], m.activation((1, 10), 0.1, 12))
    graph = frontends.load(m.save(tmp_path / "m.tflite", [x], [y]))
    assert graph.inputs[0].dtype == "uint8"
    assert graph.tensors["t0"].zero_point == 12
    values = reference.run(graph, random_inputs(graph, 0))
    np.testing.assert_array_equal(values["t0"], values["t1"])
    assert isinstance(graph.nodes[0].op, Requantize)


def test_nodes_stay_as_they_are_in_the_file(tmp_path):
    m = TfliteModel()
    (x,), (y,) = conv((6, 6), 4, 8, (1, 1))(m)
    z = m.like(y, (1, 6 * 6 * 8))
    m.op("RESHAPE", [y, m.constant(np.array([1, 288], np.int32))], z, "Reshape")
    graph = frontends.load(m.save(tmp_path / "m.tflite", [x], [z]))
    assert [node.kind for node in graph.nodes] == ["Conv2D", "Reshape"]
    assert [node.name for node in graph.nodes] == [f"t{y}", f"t{z}"]
    assert graph.outputs[0].file_shape == (1, 288)


def test_equal_tensor_names_are_told_apart(tmp_path):
    m = TfliteModel()
    (x,), (y,) = conv((6, 6), 4, 8, (1, 1))(m)
    for tensor in m.graph.tensors:
        tensor.name = "same"
    graph = assert_equal_to_oracle(m.save(tmp_path / "m.tflite", [x], [y]))
    assert set(graph.tensors) == {"same", f"same#{y}"}


def test_model_without_operators_is_verified(tmp_path):
    m = TfliteModel()
    x = m.activation((1, 3, 4, 2))
    plan = compile_model(m.save(tmp_path / "m.tflite", [x], [x]))
    result = verify.verify(plan, "virtual", 2, 0, 0)
    assert result.passed
    assert [check.bytes for check in result.checks] == [2 * 24]


def test_output_under_another_shape_than_the_files_is_verified(tmp_path):
    """The reduction makes (5, 1, 1), the file says (1, 5), and the Reshape between is dropped."""
    m = TfliteModel()
    x, y = m.activation((1, 5, 4)), m.activation((1, 5))
    m.op("SUM", [x, m.constant(np.array([2], np.int32))], y, "Reducer", keepDims=False)
    plan = compile_model(m.save(tmp_path / "m.tflite", [x], [y]))
    result = verify.verify(plan, "virtual", 2, 0, 0)
    assert result.passed
    assert [check.bytes for check in result.checks] == [2 * 5]


def test_arg_max_may_be_int64(tmp_path):
    """TensorFlow's default; Micro runs the same model with int32."""
    results = []
    for dtype in (np.int32, np.int64):
        m = TfliteModel(5)
        x, y = m.activation((1, 3, 7)), m.activation((1, 3), dtype=dtype)
        m.graph.tensors[y].quantization = None
        m.op("ARG_MAX", [x, m.constant(np.array([2], np.int32))], y, "ArgMax", outputType=2)
        path = m.save(tmp_path / "m.tflite", [x], [y])
        graph = frontends.load(path)
        inputs, tensor = random_inputs(graph, 1), graph.outputs[0].tensor
        results.append(reference.run(graph, inputs)[tensor])
        results.append(oracle.open(path).run(inputs)[tensor])
    assert graph.outputs[0].dtype == "int64"
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].ravel(), other.ravel())
