# SPDX-License-Identifier: Apache-2.0
"""What `vmcu run --input` makes of an array: the runtime's own bytes, or one message."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from builders.onnx_models import OnnxModel, single, unary
from builders.tflite_models import TfliteModel
from tflite_micro import runtime
from vmcu_tools.cli import main

SHAPE = (1, 3, 5, 4)
SCALE, ZERO = 0.25, 7
POINT = {"strideH": 1, "strideW": 1, "filterHeight": 1, "filterWidth": 1}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """float32 in and out, and nothing between but what quantises and a pool of one pixel."""
    m = TfliteModel()
    x, y = m.activation(SHAPE, dtype=np.float32), m.activation(SHAPE, dtype=np.float32)
    q = m.op("QUANTIZE", [x], m.activation(SHAPE, SCALE, ZERO))
    p = m.op("MAX_POOL_2D", [q], m.like(q, SHAPE), "Pool2D", **POINT)
    m.op("DEQUANTIZE", [p], y)
    return m.save(tmp_path / "m.tflite", [x], [y])


def ran(model: Path, values: np.ndarray, folder: Path) -> np.ndarray:
    np.save(folder / "x.npy", values)
    ends = ["--input", str(folder / "x.npy"), "--output", str(folder / "y.npy")]
    assert main(["run", str(model), *ends]) == 0
    return np.load(folder / "y.npy")


def ties(low: int) -> np.ndarray:
    """Half steps, from `low` on, of both signs where that is negative."""
    return ((np.arange(60) + low + 0.5) * SCALE).astype(np.float32).reshape(SHAPE)


@pytest.mark.parametrize("low", [-60, 0, 100])
def test_ties_go_where_tflite_takes_them(model, tmp_path, low):
    values = ties(low)
    interpreter = runtime.Interpreter.from_file(str(model))
    interpreter.set_input(values, 0)
    interpreter.invoke()
    np.testing.assert_array_equal(ran(model, values, tmp_path), interpreter.get_output(0))


@pytest.mark.parametrize("low", [-60, 0, 100])
def test_ties_go_where_onnxruntime_takes_them(tmp_path, low):
    m = OnnxModel()
    shape = (1, 3, 4, 5)
    quantisation = m.stated(SCALE, ZERO)
    y = m.qdq(m.node("MaxPool", [m.qdq("x", quantisation)], kernel_shape=[1, 1]), quantisation)
    path = tmp_path / "m.onnx"
    kinds = {"x": (1, shape)}, {y: (1, None)}
    path.write_bytes(m.proto(*kinds).SerializeToString())
    values = ties(low).reshape(shape)
    values[0, 0, 0, :2] = np.inf, -np.inf
    (wanted,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": values})
    np.testing.assert_array_equal(ran(path, values, tmp_path), wanted)


def saved(values: object) -> Callable[[Path], None]:
    return lambda path: np.save(path, values, allow_pickle=True)


def with_nans(*places: tuple[int, ...]) -> np.ndarray:
    values = np.zeros(SHAPE, np.float32)
    for place in places:
        values[place] = np.nan
    return values


def declared(shape: tuple[int, ...], data: bytes = b"\0" * 64) -> Callable[[Path], None]:
    """A header that says so, and little behind it."""

    def write(path: Path) -> None:
        with path.open("wb") as file:
            header = {"shape": shape, "fortran_order": False, "descr": "<f4"}
            np.lib.format.write_array_header_1_0(file, header)
            file.write(data)

    return write


def archive(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, x=np.zeros(SHAPE))


BAD: dict[str, tuple[Callable[[Path], None], str]] = {
    "strings": (saved(np.full(SHAPE, "a")), "the array contains str32, not real numbers"),
    "bytes": (saved(np.full(SHAPE, b"a")), "not real numbers"),
    "objects": (saved(np.full(SHAPE, None)), "the array contains Python objects, not real numbers"),
    "complex": (
        saved(np.zeros(SHAPE, np.complex64)),
        "the array contains complex64, not real numbers",
    ),
    "times": (saved(np.zeros(SHAPE, "datetime64[s]")), "not real numbers"),
    "records": (saved(np.zeros(SHAPE, [("a", "f4")])), "not real numbers"),
    "other count": (saved(np.zeros((2, 3))), "the array has 6 values [2, 3], input 't0' takes 60"),
    "NaN": (
        saved(with_nans((0, 1, 2, 3), (0, 2, 0, 0))),
        "2 of its 60 values are NaN, the first at [0, 1, 2, 3]",
    ),
    "huge": (declared((10**6, 10**6)), "the array has 1,000,000,000,000 values"),
    "beyond int64": (declared((10**15, 10**15)), "input 't0' takes 60 [1, 3, 5, 4]"),
    "cut off": (declared(SHAPE), "the file is truncated: 64 bytes instead of 240"),
    "archive": (archive, "an archive of several arrays"),
    "text": (lambda path: path.write_text("1,2,3\n"), "not an .npy array"),
    "empty": (lambda path: path.write_bytes(b""), "not an .npy array"),
    "header cut off": (lambda path: path.write_bytes(b"\x93NUMPY\1\0\x76\0{'de"), "not an .npy"),
    "other version": (lambda path: path.write_bytes(b"\x93NUMPY\7\0" + b" " * 99), "not an .npy"),
    "negative": (declared((-1, 60)), "an array of that shape"),
    "deep": (lambda path: deep(path), "not an .npy array"),
}


def deep(path: Path) -> None:
    """A header whose brackets no parser can count."""
    text = b"(" * 9000
    path.write_bytes(b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text)


@pytest.mark.parametrize("case", BAD)
def test_bad_input(model, tmp_path, capsys, case):
    path = tmp_path / "x.npy"
    write, message = BAD[case]
    write(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert main(["run", str(model), "--input", str(path)]) == 1
    said = capsys.readouterr().err
    assert f"error: {path}: " in said and message in said and "hint: " in said
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert taken < 1 << 18, "it took memory for what the file only declares"


def test_an_absent_file_is_named(model, tmp_path, capsys):
    assert main(["run", str(model), "--input", str(tmp_path / "none.npy")]) == 1
    assert "none.npy: no such file or directory" in capsys.readouterr().err
    assert main(["run", str(model), "--input", str(tmp_path)]) == 1
    assert f"{tmp_path}: is a directory" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64, np.bool_, np.uint8])
def test_any_real_numbers_will_do(tmp_path, dtype):
    path = tmp_path / "m.onnx"
    path.write_bytes(single(OnnxModel(), (1, 4), unary("Relu")).SerializeToString())
    values = np.array([[0, 1, 1, 0]])
    wanted = ran(path, values.astype(np.float32), tmp_path)
    np.testing.assert_array_equal(ran(path, values.astype(dtype), tmp_path), wanted)
