# SPDX-License-Identifier: Apache-2.0
"""Control flow that is known before it runs, against ONNX Runtime and TensorFlow Lite Micro."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from builders import onnx_branches, tflite_branches
from test_onnx_ops import assert_close
from vmcu_tools.cli import main
from vmcu_tools.frontends.onnx.file import load_proto

CASES, REFUSED = onnx_branches.CASES, onnx_branches.REFUSED


def outputs(model: onnx.ModelProto) -> list[np.ndarray]:
    """As ONNX Runtime computes them without its optimisations, of which one crashes for two Ifs."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    x = np.random.default_rng(0).normal(0, 2, onnx_branches.SHAPE).astype(np.float32)
    return session.run(None, {"x": x})


@pytest.mark.parametrize("batch", [1, "N"])
@pytest.mark.parametrize("case", CASES)
def test_known_branches_are_inlined(tmp_path, case, batch):
    path = tmp_path / "m.onnx"
    model = onnx_branches.model(CASES[case], batch)
    onnx.save(model, path)
    inlined = load_proto(path)
    assert {"If", "Loop"}.isdisjoint(node.op_type for node in inlined.graph.node)
    for ours, theirs in zip(outputs(inlined), outputs(model), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert_close(path)


@pytest.mark.parametrize("case", REFUSED)
def test_unknown_branches_are_refused(tmp_path, capsys, case):
    path = tmp_path / "m.onnx"
    onnx.save(onnx_branches.model(REFUSED[case]), path)
    assert main(["build", str(path)]) == 1
    error = capsys.readouterr().err
    said = "(If): the condition is not constant." if case == "of input" else "(Loop): control flow"
    assert said in error and "hint: export the model without control flow" in error


@pytest.mark.parametrize("case", tflite_branches.CASES)
def test_known_branches_of_tflite_are_inlined(tmp_path, capsys, case):
    m, inputs, ends = tflite_branches.build(tflite_branches.CASES[case])
    path = m.save(tmp_path / "m.tflite", inputs, ends)
    assert main(["verify", str(path), "-n", "4"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("case", tflite_branches.REFUSED)
def test_unknown_branches_of_tflite_are_refused(tmp_path, capsys, case):
    build, said = tflite_branches.REFUSED[case]
    m, inputs, ends = tflite_branches.build(build)
    path = m.save(tmp_path / "m.tflite", inputs, ends)
    assert main(["build", str(path)]) == 1
    error = capsys.readouterr().err
    assert said in error and "hint: " in error


def test_weights_of_branches_may_be_in_another_file(tmp_path):
    path = tmp_path / "m.onnx"
    model = onnx_branches.model(CASES["nested"])
    expected = outputs(model)
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    np.testing.assert_array_equal(outputs(load_proto(path)), expected)


def test_float_files_are_quantised(tmp_path, capsys):
    path, data, made = (tmp_path / name for name in ("m.onnx", "data.npz", "int8.onnx"))
    onnx.save(onnx_branches.float_model(), path)
    shape = (40, *onnx_branches.SHAPE[1:])
    np.savez(data, x=np.random.default_rng(1).normal(size=shape).astype(np.float32))
    given = [str(path), "--calibration", str(data), "--min-agreement", "90"]
    assert main(["quantize", *given, "-o", str(made)]) == 0, capsys.readouterr().err
    assert main(["verify", str(made), "-n", "2"]) == 0


def test_float_files_of_tflite_are_quantised(tmp_path, capsys):
    path, data, made = (tmp_path / name for name in ("m.tflite", "data.npz", "int8.onnx"))
    m, inputs, ends = tflite_branches.float_model()
    m.save(path, inputs, ends)
    x = np.random.default_rng(1).normal(size=(40, *tflite_branches.SHAPE[1:])).astype(np.float32)
    np.savez(data, t0=x)
    assert main(["quantize", str(path), "--calibration", str(data), "-o", str(made)]) == 0
    (y,) = onnxruntime.InferenceSession(made).run(None, {"t0": x[:1]})
    np.testing.assert_allclose(y, 3 * x[:1], atol=0.2)
