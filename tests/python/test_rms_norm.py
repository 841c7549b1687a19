# SPDX-License-Identifier: Apache-2.0
"""Root mean squares, where the roundings of float32 decide: beside ONNX Runtime and in C."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel
from onnx import TensorProto
from random_builder import Builder
from random_graphs import disjoint
from test_kernels_c import expect_reference, laid_out
from vmcu_bench import oracle
from vmcu_tools.errors import UserError
from vmcu_tools.frontends.onnx.importer import load
from vmcu_tools.ops import bind
from vmcu_tools.ops.rms_norm import MOST_CHANNELS, RmsNorm, fits
from vmcu_tools.quantize.calibration import quantize

# Channels, epsilon, scale of the output.
FORMS = ((3, 0.37, 0.02), (16, 1e-7, 0.031), (48, 5.0, 0.02), (256, 300.0, 0.011))
ZERO = -11


def hard(values: np.ndarray, epsilon: float, scale: float, rng: np.random.Generator) -> np.ndarray:
    """float32 (C,): gains that bring each of a pixel's values (C,) to half a step, as near as
    float32 comes to it, so that each rounding decides."""
    values = values.astype(np.float32)
    root = np.sqrt((values * values).mean() + np.float32(epsilon))
    halves = rng.integers(-100, 100, values.shape) + 0.5
    normal = np.where(values == 0, 1, values / root)
    return (halves * scale / normal).astype(np.float32)


def file_of(
    folder: Path, gain: np.ndarray, epsilon: float, scale: float, read: float = 1.0
) -> Path:
    """The norm's single operators, of integers times `read`."""
    m = OnnxModel(0, np.uint8)
    written = m.stated(0.05, ZERO + 128)
    given = m.node("QuantizeLinear", ["x", *written])
    x = m.node("DequantizeLinear", [given, m.constant(np.float32(read)), written[1]])
    mean = m.node("ReduceMean", [m.node("Mul", [x, x])], axes=[-1])
    root = m.node("Sqrt", [m.node("Add", [mean, m.constant(np.float32(epsilon * read * read))])])
    y = m.node("Mul", [m.node("Div", [x, root]), m.constant(gain)])
    out = m.qdq(y, m.stated(scale, 101))
    shape = TensorProto.FLOAT, (1, gain.size)
    path = folder / "norm.onnx"
    model = m.proto({"x": shape}, {out: shape})
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_float32_decides(form: tuple[int, float, float], tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(1)
    for _ in range(20):
        pixel = rng.integers(-128, 128, form[0]).astype(np.int8)
        gain = hard(pixel.astype(int) - ZERO, *form[1:], rng)
        judge = oracle.open(file_of(tmp_path, gain, *form[1:]))
        (node,) = judge.graph.nodes
        assert isinstance(node.op, RmsNorm)
        image = pixel.reshape(judge.graph.tensors[node.inputs[0]].shape)
        wanted = bind(judge.graph, node).rows([image], 0, len(image))
        np.testing.assert_array_equal(judge.run([image])[node.outputs[0]], wanted)


@pytest.mark.parametrize("target", ["host:sanitize", "qemu:m0", "qemu:m55"])
def test_c_decides_alike(target: str) -> None:
    b = Builder(np.random.default_rng(2))
    pixels, names = [], []
    # Of small values, a quotient has few bits behind the 24 that stay.
    for form, count, most in (*((form, 12, 128) for form in FORMS), ((16, 0.37, 0.02), 200, 7)):
        for _ in range(count):
            x = b.input((1, 1, form[0]))
            given = b.rng.integers(-most, most, x.shape) + x.zero_point * (most < 128)
            pixels.append(given.clip(-128, 127).astype(np.int8))
            values = pixels[-1].ravel().astype(int) - x.zero_point
            out = b.node(RmsNorm(hard(values, *form[1:], b.rng), form[1]), [x], x.shape)
            b.tensors[out.name] = replace(out, scale=form[2])
            names.append(out.name)
    expect_reference(disjoint(laid_out(b.graph(names), target)), target, [pixels])


def test_a_scale_that_is_no_power_of_two(tmp_path: Path) -> None:
    """The sum of what is rounded depends on its order."""
    kinds = [
        type(load(file_of(tmp_path, np.ones(16, np.float32), 1.0, 0.02, read)).nodes[0].op).__name__
        for read in (0.25, 0.3, 2.0)
    ]
    assert kinds == ["RmsNorm", "LayerNorm", "RmsNorm"]


@pytest.mark.parametrize(
    ("channels", "epsilon", "scale"), [(4, 0.0, 1.0), (4, 2.0**31, 1.0), (4, 1.0, 2.0**31)]
)
def test_what_float32_is_not_asked_for(channels: int, epsilon: float, scale: float) -> None:
    """Factors at the ends of float32."""
    gain = np.ones(channels, np.float32)
    assert fits(channels, gain, 1.0, 1.0)
    assert not fits(channels, gain, epsilon, scale)
    assert not fits(MOST_CHANNELS + 1, np.ones(MOST_CHANNELS + 1, np.float32), 1.0, 1.0)


@pytest.mark.parametrize("epsilon", [None, 0.5])
def test_quantised_norms_keep_their_epsilon(epsilon: float | None, tmp_path: Path) -> None:
    """Of values whose mean square is near it; the quantised file's norm is near that in float."""
    pytest.importorskip("onnxruntime")
    m = OnnxModel(1, opset=23)
    more = {} if epsilon is None else {"epsilon": epsilon}
    y = m.node("RMSNormalization", ["x", m.constant(np.ones(8, np.float32))], axis=-1, **more)
    shape = TensorProto.FLOAT, (1, 8)
    onnx.save(m.proto({"x": shape}, {y: shape}), tmp_path / "float.onnx")
    size = 0.003 if epsilon is None else 0.7
    x = size * m.rng.normal(size=(20, 1, 8)).astype(np.float32)
    quantize(tmp_path / "float.onnx", tmp_path / "int8.onnx", [{"x": one} for one in x])
    op = load(tmp_path / "int8.onnx").nodes[0].op
    assert isinstance(op, RmsNorm)
    runs = [computed(tmp_path / name, x[0]) for name in ("float.onnx", "int8.onnx")]
    np.testing.assert_allclose(runs[1], runs[0], atol=0.05)


def computed(path: Path, x: np.ndarray) -> np.ndarray:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def test_a_scale_matters_to_others(tmp_path: Path) -> None:
    path = file_of(tmp_path, np.ones(16, np.float32), 1.0, 0.02)
    model = onnx.load(path)
    source = next(n for n in model.graph.node if n.op_type == "DequantizeLinear").output[0]
    model.graph.node.append(onnx.helper.make_node("Relu", [source], ["more"]))
    model.graph.output.append(renamed(model.graph.output[0], "more"))
    onnx.save(model, path)
    with pytest.raises(UserError, match="read with another scale"):
        load(path)


def renamed(value: onnx.ValueInfoProto, name: str) -> onnx.ValueInfoProto:
    other = onnx.ValueInfoProto()
    other.CopyFrom(value)
    other.name = name
    return other
