# SPDX-License-Identifier: Apache-2.0
"""Results half way between two bytes, or next to it, equal TensorFlow Lite Micro's: a factor that
is computed in another precision shows in them alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from builders.tflite_models import TfliteModel
from vmcu_bench import oracle
from vmcu_tools.machine import reference

BYTES = np.arange(-128, 128, dtype=np.int8)
FILES = 30
# Ratios of scales that put many values half way.
RATIOS = (0.25, 0.5, 1.5, 2, 127.5 / 64, 127.5 / 100, 3.5 / 3)

Build = Callable[[TfliteModel, float, float, float], tuple[int, int]]


def lookup(name: str, kind: str = "", **options) -> Build:
    """An operator of one input."""

    def build(m: TfliteModel, x_scale: float, w_scale: float, ratio: float) -> tuple[int, int]:
        x = m.activation((1, 256), x_scale, 0)
        y = m.activation((1, 256), x_scale / ratio)
        m.op(name, [x], y, kind, **options)
        return x, y

    return build


def next_to_half(m: TfliteModel, *_: float) -> tuple[int, int]:
    """A step is the float32 below a half, to which a half added in float32 makes one."""
    x = m.activation((1, 256), 0.025494996458292007, 0)
    y = m.op("ELU", [x], m.activation((1, 256), 0.050989992916584015))
    return x, y


def with_constant(name: str, kind: str, number: int, product: bool) -> Build:
    def build(m: TfliteModel, x_scale: float, w_scale: float, ratio: float) -> tuple[int, int]:
        x = m.activation((1, 256), x_scale, 0)
        scale = w_scale if product else x_scale
        constant = m.constant(np.array([number], np.int8), [scale], 0, 0)
        y = m.activation((1, 256), np.float32(x_scale * (w_scale if product else 1)) / ratio)
        m.op(name, [x, constant], y, kind)
        return x, y

    return build


def quotient(m: TfliteModel, x_scale: float, w_scale: float, ratio: float) -> tuple[int, int]:
    """By 127 steps; Micro cannot compute quotients of much larger scales."""
    x = m.activation((1, 256), x_scale, 0)
    divisor = m.constant(np.array([127], np.int8), [w_scale], 0, 0)
    y = m.activation((1, 256), x_scale / w_scale / (127 * ratio if ratio > 1.03 else 190))
    m.op("DIV", [x, divisor], y, "Div")
    return x, y


def dense(count: int) -> Build:
    """count: of scales of the weights."""

    def build(m: TfliteModel, x_scale: float, w_scale: float, ratio: float) -> tuple[int, int]:
        x = m.activation((256, 1), x_scale, 0)
        weights = m.constant(np.ones((2, 1), np.int8), [w_scale] * count, 0)
        y = m.activation((256, 2), np.float32(x_scale * w_scale) / ratio)
        m.op("FULLY_CONNECTED", [x, weights, -1], y, "FullyConnected", keepNumDims=False)
        return x, y

    return build


def convolution(m: TfliteModel, x_scale: float, w_scale: float, ratio: float) -> tuple[int, int]:
    x = m.activation((1, 16, 16, 1), x_scale, 0)
    weights = m.constant(np.ones((2, 1, 1, 1), np.int8), [w_scale] * 2, 0)
    y = m.activation((1, 16, 16, 2), np.float32(x_scale * w_scale) / ratio)
    m.op("CONV_2D", [x, weights, -1], y, "Conv2D", padding=0, strideH=1, strideW=1)
    return x, y


def matrices(m: TfliteModel, x_scale: float, w_scale: float, ratio: float) -> tuple[int, int]:
    """Each column is a sum of one product, with the input's first byte."""
    x = m.activation((1, 1, 256), x_scale, 0)
    turned = m.op("RESHAPE", [x, _to(m, 1, 256, 1)], m.like(x, (1, 256, 1)), "Reshape", newShape=[])
    one = m.op("SLICE", [turned, _to(m, 0, 129, 0), _to(m, 1, 1, 1)], m.like(x, (1, 1, 1)), "Slice")
    y = m.activation((1, 256, 1), np.float32(x_scale * x_scale) / ratio)
    m.op("BATCH_MATMUL", [turned, one], y, "BatchMatMul", adjX=False, adjY=False)
    return x, y


def _to(m: TfliteModel, *sizes: int) -> int:
    return m.constant(np.array(sizes, np.int32))


def summed(name: str) -> Build:
    def build(m: TfliteModel, x_scale: float, w_scale: float, ratio: float) -> tuple[int, int]:
        x, y = m.activation((1, 128, 2), x_scale, 0), m.activation((1, 128), x_scale / ratio)
        m.op(name, [x, _to(m, 2)], y, "Reducer", keepDims=False)
        return x, y

    return build


CASES: dict[str, Build] = {
    "ABS": lookup("ABS", "Abs"),
    "ELU": lookup("ELU"),
    "ELU next to a half": next_to_half,
    "HARD_SWISH": lookup("HARD_SWISH", "HardSwish"),
    "LEAKY_RELU": lookup("LEAKY_RELU", "LeakyRelu", alpha=0.3),
    "LEAKY_RELU of -0.5": lookup("LEAKY_RELU", "LeakyRelu", alpha=-0.5),
    "QUANTIZE": lookup("QUANTIZE", "Quantize"),
    "RELU": lookup("RELU"),
    "ADD": with_constant("ADD", "Add", 3, False),
    "SUB": with_constant("SUB", "Sub", 3, False),
    "MUL": with_constant("MUL", "Mul", 3, True),
    "PRELU": with_constant("PRELU", "", 5, False),
    "SQUARED_DIFFERENCE": with_constant("SQUARED_DIFFERENCE", "SquaredDifference", 3, False),
    "DIV": quotient,
    "FULLY_CONNECTED": dense(1),
    "FULLY_CONNECTED by channel": dense(2),
    "CONV_2D": convolution,
    "BATCH_MATMUL": matrices,
    "SUM": summed("SUM"),
    "MEAN": summed("MEAN"),
}


@pytest.mark.parametrize("case", CASES)
def test_half_steps_go_where_tflm_takes_them(tmp_path, case):
    for seed in range(FILES):
        m = TfliteModel(seed)
        # Next to a half, on either side of it, or on it.
        off = 1 + m.rng.choice([0, 0, 1e-7, -1e-7])
        scales = (np.float32(m.rng.uniform(*ends)) for ends in ((0.01, 0.2), (0.002, 0.05)))
        x, y = CASES[case](m, *scales, np.float32(m.rng.choice(RATIOS)) * np.float32(off))
        judge = oracle.open(m.save(tmp_path / f"{seed}.tflite", [x], [y]))
        (tensor,) = (judge.graph.tensors[port.tensor] for port in judge.graph.inputs)
        sample, name = [BYTES.reshape(tensor.shape)], judge.graph.outputs[0].tensor
        expected, computed = judge.run(sample)[name], reference.run(judge.graph, sample)[name]
        np.testing.assert_array_equal(computed, expected, err_msg=f"seed {seed}")
