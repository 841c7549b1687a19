# SPDX-License-Identifier: Apache-2.0
"""What decoders of the Llama family are made of, from the float file to the device: normalisation
by the root of the mean square, SwiGLU, grouped queries, rotary embeddings."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel
from onnx import TensorProto
from vmcu_tools.cli import main
from vmcu_tools.frontends import load
from vmcu_tools.ops.rms_norm import RmsNorm

FLOAT = TensorProto.FLOAT
WIDTH, TOKENS, HEADS, KEY_HEADS, DEPTH = 16, 6, 4, 2, 4
Build = Callable[[OnnxModel], str]


def real(m: OnnxModel, *shape: int) -> str:
    return m.constant(m.rng.normal(size=shape).astype(np.float32))


def number(m: OnnxModel, value: float) -> str:
    return m.constant(np.float32(value))


def ints(m: OnnxModel, *values: int) -> str:
    return m.constant(np.array(values))


def dense(m: OnnxModel, x: str, inputs: int, outputs: int) -> str:
    return m.node("MatMul", [x, real(m, inputs, outputs)])


def rms_norm(form: str) -> Build:
    """x / sqrt(mean(x * x) + epsilon) * gain in the words of exporters and people."""

    def build(m: OnnxModel) -> str:
        square = m.node("Pow", ["x", number(m, 2)])
        if "product" in form:
            square = m.node("Mul", ["x", "x"])
        if m.opset < 18:
            mean = m.node("ReduceMean", [square], axes=[-1])
        else:
            mean = m.node("ReduceMean", [square, ints(m, -1)])
        total = m.node("Add", [mean, number(m, 1e-5)])
        if "power" in form:
            y = m.node("Mul", ["x", m.node("Pow", [total, number(m, -0.5)])])
        elif "reciprocal" in form:
            y = m.node("Mul", ["x", m.node("Reciprocal", [m.node("Sqrt", [total])])])
        elif "quotient" in form:
            inverse = m.node("Div", [number(m, 1), m.node("Sqrt", [total])])
            y = m.node("Mul", [inverse, "x"])
        else:
            y = m.node("Div", ["x", m.node("Sqrt", [total])])
        gain = real(m, WIDTH)
        return m.node("Mul", [gain, y] if "gain first" in form else [y, gain])

    return build


def rms_operator(m: OnnxModel) -> str:
    return m.node("RMSNormalization", ["x", real(m, WIDTH)], axis=-1, epsilon=1e-5)


def silu(m: OnnxModel, x: str) -> str:
    return m.node("Swish", [x]) if m.opset >= 24 else m.node("Mul", [x, m.node("Sigmoid", [x])])


def swiglu(m: OnnxModel) -> str:
    gate, up = dense(m, "x", WIDTH, 24), dense(m, "x", WIDTH, 24)
    return dense(m, m.node("Mul", [silu(m, gate), up]), 24, WIDTH)


def rotated(m: OnnxModel, x: str) -> str:
    """x * cos + rotate_half(x) * sin of constant positions."""
    angles = np.arange(TOKENS)[:, None] * 10000.0 ** (-np.arange(0, DEPTH, 2) / DEPTH)
    angles = np.concatenate([angles, angles], axis=1)
    cos, sin = (m.constant(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
    low, high = (
        m.node("Slice", [x, *(ints(m, n) for n in (start, start + DEPTH // 2, -1))])
        for start in (0, DEPTH // 2)
    )
    half = m.node("Concat", [m.node("Neg", [high]), low], axis=-1)
    return m.node("Add", [m.node("Mul", [x, cos]), m.node("Mul", [half, sin])])


def heads(m: OnnxModel, count: int) -> str:
    shape = ints(m, 1, TOKENS, count, DEPTH)
    y = m.node("Reshape", [dense(m, "x", WIDTH, count * DEPTH), shape])
    return m.node("Transpose", [y], perm=[0, 2, 1, 3])


def repeated(m: OnnxModel, x: str) -> str:
    """Each key head for all of its query heads, as transformers' repeat_kv()."""
    shape = KEY_HEADS, HEADS // KEY_HEADS, TOKENS, DEPTH
    y = m.node("Expand", [m.node("Unsqueeze", [x, ints(m, 2)]), ints(m, 1, *shape)])
    return m.node("Reshape", [y, ints(m, 1, HEADS, TOKENS, DEPTH)])


def attention(repeat: bool, rotary: bool) -> Build:
    """Of grouped queries, causal; without `repeat`, the keys broadcast over the queries."""

    def build(m: OnnxModel) -> str:
        query, key, value = heads(m, HEADS), heads(m, KEY_HEADS), heads(m, KEY_HEADS)
        if rotary:
            query, key = rotated(m, query), rotated(m, key)
        if repeat:
            key, value, turn = repeated(m, key), repeated(m, value), [0, 1, 3, 2]
        else:
            query = m.node("Reshape", [query, ints(m, KEY_HEADS, -1, TOKENS, DEPTH)])
            shape, turn = ints(m, KEY_HEADS, 1, TOKENS, DEPTH), [0, 1, 3, 2]
            key, value = (m.node("Reshape", [one, shape]) for one in (key, value))
        scores = m.node("MatMul", [query, m.node("Transpose", [key], perm=turn)])
        mask = np.triu(np.full((TOKENS, TOKENS), -np.inf, np.float32), 1)
        scores = m.node("Add", [m.node("Mul", [scores, number(m, 0.5)]), m.constant(mask)])
        seen = m.node("MatMul", [m.node("Softmax", [scores], axis=-1), value])
        seen = m.node("Reshape", [seen, ints(m, 1, HEADS, TOKENS, DEPTH)])
        seen = m.node("Transpose", [seen], perm=[0, 2, 1, 3])
        joined = m.node("Reshape", [seen, ints(m, 1, TOKENS, HEADS * DEPTH)])
        return dense(m, joined, HEADS * DEPTH, WIDTH)

    return build


FORMS = ("division", "product, gain first", "power", "reciprocal", "quotient", "gain first")
CASES: dict[str, tuple[int, Build]] = {
    **{f"rms norm: {form}": (17, rms_norm(form)) for form in FORMS},
    "rms norm: opset 18": (18, rms_norm("division")),
    "rms norm: operator": (23, rms_operator),
    "swiglu": (17, swiglu),
    "swiglu: operator": (24, swiglu),
    "grouped queries, repeated": (17, attention(repeat=True, rotary=False)),
    "grouped queries, broadcast": (17, attention(repeat=False, rotary=False)),
    "rotary": (17, attention(repeat=True, rotary=True)),
    "rotary, broadcast": (17, attention(repeat=False, rotary=True)),
}


def quantised(folder: Path, m: OnnxModel, y: str) -> Path:
    path, data, result = (folder / name for name in ("f.onnx", "data.npz", "int8.onnx"))
    onnx.save(m.proto({"x": (FLOAT, (1, TOKENS, WIDTH))}, {y: (FLOAT, None)}), path)
    x = np.random.default_rng(3).normal(size=(16, TOKENS, WIDTH)).astype(np.float32)
    np.savez(data, x=x)
    words = ["quantize", str(path), "--calibration", str(data), "-o", str(result)]
    assert main(words) == 0
    return result


@pytest.mark.parametrize("case", CASES)
def test_from_float_to_the_device(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Right in every byte, and near the float model."""
    opset, build = CASES[case]
    m = OnnxModel(opset=opset)
    path = quantised(tmp_path, m, build(m))
    lost = re.search(
        r"signal-to-noise ratio of \d+ tensors is ([\d.]+) dB", capsys.readouterr().out
    )
    assert lost is not None and float(lost[1]) > 20
    assert main(["build", str(path), "-o", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(["verify", str(path), "-n", "20"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"0 of [\d,]+ values differ", said)
    norms = [node for node in load(path).nodes if isinstance(node.op, RmsNorm)]
    assert len(norms) == case.startswith("rms")


def test_position_and_mask_are_fields_of_a_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each call takes a token, its position and a mask that grows; the header says where."""
    m = OnnxModel(opset=17)
    angles = m.node("Gather", [real(m, 20, DEPTH), "position"])
    word = m.node("Gather", [real(m, 30, DEPTH), "token"])
    key = m.node("Reshape", [m.node("Mul", [word, angles]), ints(m, 1, 1, 1, DEPTH)])
    every = m.node("Concat", ["past_key", key], axis=2)
    m.node("Slice", [every, *(ints(m, n) for n in (1, 99, 2))])
    m.nodes[-1].output[0] = "present_key"
    y = m.node("MatMul", [key, m.node("Transpose", [every], perm=[0, 1, 3, 2])])
    y = m.node("Add", [y, "mask"])
    ids = TensorProto.INT64, (1, 1)
    inputs = {"token": ids, "position": ids, "mask": (FLOAT, (1, 8))}
    inputs["past_key"] = FLOAT, (1, 1, 7, DEPTH)
    path, data, result = (tmp_path / name for name in ("f.onnx", "data.npz", "int8.onnx"))
    onnx.save(m.proto(inputs, dict.fromkeys((y, "present_key"), (FLOAT, None))), path)
    past = m.rng.normal(size=(16, 1, 7, DEPTH)).astype(np.float32)
    count = np.arange(16).reshape(16, 1)
    mask = np.where(np.arange(8) < 8 - count, -8, 0).astype(np.float32)
    np.savez(data, token=count, position=count, past_key=past, mask=mask)
    assert main(["quantize", str(path), "--calibration", str(data), "-o", str(result)]) == 0
    assert main(["build", str(result), "-o", str(tmp_path)]) == 0
    header = (tmp_path / "int8.h").read_text()
    firsts = re.findall(r"FIELD(\d)_FIRST (\d+)", header)
    assert firsts == [("0", "0"), ("1", "4"), ("2", "8")] and "position, int32" in header
    capsys.readouterr()
    assert main(["verify", str(result), "--hop", "1", "-n", "100"]) == 0
    assert "0 of 100 hops differ from the file's own runtime" in capsys.readouterr().out
