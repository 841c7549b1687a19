# SPDX-License-Identifier: Apache-2.0
"""int4 weights: random layers against TensorFlow Lite Micro, every byte of the output."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from builders import onnx_models, tflite_models
from builders.onnx_models import OnnxModel
from builders.tflite_models import TfliteModel
from promises import assert_within
from random_graphs import random_inputs
from vmcu_tools import oracle
from vmcu_tools.machine import reference

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
    "MatMul": lambda b: ((4, 3 * b), onnx_models.dense("MatMul", 3 * b, 7, 1, **INT4)),
}
INT4 = {"w_dtype": ml_dtypes.int4, "w_span": 7}


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
