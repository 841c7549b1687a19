# SPDX-License-Identifier: Apache-2.0
"""int4 weights: random layers against TensorFlow Lite Micro, every byte of the output."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from builders import onnx_models, tflite_models
from builders.onnx_models import OnnxModel
from builders.tflite_models import TfliteModel
from promises import assert_within
from random_graphs import disjoint, random_inputs
from vmcu_bench import oracle, runners
from vmcu_bench.cycles.kernels import CASES, case_graph
from vmcu_tools.errors import UserError
from vmcu_tools.frontends import load
from vmcu_tools.graph import Graph, Node, Port, Tensor, Window
from vmcu_tools.kernels.targets import TARGETS
from vmcu_tools.machine import reference
from vmcu_tools.ops import bind
from vmcu_tools.ops.conv2d import Conv2D
from vmcu_tools.quant import FixedPoint

LAYERS = 200


def drawn(kind: str, rng: np.random.Generator) -> tflite_models.Case:
    """A layer of a kind; sizes are not those of whole steps or blocks."""
    size = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    channels, count = (int(n) for n in rng.integers(1, 40, 2))
    more = {"activation": int(rng.choice([0, 0, 1, 3])), "per_channel": bool(rng.random() < 0.7)}
    if kind == "fully connected":
        depth = int(rng.integers(1, 300))
        # TensorFlow Lite Micro has none with int4 weights and several scales.
        more["per_channel"] = False
        return tflite_models.dense((1, depth), count, **more)
    kernel = tuple(int(rng.integers(1, min(n, 5) + 1)) for n in size)
    stride = tuple(int(n) for n in rng.integers(1, 3, 2))
    more["same"] = bool(rng.random() < 0.5)
    if kind == "depthwise":
        times = int(rng.integers(1, 3))
        return tflite_models.depthwise(size, channels, times, kernel, stride, **more)
    if rng.random() < 0.5:
        kernel, stride = (1, 1), (1, 1)
    return tflite_models.conv(size, channels, count, kernel, stride, **more)


def layer_file(kind: str, seed: int, folder: Path) -> Path:
    model = TfliteModel(seed, int4=True)
    return model.save(folder / "layer.tflite", *drawn(kind, model.rng)(model))


@pytest.mark.parametrize("kind", ["fully connected", "conv", "depthwise"])
def test_layers_are_those_of_tflite_micro(kind: str, tmp_path: Path) -> None:
    for seed in range(LAYERS):
        judge = oracle.open(layer_file(kind, seed, tmp_path))
        assert {node.op.weight_bits for node in judge.graph.nodes} == {4}
        inputs = random_inputs(judge.graph, seed)
        found = reference.run(judge.graph, inputs)
        for name, values in judge.run(inputs).items():
            np.testing.assert_array_equal(found[name], values, err_msg=f"{kind} {seed}")


ONNX = {
    "conv": lambda b: ((1, b, 6, 7), onnx_models.conv(b, 9, (3, 3), axis=0, **INT4)),
    "pointwise": lambda b: ((1, b, 5, 5), onnx_models.conv(b, 13, (1, 1), axis=0, **INT4)),
    "depthwise": lambda b: ((1, b, 6, 6), onnx_models.conv(b, b, (3, 3), b, axis=0, **INT4)),
    "Gemm": lambda b: ((1, 5 * b), onnx_models.dense("Gemm", 5 * b, 11, 0, transB=1, **INT4)),
    "unsigned": lambda b: ((1, b, 4, 4), onnx_models.conv(b, 9, (1, 1), axis=0, **UINT4)),
    "MatMul": lambda b: ((4, 3 * b), onnx_models.dense("MatMul", 3 * b, 7, 1, **INT4)),
}
INT4 = {"w_dtype": ml_dtypes.int4, "w_span": 7}
UINT4 = {"w_dtype": ml_dtypes.uint4, "w_span": 7, "w_zero_point": 8}


@pytest.mark.parametrize("kind", ONNX)
def test_layers_are_those_of_onnx_runtime(kind: str, tmp_path: Path) -> None:
    """It computes convolutions with dequantised weights in float32, so that half a step may be
    rounded another way."""
    for seed in range(24):
        shape, layer = ONNX[kind](2 + seed)
        model = onnx_models.single(OnnxModel(seed, opset=21), shape, layer)
        onnx.save(model, tmp_path / "m.onnx")
        judge = oracle.open(tmp_path / "m.onnx")
        assert {getattr(node.op, "weight_bits", 4) for node in judge.graph.nodes} == {4}
        wanted = judge.run(random_inputs(judge.graph, seed))
        for found in oracle.node_differences(judge.graph, wanted):
            assert_within(judge, found)


def one_layer(weights: np.ndarray, bias: np.ndarray, columns: int, target: str) -> Graph:
    """A 1 x 1 convolution of weights of 4 bits (channels, depth), and a fully connected layer if
    there is one column."""
    channels, depth = weights.shape
    requant = FixedPoint.of(np.full(channels, 2.0**-20))
    op = Conv2D(weights[:, None, None], bias, Window(), requant, weight_bits=4)
    tensors = {n: Tensor(n, (1, columns, c), 0.1, 0) for n, c in (("in", depth), ("out", channels))}
    node = Node("one", op, ("in",), ("out",))
    ports = [Port(n, n, (1, *tensor.shape), "int8") for n, tensor in tensors.items()]
    return Graph("one", "one", tensors, (node,), (ports[0],), (ports[1],), target=target)


@pytest.mark.parametrize("columns", [1, 2, 8])
def test_a_byte_has_two_weights(columns: int) -> None:
    """The even taps of two channels in the upper halves of a word, the odd ones in the lower."""
    weights = np.random.default_rng(0).integers(-8, 8, (8, 4)).astype(np.int8)
    graph = one_layer(weights, np.zeros(8, np.int32), columns, "dsp")
    layer = bind(graph, graph.nodes[0])
    assert layer.symbol.endswith("_int4")
    channels = 2 if columns == 8 else 4
    start = 4 + 4 * channels
    found = np.frombuffer(layer.binding.stream[start : start + 2 * channels], np.uint8)
    for number, byte in enumerate(found):
        channel, tap = number // 4 * 2 + number % 2, number % 4 // 2 * 2
        upper, lower = (int(weight) & 15 for weight in weights[channel, tap : tap + 2])
        assert byte == upper << 4 | lower


@pytest.mark.parametrize("board", ["host", "qemu:m4", "qemu:m7", "qemu:m55"])
@pytest.mark.parametrize("columns", [1, 2, 8])
def test_sums_up_to_the_bound(board: str, columns: int) -> None:
    """A sum is 16 times as large in a register. One more than fits, and weights have 8 bits."""
    target = getattr(runners.get(board), "family", None) or "dsp"
    weights = np.array([[-8], [7], [1], [0], [-8], [7], [1], [-1]], np.int8)
    most = (1 << 27) - 1 - 128 * np.abs(weights[:, 0].astype(np.int32))
    ends = most * np.array([1, -1, 1, -1, -1, 1, -1, 1], np.int32)
    graph = one_layer(weights, ends, columns, target)
    assert "int4" in bind(graph, graph.nodes[0]).symbol
    beyond = one_layer(weights, ends + np.sign(ends), columns, target)
    assert "int4" not in bind(beyond, beyond.nodes[0]).symbol
    samples = [[np.full((1, columns, 1), value, np.int8)] for value in (-128, 127, 1)]
    for made in (graph, beyond):
        found = runners.get(board).run(disjoint(made), samples)
        for sample, (output,) in zip(samples, found, strict=True):
            wanted = bind(made, made.nodes[0]).rows(sample, 0, 1)
            np.testing.assert_array_equal(output.reshape(wanted.shape), wanted)


def test_weights_beyond_4_bits_have_8() -> None:
    """A pass may have changed them."""
    weights = np.array([[8, 1, 1, 1]] * 8, np.int8)
    graph = one_layer(weights, np.zeros(8, np.int32), 8, "dsp")
    assert bind(graph, graph.nodes[0]).symbol == "vmcu_pointwise"


@pytest.mark.parametrize("target", TARGETS)
def test_flash_of_a_layer(target: str) -> None:
    case = next(case for case in CASES if case.kind == "dense")
    sizes = []
    for bits in (8, 4):
        graph = replace(case_graph(replace(case, weight_bits=bits), 0), target=target)
        layer = bind(graph, graph.nodes[0])
        sizes.append((len(layer.binding.stream), layer.weight_bytes))
    for whole, half in zip(*sizes, strict=True):
        assert half <= 0.55 * whole


def test_a_file_with_too_few_bytes(tmp_path: Path) -> None:
    model = TfliteModel(3, int4=True)
    ends = drawn("fully connected", model.rng)(model)
    buffer = model.model.buffers[
        next(i for i, b in enumerate(model.model.buffers) if b.data is not None)
    ]
    buffer.data = buffer.data[:-1]
    with pytest.raises(UserError, match="int4 elements"):
        load(model.save(tmp_path / "m.tflite", *ends))
