# SPDX-License-Identifier: Apache-2.0
"""Masks of softmax in float models, through calibration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel
from test_preparation import FLOAT, LEAST, SEQUENCE, Steps, masked_softmax, scalar, signal_to_noise
from vmcu_tools.cli import main
from vmcu_tools.errors import UserError
from vmcu_tools.frontends import load
from vmcu_tools.quantize import calibration
from vmcu_tools.quantize.preparation import _limit_masks


@pytest.mark.parametrize(
    ("steps", "least"),
    [
        (masked_softmax("Add"), -16.0),
        (masked_softmax("Add", -1e4), -16.0),
        (masked_softmax("Add", late=4), -40.0),
        (masked_softmax("Where", -1e9), -11.0),
    ],
)
def test_masked_scores_are_far_below_all_others(steps: Steps, least: float) -> None:
    """By a factor of e to the power of 8 behind the softmax: a masked element has no weight."""
    m = OnnxModel(3)
    y = steps(m, "x")
    model = m.proto({"x": (FLOAT, SEQUENCE)}, {y: (FLOAT, None)})
    _limit_masks(model, lambda _, names: dict.fromkeys(names, (-3.0, 5.0)))
    masks = [onnx.numpy_helper.to_array(t) for t in model.graph.initializer if "/mask" in t.name]
    assert min(float(mask.min()) for mask in masks) == least


@pytest.mark.parametrize("scale", [np.inf, np.nan])
def test_a_file_whose_mask_is_lost(scale: float, tmp_path: Path) -> None:
    """onnxruntime gives a mask of minus infinity a scale of infinity, and 0 as all of its bytes."""
    m = OnnxModel(3)
    zeros = m.constant(np.zeros((7, 7), np.int8))
    mask = m.node("DequantizeLinear", [zeros, scalar(m, scale), m.constant(np.int8(0))])
    scores = m.node("Add", [m.qdq("x", m.stated(0.1, 4)), mask])
    y = m.qdq(m.node("Softmax", [m.qdq(scores, m.stated(0.1, 4))]), m.stated(1 / 256, -128))
    onnx.save(m.proto({"x": (FLOAT, (1, 7, 7))}, {y: (FLOAT, None)}), tmp_path / "m.onnx")
    with pytest.raises(UserError, match=r"mask of minus infinity\. hint: .*`vmcu quantize`"):
        load(tmp_path / "m.onnx")


def inverted(m: OnnxModel, mask: str) -> str:
    """As exporters of language models write it: 1 is a token, 0 is padding."""
    kept = m.node("Unsqueeze", [mask, m.constant(np.array([1]))])
    kept = m.node("Cast", [kept], to=FLOAT)
    return m.node("Mul", [m.node("Sub", [scalar(m, 1), kept]), scalar(m, -1e4)])


def expanded(m: OnnxModel, mask: str) -> str:
    kept = m.node("Unsqueeze", [mask, m.constant(np.array([1]))])
    is_token = m.node("Greater", [kept, scalar(m, 0.5)])
    away = m.node("Where", [is_token, scalar(m, 0), scalar(m, -65504)])
    return m.node("Expand", [away, m.constant(np.array(SEQUENCE[:2] + SEQUENCE[1:2]))])


def causal_too(m: OnnxModel, mask: str) -> str:
    later = np.triu(np.full((7, 7), -1e4, np.float32), 1)
    return m.node("Add", [inverted(m, mask), m.constant(later)])


@pytest.mark.parametrize("bounds", [(-30.0, 30.0), (-30.0, -1.0), (-5000.0, 1.0)])
def test_values_that_are_no_mask(bounds: tuple[float, float]) -> None:
    """Of an input that is added to the scores: its rows may be far below zero as a whole."""
    m = OnnxModel(3)
    y = m.node("Softmax", [m.node("Add", [m.node("MatMul", ["x", "x"]), "offset"])])
    model = m.proto({"x": (FLOAT, (7, 7)), "offset": (FLOAT, (7, 7))}, {y: (FLOAT, None)})
    _limit_masks(model, lambda _, names: {n: bounds if n == "offset" else (-3, 5) for n in names})
    assert "Clip" not in {node.op_type for node in model.graph.node}


@pytest.mark.parametrize("form", [inverted, expanded, causal_too, "given"])
def test_a_mask_that_is_computed(form: Any, tmp_path: Path) -> None:
    """Of an input: quantised with its numbers, int8 has one value for all scores."""
    m = OnnxModel(3)
    w = m.constant((m.rng.normal(size=(12, 12)) * 0.3).astype(np.float32))
    x = m.node("MatMul", ["x", w])
    scores = m.node("MatMul", [x, m.node("Transpose", [x], perm=[0, 2, 1])])
    mask = "mask" if form == "given" else form(m, "mask")
    y = m.node("Softmax", [m.node("Add", [scores, mask])], axis=-1)
    count = SEQUENCE[1]
    shape = (1, 1, count) if form == "given" else (1, count)
    model = m.proto({"x": (FLOAT, SEQUENCE), "mask": (FLOAT, shape)}, {y: (FLOAT, None)})
    model.ir_version = 8
    source, target = tmp_path / "float.onnx", tmp_path / "int8.onnx"
    onnx.save(model, source)
    rng, samples = np.random.default_rng(1), []
    for padding in range(6):
        kept = (np.arange(count) < count - padding).astype(np.float32).reshape(shape)
        given = (1 - kept) * np.float32(-1e4) if form == "given" else kept
        samples.append({"x": rng.normal(size=SEQUENCE).astype(np.float32), "mask": given})
    calibration.quantize(source, target, samples)
    assert signal_to_noise(source, target, samples) > LEAST
    assert main(["verify", str(target), "-n", "5"]) == 0
