# SPDX-License-Identifier: Apache-2.0
"""Expressions of an integer input in float models, beside ONNX Runtime's results for all numbers,
and masks of minus infinity."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel
from onnx import TensorProto
from vmcu_bench.oracle.ort import session_of
from vmcu_tools.cli import main
from vmcu_tools.errors import UserError
from vmcu_tools.quantize.float_model import read_float
from vmcu_tools.quantize.samples import read_samples

COUNT, WIDTH = 9, 6
Form = Callable[[OnnxModel, str], str]


def of(m: OnnxModel, dtype: type, *values: int) -> str:
    return m.constant(np.array(values, dtype))


def until(m: OnnxModel, numbers: str) -> str:
    """A mask of the places up to a number, as a decoder makes it of its position."""
    late = m.node("Less", [numbers, of(m, np.int64, *range(WIDTH))])
    return m.node("Where", [late, of(m, np.float32, -1e9), of(m, np.float32, 0)])


def among(m: OnnxModel, numbers: str) -> str:
    later = m.node("Sub", [m.node("Add", [numbers, of(m, np.int64, 2)]), of(m, np.int64, 1)])
    places = of(m, np.int64, *range(WIDTH))
    parts = [m.node(op, [later, places]) for op in ("GreaterOrEqual", "LessOrEqual", "Equal")]
    both = m.node("And", [parts[0], m.node("Not", [m.node("Or", parts[1:])])])
    return m.node("Mul", [m.node("Cast", [both], to=1), of(m, np.float32, 3)])


def never(m: OnnxModel, numbers: str) -> str:
    there = m.node("GreaterOrEqual", [numbers, of(m, np.int64, *range(WIDTH))])
    return m.node("Log", [m.node("Cast", [there], to=1)])


def missing(m: OnnxModel, tokens: str) -> str:
    """The addend of Hugging Face's models for tokens that there are not."""
    there = m.node("Cast", [m.node("Unsqueeze", [tokens, of(m, np.int64, 1)])], to=1)
    missing = m.node("Sub", [of(m, np.float32, 1), there])
    return m.node(
        "Squeeze", [m.node("Mul", [missing, of(m, np.float32, -1e4)]), of(m, np.int64, 1)]
    )


def saved(folder: Path, form: Form, embedded: bool, shape: tuple[int, ...] = (1, 1)) -> Path:
    m = OnnxModel(5)
    y = m.node("Add", ["x", form(m, "numbers")])
    if embedded:
        table = m.constant(m.rng.normal(size=(COUNT, WIDTH)).astype(np.float32))
        y = m.node(
            "Add",
            [y, m.node("Squeeze", [m.node("Gather", [table, "numbers"]), of(m, np.int64, 1)])],
        )
    y = m.node("Softmax", [y], axis=-1)
    inputs = {"x": (TensorProto.FLOAT, (1, WIDTH)), "numbers": (TensorProto.INT64, shape)}
    onnx.save(m.proto(inputs, {y: (TensorProto.FLOAT, None)}), folder / "numbers.onnx")
    return folder / "numbers.onnx"


@pytest.mark.parametrize("embedded", [True, False])
@pytest.mark.parametrize("form", [until, among, never])
def test_a_row_of_a_table(form: Form, embedded: bool, tmp_path: Path) -> None:
    path = saved(tmp_path, form, embedded)
    made = read_float(path, largest=lambda name: COUNT - 1)
    assert {node.op_type for node in made.proto.graph.node} <= {
        *("Add", "Gather", "Reshape", "Softmax", "Squeeze")
    }
    tables = map(onnx.numpy_helper.to_array, made.proto.graph.initializer)
    assert all(np.isfinite(table).all() for table in tables)
    onnx.save(made.proto, tmp_path / "made.onnx")
    sessions = [session_of(one, "ORT_DISABLE_ALL") for one in (path, tmp_path / "made.onnx")]
    for number in range(COUNT):
        values = {"x": np.ones((1, WIDTH), np.float32), "numbers": np.array([[number]])}
        wanted, found = (session.run(None, values)[0] for session in sessions)
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_a_function_of_each_number(tmp_path: Path) -> None:
    path = saved(tmp_path, missing, False, (1, WIDTH))
    made = read_float(path, largest=lambda name: 1)
    (table,) = [t for t in made.proto.graph.initializer if t.name.endswith("/table")]
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(table), [[-1e4], [0]])


def test_numbers_without_a_range(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="numbers: the input is int64"):
        read_float(saved(tmp_path, until, False))


def test_the_largest_number_of_calibration_data(tmp_path: Path) -> None:
    """A position is part of one row with a mask, in which minus infinity is a number."""
    path, data = saved(tmp_path, until, False), tmp_path / "data.npz"
    rng = np.random.default_rng(1)
    x = np.where(rng.random((40, 1, WIDTH)) < 0.3, -np.inf, 0).astype(np.float32)
    np.savez(data, x=x, numbers=np.arange(40).reshape(40, 1, 1) % COUNT)
    to = tmp_path / "int8.onnx"
    assert main(["quantize", str(path), "--calibration", str(data), "-o", str(to)]) == 0
    assert main(["verify", str(to), "-n", "20"]) == 0
    np.savez(data, x=x + 1, numbers=np.zeros((40, 1, 1), np.int64))
    with pytest.raises(UserError, match="values that are no numbers"):
        read_samples(read_float(path, largest=lambda name: COUNT - 1), data)
