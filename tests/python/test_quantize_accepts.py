# SPDX-License-Identifier: Apache-2.0
"""`vmcu quantize` exits 0 only for what `vmcu build` takes, and else says why in one message."""

from __future__ import annotations

import importlib
import io
import subprocess
import sys
import zipfile
from collections import Counter

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel
from onnx import TensorProto
from vmcu_tools.cli import main

from scripts import ROOT

FLOAT = TensorProto.FLOAT


def written(tmp_path, m: OnnxModel, outputs, shape=(1, 4, 6, 6), kind=FLOAT):
    """A float model, and samples for it."""
    path, data = tmp_path / "float.onnx", tmp_path / "data.npz"
    onnx.save(m.proto({"x": (kind, shape)}, dict.fromkeys(outputs, (FLOAT, None))), path)
    np.savez(data, x=np.random.default_rng(3).normal(size=(6, *shape[1:])).astype(np.float32))
    return path, data


def quantize(tmp_path, path, data) -> int:
    words = ["quantize", str(path), "--calibration", str(data), "-o", str(tmp_path / "int8.onnx")]
    return main(words)


def real(m: OnnxModel, *shape: int) -> str:
    return m.constant(m.rng.normal(size=shape).astype(np.float32))


def gelu(m: OnnxModel, x: str) -> str:
    root = m.node("Erf", [m.node("Div", [x, m.constant(np.float32(1.4142135))])])
    half = m.node("Mul", [x, m.node("Add", [root, m.constant(np.float32(1))])])
    return m.node("Mul", [half, m.constant(np.float32(0.5))])


def relu_before_gelu(m: OnnxModel) -> str:
    return gelu(m, m.node("Relu", ["x"]))


def clip_before_gelu(m: OnnxModel) -> str:
    bounds = [m.constant(np.float32(v)) for v in (-0.33, 0.77)]
    return gelu(m, m.node("Clip", ["x", *bounds]))


def constants_among_activations(m: OnnxModel) -> str:
    y = m.node("Conv", ["x", real(m, 3, 4, 1, 1)])
    z = m.node("Relu", ["x"])
    return m.node("Concat", [y, real(m, 1, 2, 6, 6), z, real(m, 1, 1, 6, 6)], axis=1)


def constant_is_larger(m: OnnxModel) -> str:
    return m.node("Sub", [m.node("Unsqueeze", ["x", m.constant(np.array([-1]))]), real(m, 5)])


def gru(m: OnnxModel) -> str:
    x = m.node("Reshape", ["x", m.constant(np.array([6, 1, 24]))])
    return m.node("GRU", [x, real(m, 1, 9, 24), real(m, 1, 9, 3)], hidden_size=3)


@pytest.mark.parametrize(
    "build",
    [relu_before_gelu, clip_before_gelu, constants_among_activations, constant_is_larger, gru],
)
def test_what_it_writes_is_built_and_right(tmp_path, build):
    m = OnnxModel(opset=17)
    path, data = written(tmp_path, m, [build(m)])
    assert quantize(tmp_path, path, data) == 0
    assert main(["build", str(tmp_path / "int8.onnx"), "-o", str(tmp_path)]) == 0
    assert main(["verify", str(tmp_path / "int8.onnx"), "-n", "3"]) == 0


def ungated(m: OnnxModel) -> str:
    """Without weights for all of its gates."""
    x = m.node("Reshape", ["x", m.constant(np.array([6, 1, 24]))])
    return m.node("GRU", [x, real(m, 1, 6, 24), real(m, 1, 9, 3)], hidden_size=3)


def classifier(m: OnnxModel) -> str:
    return m.node("SVMClassifier", ["x"], domain="ai.onnx.ml")


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (ungated, "(GRU): its weights do not have the shapes of its gates"),
        (classifier, "SVMClassifier): this operation is not supported"),
        (lambda m: m.node("Einsum", ["x"], equation="bchh->bch"), "Einsum"),
        # Zero divided by zero.
        (lambda m: m.node("Div", [m.node("Relu", ["x"]), "x"]), "not a number"),
        (lambda m: m.node("LpNormalization", ["x"], p=1), "norm of order 1"),
    ],
)
def test_what_is_refused(tmp_path, capsys, build, said):
    """At once, without a hint to do what has been done, and without a file."""
    m = OnnxModel(opset=17)
    path, data = written(tmp_path, m, [build(m)])
    assert quantize(tmp_path, path, data) == 1
    problem = capsys.readouterr().err
    assert said in problem and str(path) in problem
    assert "vmcu quantize`" not in problem and not (tmp_path / "int8.onnx").exists()


@pytest.mark.parametrize("build", [classifier])
def test_a_float_model_that_cannot_be_quantised_is_not_told_to_be(tmp_path, capsys, build):
    m = OnnxModel(opset=17)
    path, _ = written(tmp_path, m, [build(m)])
    assert main(["build", str(path), "-o", str(tmp_path)]) == 1
    problem = capsys.readouterr().err
    assert "not supported" in problem and "quantize" not in problem


def test_a_model_that_quantize_takes_apart_is_told_to_be_quantised(tmp_path, capsys):
    m = OnnxModel(opset=17)
    path, data = written(tmp_path, m, [m.node("Sum", ["x", m.node("Relu", ["x"]), "x"])])
    assert main(["build", str(path), "-o", str(tmp_path)]) == 1
    assert "vmcu quantize" in capsys.readouterr().err
    assert quantize(tmp_path, path, data) == 0


@pytest.mark.parametrize("command", ["quantize", "build"])
def test_token_ids(tmp_path, capsys, command):
    """They are numbers of rows of one table: nothing else can be done with them."""
    m = OnnxModel(opset=17)
    y = m.node("MatMul", [m.node("Cast", ["x"], to=FLOAT), real(m, 4, 3)])
    path, data = written(tmp_path, m, [y], (5, 4), TensorProto.INT64)
    words = ["--calibration", str(data), "-o", str(tmp_path / "int8.onnx")]
    words = words if command == "quantize" else ["-o", str(tmp_path)]
    assert main([command, str(path), *words]) == 1
    problem = capsys.readouterr().err
    assert (
        "x: the input is int64, not float32" in problem
        and "pick rows of a constant table" in problem
    )
    assert "onnxruntime" not in problem


def test_an_input_without_a_reader(tmp_path, capsys):
    """PyTorch makes one input of a tensor that an export is given twice."""
    m = OnnxModel(opset=17)
    y = m.node("MatMul", ["x", real(m, 4, 3)])
    more = {"x": (FLOAT, (1, 4)), "ids": (TensorProto.INT64, (1, 1))}
    path = tmp_path / "float.onnx"
    onnx.save(m.proto(more, {y: (FLOAT, (1, 3))}), path)
    assert main(["quantize", str(path), "-o", str(tmp_path / "int8.onnx")]) == 1
    assert "ids: no node reads the input. hint: give each input" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["quantize", "build"])
@pytest.mark.parametrize("domain", ["qonnx.custom_op.general", "onnx.brevitas"])
def test_quantised_by_qonnx(tmp_path, capsys, command, domain):
    """One message for all of its operators, which says how to convert the file."""
    m = OnnxModel(opset=13)
    stated = [m.constant(np.float32(v)) for v in (0.1, 0, 8)]
    x = m.node("Quant", ["x", *stated], domain, signed=1, narrow=0)
    y = m.node("Quant", [m.node("Relu", [x]), *stated], domain, signed=0, narrow=0)
    path, data = written(tmp_path, m, [y])
    words = ["--calibration", str(data), "-o", str(tmp_path / "int8.onnx")]
    words = words if command == "quantize" else ["-o", str(tmp_path)]
    assert main([command, str(path), *words]) == 1
    said, hint = capsys.readouterr().err.split(" hint: ")
    assert "quantised with operators of QONNX" in said and "qonnx-convert" in hint


def test_float16_weights_that_are_cast_first(tmp_path):
    m = OnnxModel(opset=17)
    weights = m.constant(m.rng.normal(size=(6, 5)).astype(np.float16))
    y = m.node("MatMul", ["x", m.node("Cast", [weights], to=FLOAT)])
    assert quantize(tmp_path, *written(tmp_path, m, [y])) == 0


def test_a_model_without_outputs(tmp_path, capsys):
    m = OnnxModel(opset=17)
    m.node("Relu", ["x"])
    path, data = written(tmp_path, m, [])
    assert quantize(tmp_path, path, data) == 1
    assert "the model has no outputs" in capsys.readouterr().err


def bomb(path, declared: int) -> None:
    """An archive of a few kilobytes whose array is so many bytes of zeros."""
    header = io.BytesIO()
    shape = (declared // 4, 1, 1, 1)
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": shape}
    )
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        for _ in range(declared >> 20):
            member.write(bytes(1 << 20))


def test_samples_that_unpack_to_gigabytes(tmp_path, capsys, monkeypatch):
    """Refused before any of them is unpacked; arrays that no input is named after do not count."""
    m = OnnxModel(opset=17)
    path, data = written(tmp_path, m, [m.node("Relu", ["x"])])
    bomb(data, 1 << 30)
    with monkeypatch.context() as never:
        never.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("unpacked"))
        assert quantize(tmp_path, path, data) == 1
    assert "unpack to 1,073,741,9" in capsys.readouterr().err
    assert data.stat().st_size < 1 << 22
    with zipfile.ZipFile(data, "a") as archive:
        archive.writestr("y.npy", b"")
    assert quantize(tmp_path, path, data) == 1


def test_samples_whose_header_declares_too_much(tmp_path, capsys):
    m = OnnxModel(opset=17)
    path, data = written(tmp_path, m, [m.node("Relu", ["x"])])
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 4, 6, 6)}
    )
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    assert quantize(tmp_path, path, data) == 1
    assert "not an .npz file of numbers" in capsys.readouterr().err


def test_libraries_are_quiet(tmp_path):
    """Logarithms of negative samples make numpy warn, and unused initialisers onnxruntime."""
    m = OnnxModel(opset=17)
    y = m.node("Reshape", [m.node("Log", ["x"]), m.node("Shape", ["x"])])
    path, data = written(tmp_path, m, [y])
    words = ["quantize", str(path), "--calibration", str(data), "-o", str(tmp_path / "q.onnx")]
    done = subprocess.run(
        [sys.executable, "-m", "vmcu_tools", *words, "--quiet"], capture_output=True, text=True
    )
    assert "Warning" not in done.stderr and "[W:" not in done.stderr
    lines = done.stderr.splitlines()
    assert all(line.startswith(("error: ", str(path))) for line in lines), lines


@pytest.mark.parametrize("error", [RuntimeError("one\ntwo"), ValueError(), KeyError("x")])
def test_an_exception_of_onnxruntime_in_verify(tmp_path, capsys, monkeypatch, error):
    """Whatever it raises while it runs is one message of one line."""
    m = OnnxModel()
    y = m.qdq(m.node("Sigmoid", [m.qdq("x", m.stated(0.1))]), m.stated(0.1))
    path, _ = written(tmp_path, m, [y])

    def fails(*_):
        raise error

    monkeypatch.setattr("onnxruntime.InferenceSession.run", fails)
    assert main(["verify", str(path), "-n", "2"]) == 1
    said, hint = capsys.readouterr().err.split(" hint: ")
    assert "ONNX Runtime fails to run the model: " in said and str(path) in said
    assert "not verified" in hint


def test_random_float_networks(tmp_path, monkeypatch):
    """Some of tests/fuzz/quantized.py; none of these has a softmax along the batch."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "tests" / "fuzz"), *sys.path])
    outcome = importlib.import_module("quantized").outcome
    found = Counter(outcome(seed, tmp_path) for seed in range(5000, 5024))
    assert found["right"] > 10 and found["refused"] > 0
