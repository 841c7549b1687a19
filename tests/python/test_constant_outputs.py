# SPDX-License-Identifier: Apache-2.0
"""Outputs that are constants of the file, and float softmaxes at its end, against both runtimes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel
from builders.tflite_models import TfliteModel
from vmcu_tools import frontends
from vmcu_tools.cli import main
from vmcu_tools.errors import UserError

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def test_constant_outputs_of_tflite(tmp_path, capsys):
    """Anchors of a detector: int8 and int32 ones are written, float ones are left out. They come
    first, so that outputs behind them have other numbers."""
    m = TfliteModel()
    x = m.activation((1, 2, 3, 4), 0.1, 3)
    y = m.op("ABS", [x], m.activation((1, 2, 3, 4), 0.1, 3))
    anchors = m.constant(np.arange(-12, 12, dtype=np.int8).reshape(1, 6, 4), [0.5], 0, 7)
    real = m.constant(np.linspace(0, 1, 8, dtype=np.float32))
    numbers = m.constant(np.array([7, -70_000, 2**31 - 1], np.int32))
    path = m.save(tmp_path / "m.tflite", [x], [real, anchors, y, numbers])
    graph = frontends.load(path)
    assert [port.dtype for port in graph.outputs] == ["int8", "int8", "int32"]
    assert len(graph.notes.dropped) == 1
    assert main(["build", str(path), "-o", str(tmp_path)]) == 0
    assert f"'{graph.notes.dropped[0]}': it is a float constant" in capsys.readouterr().out
    assert main(["verify", str(path), "-n", "2"]) == 0
    assert capsys.readouterr().out.count("0 of ") >= 4


def test_constant_outputs_of_onnx(tmp_path, capsys):
    m = OnnxModel()
    ints = np.arange(-8, 16, dtype=np.int8).reshape(1, 2, 3, 4)
    anchors = m.node("DequantizeLinear", [m.constant(ints), *m.stated(0.1, 3)])
    real = m.node("Identity", [m.constant(np.ones((1, 3), np.float32))])
    numbers = m.node("Identity", [m.constant(np.array([5, -700]))])
    y = m.qdq(m.node("Relu", [m.qdq("x", m.stated())]), m.stated())
    kinds = {anchors: (FLOAT, None), real: (FLOAT, None), numbers: (INT64, None), y: (FLOAT, None)}
    path = tmp_path / "m.onnx"
    onnx.save(m.proto({"x": (FLOAT, (1, 4))}, kinds), path)
    graph = frontends.load(path)
    assert [port.name for port in graph.outputs] == [anchors, numbers, y]
    assert graph.notes.dropped == (real,)
    assert main(["verify", str(path), "-n", "2"]) == 0
    shown = capsys.readouterr().out
    assert f"output '{anchors}': 0 of" in shown and f"output '{numbers}': 0 of" in shown


def test_nothing_but_constants(tmp_path):
    m = TfliteModel()
    x = m.activation((1, 4), 0.1, 3)
    m.op("ABS", [x], m.activation((1, 4), 0.1, 3))
    path = m.save(tmp_path / "m.tflite", [x], [m.constant(np.ones(3, np.float32))])
    with pytest.raises(UserError, match="all of its outputs are constants"):
        frontends.load(path)


@pytest.mark.parametrize("scale", [0.01, 0.1, 0.7])
@pytest.mark.parametrize(
    ("op", "options"), [("SOFTMAX", {"Beta": 1.0}), ("SOFTMAX", {"Beta": 0.5}), ("LOG_SOFTMAX", {})]
)
def test_softmax_behind_dequantize(tmp_path, capsys, op, options, scale):
    """As a converter leaves it where the output stays float: int8 of a scale of its own."""
    m = TfliteModel()
    x = m.activation((1, 12), scale, -9)
    f, g = (m.activation((1, 12), dtype=np.float32) for _ in range(2))
    m.op("DEQUANTIZE", [x], f)
    kind = "Softmax" if op == "SOFTMAX" else "LogSoftmax"
    m.op(op, [f], g, kind, **{k.lower(): v for k, v in options.items()})
    path = m.save(tmp_path / "m.tflite", [x], [g])
    assert main(["verify", str(path), "-n", "30"]) == 0
    (line,) = [w for w in capsys.readouterr().out.splitlines() if "end to end" in w]
    if "by at most" in line:
        assert float(line.split("by at most ")[1].split()[0]) <= 1.01


def test_softmax_in_float_between(tmp_path):
    """Behind it, nobody says how finely its values are looked at."""
    m = TfliteModel()
    x, y = (m.activation((1, 12), 0.1, 0) for _ in range(2))
    f, g, h = (m.activation((1, 12), dtype=np.float32) for _ in range(3))
    m.op("DEQUANTIZE", [x], f)
    m.op("SOFTMAX", [f], g, "Softmax", beta=1.0)
    m.op("EXP", [g], h)
    m.op("QUANTIZE", [h], y)
    with pytest.raises(UserError, match="in float in the middle"):
        frontends.load(m.save(tmp_path / "m.tflite", [x], [y]))
