# SPDX-License-Identifier: Apache-2.0
"""What `vmcu quantize` says of a network that int8 hurts, and its exit code."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel
from vmcu_tools.cli import main

FLOAT = onnx.TensorProto.FLOAT


def classifier(tmp_path, outlier: float = 0.0, weight: float = 0.0, width: int = 6):
    """Two layers. outlier: one value among 128,000, which decides on the range of all; weight: of
    the first channel, of an input that is hardly there."""
    m = OnnxModel(2, opset=17)
    first, second = (m.rng.normal(size=s).astype(np.float32) for s in ((256, 12), (12, width)))
    x = m.rng.normal(size=(500, 256)).astype(np.float32)
    if weight:
        first[:, 0] = [weight, *[0] * 255]
        x[:, 0] /= weight
    x[0, 0] += outlier
    hidden = m.node("Tanh", [m.node("MatMul", ["x", m.constant(first / 16)])])
    y = m.node("MatMul", [hidden, m.constant(second)])
    path, data = tmp_path / "float.onnx", tmp_path / "data.npz"
    onnx.save(m.proto({"x": (FLOAT, (1, 256))}, {y: (FLOAT, (1, width))}), path)
    np.savez(data, x=x)
    return path, data


def quantize(tmp_path, path, data, *words: str):
    target, figures = tmp_path / "int8.onnx", tmp_path / "report.json"
    given = ["--calibration", str(data), "-o", str(target), "--json", str(figures)]
    code = main(["quantize", str(path), *given, *words])
    return code, target, json.loads(figures.read_text())


def test_a_good_one(tmp_path, capsys):
    code, _, report = quantize(tmp_path, *classifier(tmp_path))
    assert code == 0 and report["top1"] > 0.9 and report["snr_db"] > 20 and report["is_classifier"]
    assert not report["trials"] and len(report["losses"]) == 3
    added = [10 ** (-one["after"] / 10) - 10 ** (-one["before"] / 10) for one in report["losses"]]
    assert added == sorted(added, reverse=True)
    said = capsys.readouterr().out
    assert "the most noise comes from" in said and report["losses"][0]["tensor"] in said


def test_an_outlier(tmp_path, capsys):
    """The file is written, and other ranges are measured."""
    path, data = classifier(tmp_path, outlier=2000.0)
    code, target, report = quantize(tmp_path, path, data)
    assert code == 1 and target.exists() and report["top1"] < 0.6
    said = capsys.readouterr().err
    assert "the largest output is the same for only" in said
    (best,) = (one for one in report["trials"] if "percentile" in one["option"])
    assert best["top1"] > report["top1"] and f"({best['top1']:.1%}" in said
    method = ["--calibration-method", "percentile"]
    _, _, again = quantize(tmp_path, path, data, *method, "--min-agreement", "0")
    assert again["top1"] == pytest.approx(best["top1"])
    assert again["snr_db"] == pytest.approx(best["snr_db"])
    assert quantize(tmp_path, path, data, "--min-agreement", "0")[0] == 0


def test_one_scale_for_all_channels(tmp_path, capsys):
    path, data = classifier(tmp_path, weight=1e4)
    code, _, report = quantize(tmp_path, path, data, "--per-tensor")
    assert code == 1
    assert "no --per-tensor (" in capsys.readouterr().err
    assert [one["option"] for one in report["trials"]][-1] == "no --per-tensor"


def test_an_output_that_is_lost(tmp_path, capsys):
    """Without classes, by its signal-to-noise ratio."""
    m = OnnxModel(2, opset=17)
    y = m.node("Mul", ["x", m.constant(np.float32(2))])
    path, data = tmp_path / "float.onnx", tmp_path / "data.npz"
    onnx.save(m.proto({"x": (FLOAT, (1, 3, 80))}, {y: (FLOAT, (1, 3, 80))}), path)
    x = m.rng.normal(size=(500, 3, 80)).astype(np.float32)
    x[0, 0, 0] = 3e3
    np.savez(data, x=x)
    code, _, report = quantize(tmp_path, path, data)
    assert code == 0 and report["snr_db"] > 10
    # The outlier has most of the energy, and percentile cuts it off.
    code, _, report = quantize(tmp_path, path, data, "--calibration-method", "percentile")
    assert code == 1 and report["snr_db"] < 10 and not report["is_classifier"]
    assert "the signal-to-noise ratio of an output is only" in capsys.readouterr().err


def test_int4(tmp_path, capsys):
    """Where weights of 4 bits are too coarse, int8 is offered with what it reaches, and a limit
    that leaves some layers in int8."""
    path, data = classifier(tmp_path, width=200)
    words = ["--weights", "int4", "--min-agreement", "99"]
    code, _, report = quantize(tmp_path, path, data, *words)
    assert code == 1 and [one["option"] for one in report["trials"]] == ["--weights int8"]
    said = capsys.readouterr().err
    assert "--weights int8 (" in said and "--flash SIZE, which keeps int8 in the layers" in said


def test_labels_make_a_classifier(tmp_path):
    """Of any output."""
    m = OnnxModel(2, opset=17)
    path, data = tmp_path / "float.onnx", tmp_path / "data.npz"
    onnx.save(m.proto({"x": (FLOAT, (1, 3, 8))}, {m.node("Relu", ["x"]): (FLOAT, (1, 3, 8))}), path)
    x = m.rng.normal(size=(20, 3, 8)).astype(np.float32)
    for arrays in ({}, {"labels": np.arange(20)}):
        np.savez(data, x=x, **arrays)
        assert quantize(tmp_path, path, data)[2]["is_classifier"] == bool(arrays)
