# SPDX-License-Identifier: Apache-2.0
"""Biases that leave int32, or that float32 does not hold, are told when a model is built."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel
from builders.tflite_models import TfliteModel
from vmcu_tools.cli import main

ZERO = 5
MOST, LEAST = 2**31 - 1, -(2**31)
SIGNS = np.array([1, -1, 0], np.int8)


def lite(folder: Path, op: str, biases: list[int]) -> Path:
    """Three channels of four taps each, all 1, all -1 and all 0: with the input's zero point
    folded in, their biases are 20 less, 20 more and the same."""
    m = TfliteModel()
    shape, taps = {
        "FULLY_CONNECTED": ((1, 4), np.repeat(SIGNS[:, None], 4, axis=1)),
        "CONV_2D": ((1, 2, 2, 1), np.repeat(SIGNS, 4).reshape(3, 2, 2, 1)),
        "DEPTHWISE_CONV_2D": ((1, 2, 2, 3), np.tile(SIGNS, (1, 2, 2, 1))),
    }[op]
    x = m.activation(shape, 0.5, ZERO)
    w = m.constant(taps, [0.5])
    b = m.constant(np.array(biases, np.int32), [0.25])
    y = m.activation((1, 3) if len(shape) == 2 else (1, 1, 1, 3), 0.5, 0)
    kind = {"FULLY_CONNECTED": "FullyConnected", "CONV_2D": "Conv2D"}.get(op, "DepthwiseConv2D")
    window = {} if kind == "FullyConnected" else {"padding": 1, "strideH": 1, "strideW": 1}
    if kind == "DepthwiseConv2D":
        window["depthMultiplier"] = 1
    m.op(op, [x, w, b], y, kind, **window)
    return m.save(folder / "m.tflite", [x], [y])


def gemm(folder: Path, scale: float, biases: list[int]) -> Path:
    """Float factors of scale squared; taps as above."""
    m = OnnxModel()
    x = m.qdq("x", m.stated(scale, ZERO))
    quantised = {
        "w": (np.repeat(SIGNS[None], 4, axis=0), np.float32(scale), np.int8(0)),
        "b": (np.array(biases, np.int32), np.float32(scale) * np.float32(scale), np.int32(0)),
    }
    inputs = [
        m.node("DequantizeLinear", [m.constant(array) for array in arrays])
        for arrays in quantised.values()
    ]
    y = m.qdq(m.node("Gemm", [x, *inputs]), m.stated(1.0, 0))
    model = m.proto({"x": (onnx.TensorProto.FLOAT, (1, 4))}, {y: (onnx.TensorProto.FLOAT, None)})
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def warnings(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What `build` says on stderr; its report has the same."""
    figures = path.parent / "figures.json"
    assert main(["build", str(path), "--json", str(figures)]) == 0
    said = capsys.readouterr()
    noted = [n for n in json.loads(figures.read_text())["notes"] if n.startswith("warning: ")]
    assert len(noted) == said.err.count("warning: ") == said.out.count("warning: ")
    return said.err


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ("FULLY_CONNECTED", "FullyConnected"),
        ("CONV_2D", "Conv2D"),
        ("DEPTHWISE_CONV_2D", "DepthwiseConv2D"),
    ],
)
def test_biases_that_leave_int32(tmp_path, capsys, op, kind):
    said = warnings(lite(tmp_path, op, [MOST, MOST, MOST]), capsys)
    assert f"warning: {tmp_path / 'm.tflite'}: " in said
    assert f" ({kind}): the biases of 1 of 3 channels overflow int32" in said and "hint: " in said
    said = warnings(lite(tmp_path, op, [LEAST + 19, LEAST, LEAST]), capsys)
    assert "the biases of 1 of 3 channels overflow int32" in said
    within = [LEAST + 20, MOST - 20, MOST]
    assert warnings(lite(tmp_path, op, within), capsys) == ""


# A factor that no integers stand for, as it is too small, and a usual one.
TINY, USUAL = 2.0**-14, 2.0**-5


def test_biases_that_float32_does_not_hold(tmp_path, capsys):
    beyond = [2**24 + 1, 2**24 - 20, -(2**24)]
    said = warnings(gemm(tmp_path, TINY, beyond), capsys)
    assert "the biases of 1 of 3 channels exceed 2^24" in said and "(FullyConnected)" in said
    said = warnings(gemm(tmp_path, TINY, [2**24, 2**24 - 19, -(2**24) - 1]), capsys)
    assert "the biases of 2 of 3 channels exceed 2^24" in said
    assert warnings(gemm(tmp_path, TINY, [2**24, 2**24 - 20, -(2**24)]), capsys) == ""
    assert warnings(gemm(tmp_path, USUAL, beyond), capsys) == ""
