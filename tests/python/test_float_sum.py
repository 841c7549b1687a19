# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's sums and products of two int8 values, all pairs of bytes at once."""

from __future__ import annotations

import platform
from fractions import Fraction

import numpy as np
import onnx
import pytest
from onnx import helper
from vmcu_tools.frontends import load
from vmcu_tools.machine import reference
from vmcu_tools.quant import FloatSum

onnxruntime = pytest.importorskip("onnxruntime")
CASES = range(40)
SUM_DIFFERS = platform.machine() != "x86_64"
NAMES = ("a_scale", "b_scale", "out_scale")
MICROSOFT = "com.microsoft"
TYPES = {"int8": onnx.TensorProto.INT8, "uint8": onnx.TensorProto.UINT8}


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of bytes, (1, 256, 16, 16) each."""
    info = np.iinfo(dtype)
    values = np.arange(info.min, info.max + 1).astype(dtype)
    a, b = np.meshgrid(values, values, indexing="ij")
    return a.reshape(1, 256, 16, 16), b.reshape(1, 256, 16, 16)


def scales_of(rng: np.random.Generator, product: bool) -> list[np.float32]:
    """Of both operands and the result: any, of two decimals, or such that ties are frequent."""
    kind = rng.integers(0, 3)
    found = [rng.uniform(0.01, 1, 3), np.round(rng.uniform(0.02, 1, 3), 2), rng.integers(1, 5, 3)]
    a, b, out = found[kind] / (1 if kind < 2 else 8)
    return [np.float32(a), np.float32(b), np.float32(out * 100 * a * b if product else out + a)]


def model_of(op: str, dtype: str, qoperator: bool, rng: np.random.Generator) -> onnx.ModelProto:
    info = np.iinfo(dtype)
    scales = scales_of(rng, op == "Mul")
    zeros = [np.array(rng.integers(info.min, info.max + 1), dtype) for _ in range(3)]
    constants = [
        onnx.numpy_helper.from_array(np.float32(s), n) for n, s in zip(NAMES, scales, strict=True)
    ]
    constants += [
        onnx.numpy_helper.from_array(z, f"{n}_zero") for n, z in zip(NAMES, zeros, strict=True)
    ]
    x, y, z = ((name, f"{name}_zero") for name in NAMES)
    if qoperator:
        inputs, element = ("a", "b"), TYPES[dtype]
        operands = ["a", *x, "b", *y, *z]
        nodes = [helper.make_node(f"QLinear{op}", operands, ["out"], "op", domain=MICROSOFT)]
    else:
        inputs, element = ("ra", "rb"), onnx.TensorProto.FLOAT
        nodes = [
            helper.make_node("QuantizeLinear", ["ra", *x], ["a"]),
            helper.make_node("QuantizeLinear", ["rb", *y], ["b"]),
            helper.make_node("DequantizeLinear", ["a", *x], ["fa"]),
            helper.make_node("DequantizeLinear", ["b", *y], ["fb"]),
            helper.make_node(op, ["fa", "fb"], ["fo"], "op"),
            helper.make_node("QuantizeLinear", ["fo", *z], ["q"]),
            helper.make_node("DequantizeLinear", ["q", *z], ["out"]),
        ]
    shape = (1, 256, 16, 16)
    ports = [helper.make_tensor_value_info(n, element, shape) for n in inputs]
    out = helper.make_tensor_value_info("out", element, shape)
    graph = helper.make_graph(nodes, "pairs", ports, [out], constants)
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def expected_of(model: onnx.ModelProto, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """ONNX Runtime's bytes, whether the model takes these or real values."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [port.name for port in session.get_inputs()]
    if names == ["a", "b"]:
        return session.run(None, {"a": a, "b": b})[0].astype(int)
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    scale, zero = [constants[name] for name in NAMES], [constants[f"{name}_zero"] for name in NAMES]
    real = [
        (v.astype(np.float32) - np.float32(z)) * s
        for v, s, z in zip((a, b), scale[:2], zero[:2], strict=True)
    ]
    values = session.run(None, dict(zip(names, real, strict=True)))[0]
    return np.rint(values / scale[2]).astype(int) + int(zero[2])


@pytest.mark.skipif(SUM_DIFFERS, reason="ONNX Runtime adds in another way off x86-64")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("qoperator", [False, True], ids=["qdq", "qoperator"])
@pytest.mark.parametrize("op", ["Add", "Mul"])
def test_every_pair_of_bytes(op: str, qoperator: bool, dtype: str, tmp_path):
    for seed in CASES:
        model = model_of(op, dtype, qoperator, np.random.default_rng(seed))
        path = tmp_path / "model.onnx"
        onnx.save(model, path)
        a, b = pairs(dtype)
        expected = expected_of(model, a, b)
        graph = load(path)
        shift = 128 if dtype == "uint8" else 0
        inputs = [np.moveaxis(v[0].astype(int) - shift, 0, -1).astype(np.int8) for v in (a, b)]
        found = reference.run(graph, inputs)[graph.outputs[0].tensor].astype(int)
        differing = np.count_nonzero(np.moveaxis(found, -1, 0) + shift != expected[0])
        assert differing == 0, f"seed {seed}: {differing} of {expected.size} differ"


def rounded(x: Fraction) -> Fraction:
    """To the nearest float32, ties to even, by rational arithmetic; x is no subnormal."""
    if x == 0:
        return x
    exponent = 0
    while abs(x) * Fraction(2) ** -exponent >= 2**24:
        exponent += 1
    while abs(x) * Fraction(2) ** -exponent < 2**23:
        exponent -= 1
    return round(x * Fraction(2) ** -exponent) * Fraction(2) ** exponent


def test_one_rounding_each():
    """Against exact rational arithmetic, whatever the machine."""
    rng = np.random.default_rng(1)
    for _ in range(60):
        scales = tuple(float(s) for s in 2.0 ** rng.uniform(-10, -3, 3))
        zeros = tuple(int(z) for z in rng.integers(-128, 128, 3))
        total = FloatSum.of(scales, zeros, int(rng.choice([0, 128])))
        for qa, qb in rng.integers(-128, 128, (20, 2)):
            inner = rounded(Fraction(total.b) * (int(qb) + total.offset) + Fraction(total.constant))
            exact = rounded(Fraction(total.a) * (int(qa) + total.offset) + inner)
            assert int(total.apply(qa, qb)) == round(exact) - total.offset
