# SPDX-License-Identifier: Apache-2.0
"""Every node of ONNX models equals ONNX Runtime's: Conv, Gemm and MatMul to the byte, the rest
within one step and for few bytes, each given the runtime's own input values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.networks import random_inputs
from builders.onnx_models import CASES, OnnxModel, conv, dense, quantised_network, single
from promises import assert_within
from vmcu_bench import oracle
from vmcu_tools import frontends
from vmcu_tools.graph import Graph
from vmcu_tools.machine import reference

FLOAT = onnx.TensorProto.FLOAT


def assert_close_to_oracle(path: Path, runs: int = 2) -> Graph:
    judge = oracle.open(path)
    graph = judge.graph
    for seed in range(runs):
        inputs = random_inputs(graph, seed)
        expected = judge.run(inputs)
        for port, values in zip(graph.inputs, inputs, strict=True):
            np.testing.assert_array_equal(expected[port.tensor], values)
        differences = oracle.node_differences(graph, expected)
        assert differences
        for found in differences:
            assert_within(judge, found)
    return graph


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("case", CASES)
def test_operator_equals_onnxruntime(tmp_path, case, dtype):
    for seed in range(2):
        model = OnnxModel(seed, dtype)
        path = tmp_path / f"{seed}.onnx"
        onnx.save(single(model, *CASES[case]), path)
        graph = assert_close_to_oracle(path)
        assert graph.inputs[0].dtype == "float32"
        assert graph.inputs[0].layout == ("nchw" if len(CASES[case][0]) == 4 else "nhwc")


@pytest.mark.parametrize(
    ("form", "activations", "per_channel"),
    [
        ("QDQ", "QInt8", True),
        ("QDQ", "QInt8", False),
        ("QDQ", "QUInt8", True),
        ("QOperator", "QUInt8", True),
    ],
)
def test_statically_quantised_network(tmp_path, form, activations, per_channel):
    path = quantised_network(tmp_path, form, activations, per_channel)
    graph = assert_close_to_oracle(path)
    assert graph.inputs[0].layout == "nchw"
    kinds = {node.kind for node in graph.nodes}
    assert {"Conv2D", "DepthwiseConv2D", "Add", "MaxPool2D", "Concat", "Softmax"} <= kinds


def test_channels_last_input_needs_no_transposition(tmp_path):
    """What converters from TensorFlow write: (1, H, W, C), turned by a Transpose."""
    m = OnnxModel()
    quantisation = m.stated()
    x = m.qdq("x", quantisation)
    x = m.qdq(m.node("Transpose", [x], perm=[0, 3, 1, 2]), quantisation)
    y, scale = conv(3, 4, (3, 3))(m, x, m.scales[quantisation[0]])
    y = m.qdq(y, after := m.stated(scale))
    y = m.qdq(m.node("Transpose", [y], perm=[0, 2, 3, 1]), after)
    path = tmp_path / "m.onnx"
    onnx.save(m.proto({"x": (FLOAT, (1, 8, 9, 3))}, {y: (FLOAT, None)}), path)
    graph = assert_close_to_oracle(path)
    assert graph.tensors[graph.inputs[0].tensor].shape == (8, 9, 3)
    assert (graph.inputs[0].layout, graph.outputs[0].layout) == ("nhwc", "nhwc")
    assert {node.kind for node in graph.nodes} == {"Conv2D", "Reshape"}


def test_a_sequence_goes_out_as_it_lies(tmp_path):
    """(1, C, L), whose channels lie last inside too, as those of what comes in."""
    m = OnnxModel()
    first = m.stated()
    y = m.node("MaxPool", [m.qdq("x", first)], kernel_shape=[3])
    path = tmp_path / "m.onnx"
    onnx.save(m.proto({"x": (FLOAT, (1, 4, 9))}, {m.qdq(y, first): (FLOAT, None)}), path)
    graph = assert_close_to_oracle(path)
    assert graph.outputs[0].layout == "nchw"
    assert [node.kind for node in graph.nodes] == ["MaxPool2D"]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantised_input_and_output(tmp_path, dtype):
    m = OnnxModel(dtype=dtype)
    first = m.stated()
    x = m.node("DequantizeLinear", ["x", *first])
    y, scale = conv(3, 4, (3, 3))(m, x, m.scales[first[0]])
    y = m.node("QuantizeLinear", [y, *m.stated(scale)])
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    path = tmp_path / "m.onnx"
    onnx.save(m.proto({"x": (kind, ("N", 3, 8, 9))}, {y: (kind, None)}), path)
    graph = assert_close_to_oracle(path)
    assert [port.dtype for port in (*graph.inputs, *graph.outputs)] == [np.dtype(dtype).name] * 2
    assert graph.tensors["x"].shape == (8, 9, 3)


def test_weights_kept_in_float(tmp_path):
    """What PyTorch writes: float weights behind their own QuantizeLinear, and float biases."""
    m = OnnxModel()
    first = m.stated()
    scales = m.constant(m.rng.uniform(0.01, 0.02, 4).astype(np.float32))
    zeros = m.constant(np.zeros(4, np.int8))
    real = m.constant(m.rng.uniform(-1.2, 1.2, (4, 3, 3, 3)).astype(np.float32))
    q = m.node("QuantizeLinear", [real, scales, zeros], axis=0)
    w = m.node("DequantizeLinear", [q, scales, zeros], axis=0)
    bias = m.constant(m.rng.uniform(-1, 1, 4).astype(np.float32))
    y = m.node("Conv", [m.qdq("x", first), w, bias])
    y = m.qdq(y, m.stated(0.2))
    path = tmp_path / "m.onnx"
    onnx.save(m.proto({"x": (FLOAT, (1, 3, 8, 9))}, {y: (FLOAT, None)}), path)
    assert_close_to_oracle(path)


def test_shape_arithmetic_is_folded(tmp_path):
    """What PyTorch writes for x.view(x.size(0), -1)."""
    m = OnnxModel()
    first = m.stated()
    x = m.qdq("x", first)
    size = m.node("Gather", [m.node("Shape", [x]), m.constant(np.int64(0))], axis=0)
    size = m.node("Unsqueeze", [size, m.constant(np.array([0]))])
    to = m.node("Concat", [size, m.constant(np.array([-1]))], axis=0)
    y, scale = dense("Gemm", 72, 5, transB=1)(m, m.node("Reshape", [x, to]), m.scales[first[0]])
    path = tmp_path / "m.onnx"
    onnx.save(
        m.proto({"x": (FLOAT, (1, 2, 4, 9))}, {m.qdq(y, m.stated(scale)): (FLOAT, None)}), path
    )
    graph = assert_close_to_oracle(path)
    assert [node.kind for node in graph.nodes] == ["Reshape", "FullyConnected"]


def test_whole_network_stays_near_onnxruntime(tmp_path):
    judge = oracle.open(quantised_network(tmp_path, "QDQ", "QInt8", True))
    inputs = [np.random.default_rng(1).integers(-128, 128, (16, 16, 3)).astype(np.int8)]
    expected, computed = judge.run(inputs), reference.run(judge.graph, inputs)
    output = judge.graph.outputs[0].tensor
    assert np.abs(expected[output].astype(int) - computed[output]).max() <= 4


def test_external_weights(tmp_path):
    m = OnnxModel()
    model = single(m, *CASES["conv 3x3"])
    onnx.save(model, tmp_path / "one.onnx")
    onnx.save(
        model,
        tmp_path / "two.onnx",
        save_as_external_data=True,
        location="w.bin",
        size_threshold=0,
    )
    one, two = (frontends.load(tmp_path / f"{name}.onnx") for name in ("one", "two"))
    np.testing.assert_array_equal(one.nodes[0].op.weights, two.nodes[0].op.weights)


def test_inputs_keep_the_order_of_the_file(tmp_path):
    m = OnnxModel()
    late, early = m.qdq("b", m.stated()), m.qdq("a", m.stated())
    y = m.qdq(m.node("Add", [late, early]), m.stated(0.4))
    path = tmp_path / "m.onnx"
    both = dict.fromkeys(("a", "b"), (FLOAT, (1, 2, 3, 4)))
    onnx.save(m.proto(both, {y: (FLOAT, None)}), path)
    graph = assert_close_to_oracle(path)
    assert [port.name for port in graph.inputs] == ["a", "b"]


def test_zero_point_may_be_absent(tmp_path):
    m = OnnxModel(dtype=np.uint8)
    scale = m.constant(np.float32(0.1))
    x = m.node("DequantizeLinear", [m.node("QuantizeLinear", ["x", scale]), scale])
    y = m.qdq(m.node("MaxPool", [x], kernel_shape=[2, 2]), m.stated(0.2))
    path = tmp_path / "m.onnx"
    onnx.save(m.proto({"x": (FLOAT, (1, 2, 3, 4))}, {y: (FLOAT, None)}), path)
    graph = assert_close_to_oracle(path)
    assert graph.tensors[graph.inputs[0].tensor].zero_point == -128


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_zero_point_of_an_integer_input_may_be_absent(tmp_path, dtype):
    m = OnnxModel(dtype=dtype)
    x = m.node("DequantizeLinear", ["x", m.constant(np.float32(0.1))])
    y = m.qdq(m.node("MaxPool", [x], kernel_shape=[2, 2]), m.stated(0.2))
    path = tmp_path / "m.onnx"
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    onnx.save(m.proto({"x": (kind, (1, 2, 3, 4))}, {y: (FLOAT, None)}), path)
    graph = assert_close_to_oracle(path)
    assert graph.tensors[graph.inputs[0].tensor].zero_point == (-128 if dtype == np.uint8 else 0)


def test_relu_goes_where_the_zero_point_is_the_least_value(tmp_path):
    """ONNX Runtime drops such a Relu, so that the convolution is an integer one: equal to the
    byte."""
    m = OnnxModel()
    first = m.stated()
    y, scale = conv(3, 4, (3, 3), then=[("Relu",)])(m, m.qdq("x", first), m.scales[first[0]])
    y = m.qdq(y, m.stated(scale, -128))
    path = tmp_path / "m.onnx"
    onnx.save(m.proto({"x": (FLOAT, (1, 3, 8, 9))}, {y: (FLOAT, None)}), path)
    judge = oracle.open(path)
    assert judge.promise(judge.graph, judge.graph.nodes[0]).steps == 0
    assert_close_to_oracle(path)


def test_weighted_layers_are_compared_to_the_byte(tmp_path):
    """Unless the file leaves an operator between the layer and its quantisation."""
    loose = {"conv relu", "conv clip", "gemm of image", "matmul of image"}
    for case in CASES:
        if case.startswith(("conv", "gemm", "matmul")) and case not in loose:
            onnx.save(single(OnnxModel(), *CASES[case]), tmp_path / "m.onnx")
            judge = oracle.open(tmp_path / "m.onnx")
            assert judge.promise(judge.graph, judge.graph.nodes[-1]).steps == 0, case
