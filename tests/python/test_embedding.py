# SPDX-License-Identifier: Apache-2.0
"""Models whose input is numbers of a table's rows, and tables of every form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel
from builders.tflite_models import TfliteModel
from onnx import TensorProto
from operators.embedding import in_blocks
from vmcu_bench import runners
from vmcu_bench.runners.samples import bytes_of, make_samples
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.errors import UserError
from vmcu_tools.frontends import load
from vmcu_tools.graph import Graph, Node, Port, Tensor
from vmcu_tools.ops.embedding import Embedding
from vmcu_tools.planner.registry import make_plan

ROWS, DEPTH = 37, 6


def table(m: OnnxModel, form: str) -> str:
    """A table (ROWS, DEPTH) as files have it."""
    if form == "float":
        return m.constant(m.rng.normal(size=(ROWS, DEPTH)).astype(np.float32))
    scales = m.rng.uniform(0.01, 0.05, ROWS if form == "by row" else ()).astype(np.float32)
    dtype = np.uint8 if form == "uint8" else np.int8
    info = np.iinfo(dtype)
    ints = m.rng.integers(info.min, info.max + 1, (ROWS, DEPTH)).astype(dtype)
    zero = np.zeros(scales.shape, dtype) if form == "by row" else dtype(info.min + 100)
    return m.node("DequantizeLinear", [m.constant(a) for a in (ints, scales, zero)], axis=0)


def picked(m: OnnxModel, op: str, rows: str, ids: str) -> str:
    """Rows by Gather, or by GatherND, as PyTorch exports table[ids]."""
    last = m.constant(np.array([-1]))
    return m.node(op, [rows, ids if op == "Gather" else m.node("Unsqueeze", [ids, last])])


def saved(
    folder: Path,
    shape: tuple[int, ...] = (1, 5),
    form: str = "int8",
    dtype: int = TensorProto.INT64,
    through: Callable[[OnnxModel, str], str] = lambda m, x: x,
    relu: bool = False,
    op: str = "Gather",
) -> Path:
    """A file that adds a constant to rows of a table."""
    m = OnnxModel(3)
    y = picked(m, op, table(m, form), through(m, "ids"))
    y = m.node("Relu", [y]) if relu else y
    y = m.qdq(y, m.stated(0.031, 5))
    y = m.node("Add", [y, m.constant(np.float32(0.5))])
    y = m.qdq(y, m.stated(0.04, -3))
    path = folder / "ids.onnx"
    onnx.save(m.proto({"ids": (dtype, shape)}, {y: (TensorProto.FLOAT, None)}), path)
    return path


@pytest.mark.parametrize("form", ["int8", "uint8", "by row", "float"])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("op", ["Gather", "GatherND"])
def test_tables(tmp_path: Path, form: str, relu: bool, op: str) -> None:
    assert main(["verify", str(saved(tmp_path, form=form, relu=relu, op=op)), "-n", "20"]) == 0


@pytest.mark.parametrize("shape", [(), (1,), (7,), (1, 1), (2, 3), (1, 2, 3)])
@pytest.mark.parametrize(
    ("dtype", "op"),
    [(TensorProto.INT32, "Gather"), (TensorProto.INT64, "Gather"), (TensorProto.INT64, "GatherND")],
)
def test_shapes(tmp_path: Path, shape: tuple[int, ...], dtype: int, op: str) -> None:
    assert main(["verify", str(saved(tmp_path, shape, dtype=dtype, op=op)), "-n", "20"]) == 0


BLOCKED = ["int4, 4, none", "uint4, 4, zeros", "uint8, 4, none", "uint8, 4, zeros"]


@pytest.mark.parametrize("form", [*BLOCKED, "uint8, 8, none", "uint8, 8, zeros"])
@pytest.mark.parametrize("stored", [False, True])
def test_tables_in_blocks(tmp_path: Path, form: str, stored: bool) -> None:
    m = OnnxModel(5, opset=21)
    ids = m.constant(np.array([[3, 0, 36, -1]])) if stored else "ids"
    rows = in_blocks(m, ids, form)
    inputs = {"ids": (TensorProto.INT64, (1, 4))}
    if stored:
        rows = m.node("Add", [m.qdq("x", m.stated(0.1, 4)), rows])
        inputs = {"x": (TensorProto.FLOAT, (1, 4, 48))}
    y = m.qdq(rows, m.stated(0.031, 5))
    onnx.save(m.proto(inputs, {y: (TensorProto.FLOAT, None)}), tmp_path / "m.onnx")
    assert main(["verify", str(tmp_path / "m.onnx"), "-n", "20"]) == 0


@pytest.mark.parametrize("form", ["int4, 4, none", "uint4, 4, zeros"])
def test_tables_in_blocks_of_rows(tmp_path: Path, form: str) -> None:
    m = OnnxModel(5, opset=21)
    y = m.qdq(in_blocks(m, "ids", form, axis=0), m.stated(0.031, 5))
    inputs = {"ids": (TensorProto.INT64, (1, 4))}
    onnx.save(m.proto(inputs, {y: (TensorProto.FLOAT, None)}), tmp_path / "m.onnx")
    assert main(["verify", str(tmp_path / "m.onnx"), "-n", "20"]) == 0


def test_tables_in_blocks_need_numbers_as_scales(tmp_path: Path) -> None:
    m = OnnxModel(5, opset=21)
    y = m.qdq(in_blocks(m, "ids", BLOCKED[0]), m.stated(0.031, 5))
    model = m.proto({"ids": (TensorProto.INT64, (1, 4))}, {y: (TensorProto.FLOAT, None)})
    (node,) = (n for n in model.graph.node if n.op_type == "GatherBlockQuantized")
    (scales,) = (k for k in model.graph.initializer if k.name == node.input[2])
    array = np.full(list(scales.dims), np.nan, np.float32)
    scales.CopyFrom(onnx.numpy_helper.from_array(array, scales.name))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(UserError, match="scale"):
        load(tmp_path / "m.onnx")


def test_constant_indices_of_a_constant_table(tmp_path: Path) -> None:
    m = OnnxModel(2)
    rows = picked(m, "GatherND", table(m, "float"), m.constant(np.array([[3, -1, 0]])))
    y = m.qdq(m.node("Add", [m.qdq("x", m.stated(0.1, 4)), rows]), m.stated(0.1, -2))
    ports = {"x": (TensorProto.FLOAT, (1, 3, DEPTH))}, {y: (TensorProto.FLOAT, None)}
    onnx.save(m.proto(*ports), tmp_path / "m.onnx")
    assert main(["verify", str(tmp_path / "m.onnx"), "-n", "20"]) == 0


@pytest.mark.parametrize(
    ("shape", "more"), [((1, 2, 2), {}), ((ROWS, 1), {"batch_dims": 1})], ids=["pairs", "batch"]
)
def test_points_that_are_no_rows(tmp_path: Path, shape: tuple[int, ...], more: dict) -> None:
    m = OnnxModel(1)
    y = m.qdq(m.node("GatherND", [table(m, "int8"), "ids"], **more), m.stated(0.03, 1))
    ports = {"ids": (TensorProto.INT64, shape)}, {y: (TensorProto.FLOAT, None)}
    onnx.save(m.proto(*ports), tmp_path / "bad.onnx")
    with pytest.raises(UserError, match=r"\(GatherND\): the indices do not match.*by a Gather"):
        load(tmp_path / "bad.onnx")


THROUGH: dict[str, Callable[[OnnxModel, str], str]] = {
    "reshape": lambda m, x: m.node("Reshape", [x, m.constant(np.array([5, 1]))]),
    "unsqueeze": lambda m, x: m.node("Unsqueeze", [x, m.constant(np.array([0]))]),
    "squeeze": lambda m, x: m.node("Squeeze", [x, m.constant(np.array([0]))]),
    "cast": lambda m, x: m.node("Cast", [x], to=TensorProto.INT32),
    "flatten": lambda m, x: m.node("Flatten", [x], axis=0),
}


@pytest.mark.parametrize("through", THROUGH)
def test_views_of_numbers(tmp_path: Path, through: str) -> None:
    path = saved(tmp_path, through=THROUGH[through])
    assert main(["verify", str(path), "-n", "20"]) == 0


def test_an_index_that_the_device_computes(tmp_path: Path) -> None:
    m = OnnxModel(1)
    best = m.node("ArgMax", [m.qdq("x", m.stated(0.1, 0))], axis=1, keepdims=0)
    y = m.qdq(m.node("Gather", [table(m, "int8"), best]), m.stated(0.03, 1))
    ports = {"x": (TensorProto.FLOAT, (1, ROWS))}, {y: (TensorProto.FLOAT, None)}
    onnx.save(m.proto(*ports), tmp_path / "best.onnx")
    assert main(["verify", str(tmp_path / "best.onnx"), "-n", "20"]) == 0


def test_numbers_are_those_of_the_smallest_table(tmp_path: Path) -> None:
    m = OnnxModel(1)
    tables = [m.constant(m.rng.normal(size=(n, 4)).astype(np.float32)) for n in (9, 5, 30)]
    outs = [m.qdq(m.node("Gather", [one, "ids"]), m.stated(0.03, 1)) for one in tables]
    ports = {"ids": (TensorProto.INT64, (1, 3))}, dict.fromkeys(outs, (TensorProto.FLOAT, None))
    onnx.save(m.proto(*ports), tmp_path / "three.onnx")
    graph = load(tmp_path / "three.onnx")
    assert [port.below for port in graph.inputs] == [5]
    found = [sample[0].view("<i4") for sample in make_samples(graph, 50, 5, 0)]
    assert {int(n) for one in found for n in one.ravel()} == set(range(5))


def graph_of(table: np.ndarray, numbers: int) -> Graph:
    rows, depth = table.shape
    tensors = [Tensor("x", (numbers, 1, 4), 1.0, 0), Tensor("y", (numbers, 1, depth), 1.0, 0)]
    return Graph(
        "rows",
        "",
        {one.name: one for one in tensors},
        (Node("rows", Embedding(table), ("x",), ("y",)),),
        (Port("x", "x", (numbers,), "int32", below=rows),),
        (Port("y", "y", (numbers, depth), "int8"),),
    )


@pytest.mark.parametrize("target", ["virtual", "host:sanitize"])
def test_numbers_outside_of_the_table(target: str) -> None:
    rows = np.arange(-20, 10).astype(np.int8).reshape(10, 3)
    given = [0, 9, 10, 11, 2**31 - 1, -1, -10, -11, -(2**31), 1 << 16, 256, 3]
    wanted = [0, 9, 9, 9, 9, 9, 0, 0, 0, 9, 9, 3]
    plan = make_plan(graph_of(rows, len(given)))
    ((found,),) = runners.get(target).run(plan, [[bytes_of(np.array(given)[:, None])]])
    np.testing.assert_array_equal(found.reshape(-1, 3), rows[wanted])


@pytest.mark.parametrize(
    ("shape", "axis", "said"),
    [
        ((4, 5), 1, "another axis"),
        ((4, 5, 6), 0, "another axis"),
        ((70_000, 1), 0, "70000 rows, at most 65535"),
    ],
)
def test_what_is_refused(tmp_path: Path, shape: tuple[int, ...], axis: int, said: str) -> None:
    m = OnnxModel(1)
    one = m.constant(np.zeros(shape, np.float32))
    y = m.qdq(m.node("Gather", [one, "ids"], axis=axis), m.stated(0.03, 1))
    ports = {"ids": (TensorProto.INT64, (1, 3))}, {y: (TensorProto.FLOAT, None)}
    onnx.save(m.proto(*ports), tmp_path / "bad.onnx")
    with pytest.raises(UserError, match=said):
        load(tmp_path / "bad.onnx")


def test_numbers_are_no_values(tmp_path: Path) -> None:
    m = OnnxModel(1)
    y = m.qdq(m.node("Cast", ["ids"], to=TensorProto.FLOAT), m.stated(0.03, 1))
    ports = {"ids": (TensorProto.INT64, (1, 3))}, {y: (TensorProto.FLOAT, None)}
    onnx.save(m.proto(*ports), tmp_path / "bad.onnx")
    with pytest.raises(UserError, match="cannot cast int64 to float32"):
        load(tmp_path / "bad.onnx")


def test_arrays_of_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path)
    np.save(tmp_path / "x.npy", np.array([[3, 0, 36, 1, -1]]))
    said = []
    for target in ("virtual", "host"):
        words = ["run", path, "--input", tmp_path / "x.npy", "--on", target]
        assert main([str(word) for word in words]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


def float_model(folder: Path, tokens: int, op: str) -> Path:
    """Tokens, whose mean a dense layer classifies."""
    m = OnnxModel(5)
    m.initializers.clear()
    normal = m.rng.normal
    rows = m.constant(normal(size=(ROWS, 8)).astype(np.float32))
    y = picked(m, op, rows, "ids")
    y = m.node("MatMul", [y, m.constant(normal(size=(8, 5)).astype(np.float32))])
    y = m.node("Relu", [y])
    path = folder / "float.onnx"
    ports = {"ids": (TensorProto.INT64, (1, tokens))}, {y: (TensorProto.FLOAT, None)}
    onnx.save(m.proto(*ports), path)
    return path


@pytest.mark.parametrize("op", ["Gather", "GatherND"])
def test_quantize(tmp_path: Path, capsys: pytest.CaptureFixture[str], op: str) -> None:
    path, target = float_model(tmp_path, 4, op), str(tmp_path / "int8.onnx")
    data = tmp_path / "data.npz"
    np.savez(data, ids=np.random.default_rng(1).integers(0, ROWS, (32, 1, 4)))
    words = ["quantize", str(path), "--calibration", str(data), "-o", target]
    assert main(words) == 0
    assert main(["verify", target, "-n", "50"]) == 0
    assert [port.dtype for port in compile_model(Path(target)).graph.inputs] == ["int64"]
    capsys.readouterr()
    np.savez(data, ids=np.random.default_rng(1).uniform(0, ROWS, (32, 1, 4)))
    assert main(words) == 1
    assert "samples of 'ids' are float64, the input int64" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"), [([1, 2, 3, 4, 37], "37 is no row of a table of 37"), ([0.5] * 5, "0.5")]
)
def test_numbers_that_are_no_rows(
    tmp_path: Path, given: list[float], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.array([given]))
    assert main(["run", str(saved(tmp_path)), "--input", str(tmp_path / "x.npy")]) == 1
    assert said in capsys.readouterr().err


def test_a_stream_of_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Windows of five tokens, one token a hop."""
    m = OnnxModel(3)
    y = m.qdq(m.node("Gather", [table(m, "int8"), "ids"]), m.stated(0.031, 5))
    y = m.qdq(m.node("ReduceMean", [y], axes=[1]), m.stated(0.02, 0))
    ports = {"ids": (TensorProto.INT64, (1, 5))}, {y: (TensorProto.FLOAT, None)}
    path = tmp_path / "mean.onnx"
    onnx.save(m.proto(*ports), path)
    for words in (["--hop", "1"], ["--hop", "1", "--on", "host"]):
        assert main(["verify", str(path), "-n", "60", *words]) == 0
    np.save(tmp_path / "x.npy", np.random.default_rng(2).integers(0, ROWS, (1, 40)))
    assert main(["run", str(path), "--hop", "1", "--input", str(tmp_path / "x.npy")]) == 0


def of_micro(
    folder: Path, op: str, shape: tuple[int, ...], axis: int = 0, scale: float = 0.05
) -> Path:
    """A .tflite file of one operator, whose table has the scale 0.05, and a RELU behind it."""
    m = TfliteModel(5)
    values = m.rng.integers(-128, 128, (ROWS, DEPTH)).astype(np.int8)
    table = m.constant(values, scales=[0.05], zero_point=3)
    ids = m.activation(shape, dtype=np.int32)
    y = m.activation((*shape, DEPTH), scale, 3)
    if op == "GATHER":
        m.op(op, [table, ids], y, "Gather", axis=axis, batchDims=0)
    else:
        m.op(op, [ids, table], y)
    z = m.like(y, (*shape, DEPTH))
    m.op("RELU", [y], z)
    return m.save(folder / "ids.tflite", [ids], [z])


@pytest.mark.parametrize(
    ("op", "shape"),
    [("EMBEDDING_LOOKUP", (5,)), *(("GATHER", one) for one in [(), (7,), (1, 5), (2, 3)])],
)
def test_numbers_of_tflite(tmp_path: Path, op: str, shape: tuple[int, ...]) -> None:
    """Every byte is TensorFlow Lite Micro's."""
    path = of_micro(tmp_path, op, shape)
    (port,) = load(path).inputs
    assert port.dtype == "int32" and port.below == ROWS
    for target in ("virtual", "host"):
        assert main(["verify", str(path), "-n", "20", "--on", target]) == 0


@pytest.mark.parametrize(
    ("op", "shape", "more", "said"),
    [
        ("EMBEDDING_LOOKUP", (2, 3), {}, r"row numbers of the shape \[2, 3\], not 1-D"),
        ("GATHER", (5,), {"axis": 1}, "another axis than the first"),
        ("GATHER", (5,), {"scale": 0.06}, "different scales or zero points"),
    ],
)
def test_numbers_of_tflite_that_are_refused(
    tmp_path: Path, op: str, shape: tuple[int, ...], more: dict[str, float], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        load(of_micro(tmp_path, op, shape, **more))
