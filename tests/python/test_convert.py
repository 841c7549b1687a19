# SPDX-License-Identifier: Apache-2.0
"""The C converters of inputs and outputs equal the runtimes' own QuantizeLinear and QUANTIZE."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from builders.onnx_models import OnnxModel, single, unary
from builders.tflite_models import TfliteModel
from onnx import TensorProto
from test_c import C_TESTS, build
from tflite_micro import runtime
from vmcu_tools.cli import main

CHANNELS_FIRST, HALF_AWAY, WIDE = 1, 2, 8
SHAPE = (3, 5, 4)


@dataclass(frozen=True)
class Converted:
    """bytes int8 (H, W, C), and real and unsigned values in the file's order."""

    bytes: np.ndarray
    real: np.ndarray
    unsigned: np.ndarray


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(C_TESTS / "convert_filter.c", tmp_path_factory.mktemp("convert"))


def convert(
    program: Path, values: np.ndarray, scale: float, zero_point: int, flags: int
) -> Converted:
    """values: float32 in the file's order; SHAPE is (H, W, C)."""
    head = struct.pack("<HHHBbf", *SHAPE, flags, zero_point, scale)
    given = head + values.astype("<f4").tobytes()
    out = subprocess.run([program], input=given, capture_output=True, check=True).stdout
    count = int(np.prod(SHAPE))
    assert len(out) == 7 * count
    again = np.frombuffer(out, np.int8, count, 6 * count)
    kept = np.frombuffer(out, np.int8, count)
    np.testing.assert_array_equal(again, kept)
    order = (SHAPE[2], *SHAPE[:2]) if flags & CHANNELS_FIRST else SHAPE
    real = np.frombuffer(out, np.float32, count, count).reshape(order)
    return Converted(
        kept.reshape(SHAPE), real, np.frombuffer(out, np.uint8, count, 5 * count).reshape(order)
    )


def reals(rng: np.random.Generator, scale: float, order: tuple[int, ...]) -> np.ndarray:
    """Values in and beyond the range, a third of them ties."""
    q = rng.integers(-300, 300, order) + rng.choice([0.5, 0.5, rng.uniform(-0.5, 0.5)], order)
    return (q * np.float32(scale)).astype(np.float32)


@pytest.mark.parametrize("scale", [0.25, 0.1, 0.0371])
@pytest.mark.parametrize("first", [True, False])
def test_onnx(program, scale, first):
    rng = np.random.default_rng(3)
    order = (SHAPE[2], *SHAPE[:2]) if first else SHAPE
    values, zero = reals(rng, scale, order), int(rng.integers(-128, 128))
    m = OnnxModel()
    stated = m.stated(scale, zero)
    q = m.node("QuantizeLinear", ["x", *stated])
    y = m.node("DequantizeLinear", [q, *stated])
    kind = TensorProto.FLOAT
    model = m.proto({"x": (kind, order)}, {q: (TensorProto.INT8, None), y: (kind, None)})
    session = onnxruntime.InferenceSession(model.SerializeToString())
    wanted, real = session.run([q, y], {"x": values})
    found = convert(program, values, scale, zero, CHANNELS_FIRST if first else 0)
    expected = np.moveaxis(wanted, 0, -1) if first else wanted
    np.testing.assert_array_equal(found.bytes, expected)
    np.testing.assert_array_equal(found.real, real)
    np.testing.assert_array_equal(found.unsigned, (wanted.astype(np.int16) + 128).astype(np.uint8))


@pytest.mark.parametrize("scale", [0.25, 0.1, 0.0371])
def test_tflite(program, scale):
    rng = np.random.default_rng(4)
    values, zero = reals(rng, scale, SHAPE), int(rng.integers(-128, 128))
    m = TfliteModel()
    x = m.activation((1, *SHAPE), dtype=np.float32)
    q = m.op("QUANTIZE", [x], m.activation((1, *SHAPE), scale, zero))
    y = m.op("DEQUANTIZE", [q], m.activation((1, *SHAPE), dtype=np.float32))
    interpreter = runtime.Interpreter.from_bytes(m.to_bytes([x], [y, q]))
    interpreter.set_input(values[None], 0)
    interpreter.invoke()
    found = convert(program, values, scale, zero, HALF_AWAY)
    np.testing.assert_array_equal(found.bytes, interpreter.get_output(1)[0])
    np.testing.assert_array_equal(found.real, interpreter.get_output(0)[0])


# What no byte stands for, what is just within or beyond the range, and halves of both signs.
EXTREMES = [np.nan, -np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0, -0.0, 1e-40, -1e-40]
HALVES = [sign * (n + 0.5) for n in (0, 1, 2, 63, 126, 127, 128, 254, 255, 256) for sign in (1, -1)]


def filled(scale: float) -> np.ndarray:
    values = np.zeros(int(np.prod(SHAPE)), np.float32)
    given = [*EXTREMES, *(half * scale for half in HALVES)]
    values[: len(given)] = given
    return values.reshape(SHAPE)


@pytest.mark.parametrize("zero", [-128, -3, 127])
def test_extremes_of_onnx(program, zero):
    """NaN too: ONNX Runtime takes its least value on x86."""
    values, m = filled(0.25), OnnxModel()
    q = m.node("QuantizeLinear", ["x", *m.stated(0.25, zero)])
    model = m.proto({"x": (TensorProto.FLOAT, SHAPE)}, {q: (TensorProto.INT8, None)})
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (wanted,) = session.run([q], {"x": values})
    np.testing.assert_array_equal(convert(program, values, 0.25, zero, 0).bytes, wanted)


@pytest.mark.parametrize("zero", [-128, -3, 127])
def test_extremes_of_tflite(program, zero):
    """Where Micro's result is defined: what leaves int32 and NaN become the nearest byte and the
    least one, as vmcu/convert.h says."""
    values, m = filled(0.25), TfliteModel()
    x = m.activation((1, *SHAPE), dtype=np.float32)
    q = m.op("QUANTIZE", [x], m.activation((1, *SHAPE), 0.25, zero))
    interpreter = runtime.Interpreter.from_bytes(m.to_bytes([x], [q]))
    defined = np.abs(values) < 1e6
    interpreter.set_input(np.where(defined, values, 0)[None], 0)
    interpreter.invoke()
    found = convert(program, values, 0.25, zero, HALF_AWAY).bytes
    np.testing.assert_array_equal(found[defined], interpreter.get_output(0)[0][defined])
    np.testing.assert_array_equal(found[values > 1e6], 127)
    np.testing.assert_array_equal(found[(values < -1e6) | np.isnan(values)], -128)


def test_wide_elements_are_refused(program):
    with pytest.raises(subprocess.CalledProcessError):
        convert(program, np.zeros(SHAPE), 1.0, 0, WIDE)


def test_flags_of_a_model(tmp_path):
    path = tmp_path / "m.onnx"
    model = single(OnnxModel(), (1, 6, 7, 8), unary("MaxPool", kernel_shape=[2, 2]))
    path.write_bytes(model.SerializeToString())
    for words, count in (([], 2), (["--input-layout", "nhwc"], 1)):
        assert main(["build", str(path), "-o", str(tmp_path), *words]) == 0
        assert (tmp_path / "m.c").read_text().count("VMCU_IO_CHANNELS_FIRST") == count


def test_run_takes_channels_last(tmp_path):
    path = tmp_path / "m.onnx"
    model = single(OnnxModel(), (1, 6, 7, 8), unary("MaxPool", kernel_shape=[2, 2]))
    path.write_bytes(model.SerializeToString())
    values = np.random.default_rng(0).normal(size=(1, 6, 7, 8)).astype(np.float32)
    np.save(tmp_path / "first.npy", values)
    np.save(tmp_path / "last.npy", values.transpose(0, 2, 3, 1))
    for name, words in (("first", []), ("last", ["--input-layout", "nhwc"])):
        ends = [
            "--input",
            str(tmp_path / f"{name}.npy"),
            "--output",
            str(tmp_path / f"{name}_out.npy"),
        ]
        assert main(["run", str(path), *ends, *words]) == 0
    first, last = (np.load(tmp_path / f"{name}_out.npy") for name in ("first", "last"))
    np.testing.assert_array_equal(first, last)
