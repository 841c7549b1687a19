# SPDX-License-Identifier: Apache-2.0
"""Files made to crash, to hang or to eat memory get one message, soon, within 2 GB."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from builders import tflite_branches, tflite_models
from builders.onnx_models import OnnxModel
from builders.tflite_models import TfliteModel
from onnx import TensorProto, helper
from seconds import at_most
from vmcu_tools import frontends, passes
from vmcu_tools.errors import UserError

FLOAT = TensorProto.FLOAT
SECONDS = 10
BYTES = 2 << 30


@pytest.fixture(autouse=True)
def little_memory():
    """2 GB more than what the interpreter has mapped so far."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


def problem(path) -> str:
    """What is said of a file, "" if it is accepted; in time either way."""
    with at_most(SECONDS):
        try:
            passes.optimize(frontends.load(path))
        except UserError as error:
            return str(error)
    return ""


def saved(tmp_path, m: OnnxModel, y: str, shape=(1, 4), change: Callable | None = None):
    model = m.proto({"x": (FLOAT, shape)}, {y: (FLOAT, None)})
    if change is not None:
        change(model)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_node_that_reads_itself(tmp_path):
    m = OnnxModel()
    first = m.stated()
    m.qdq("x", first)
    m.nodes.append(helper.make_node("Relu", ["loop"], ["loop"], name="ring"))
    assert "used before it is computed" in problem(saved(tmp_path, m, m.qdq("loop", first)))


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ({0: "Relu", **{n: f"f{n - 1}" for n in range(1, 60)}}, "nodes"),
        ({0: "f1", 1: "f0"}, "circle"),
    ],
    ids=["doubling", "circle"],
)
def test_functions_that_call_another_twice(tmp_path, calls, said, inner):
    """inner: in both branches of an If."""

    def change(model):
        opsets = [helper.make_opsetid("", 13), helper.make_opsetid("evil", 1)]
        for number, op in calls.items():
            domain = "" if op == "Relu" else "evil"
            ends = (("a", "b"), ("b", "c"))
            nodes = [helper.make_node(op, [x], [y], domain=domain) for x, y in ends]
            if inner:
                value = helper.make_tensor_value_info("c", FLOAT, None)
                branch = helper.make_graph(nodes, "branch", [], [value])
                graphs = {"then_branch": branch, "else_branch": branch}
                nodes = [helper.make_node("If", ["a"], ["c"], **graphs)]
            function = helper.make_function("evil", f"f{number}", ["a"], ["c"], nodes, opsets)
            model.functions.append(function)
        model.graph.node[0].op_type, model.graph.node[0].domain = f"f{len(calls) - 1}", "evil"
        model.opset_import.append(helper.make_opsetid("evil", 1))

    m = OnnxModel()
    assert said in problem(saved(tmp_path, m, m.node("Relu", ["x"]), change=change))


@pytest.mark.parametrize(("count", "said"), [(2_900, ""), (3_001, "nodes")])
def test_long_chain(tmp_path, count, said):
    m = OnnxModel()
    first = m.stated()
    y = m.qdq("x", first)
    shape = m.constant(np.array([1, -1]))
    for _ in range(count):
        y = m.node("Reshape", [y, shape])
    assert said in problem(saved(tmp_path, m, m.qdq(y, first)))


def test_constants_that_multiply(tmp_path):
    m = OnnxModel()
    a, b = (
        m.constant(np.ones((60_000, 1), np.float32)),
        m.constant(np.ones((1, 60_000), np.float32)),
    )
    y = m.node("Mul", [a, b])
    assert "would have" in problem(saved(tmp_path, m, m.qdq(y, m.stated())))


@pytest.mark.parametrize("op", ["Concat", "Expand", "Tile", "Gather", "ConstantOfShape"])
def test_constants_that_grow(tmp_path, op):
    """From node to node, twice as large each time or of the same size again and again."""
    m = OnnxModel(opset=13)
    shape = m.constant(np.array([1 << 23], np.int64))
    y = m.constant(np.ones(1, np.float32))
    for number in range(60):
        given = {
            "Concat": ([y, y], {"axis": 0}),
            "Expand": ([m.constant(np.full(1, number, np.float32)), shape], {}),
            "Tile": ([m.constant(np.full(1, number, np.float32)), shape], {}),
            "Gather": ([y, m.constant(np.zeros(1 << number % 23, np.int64))], {"axis": 0}),
            "ConstantOfShape": ([shape], {}),
        }
        inputs, attributes = given[op]
        y = m.node(op, inputs, **attributes)
    said = problem(
        saved(tmp_path, m, m.qdq(m.node("Add", [m.qdq("x", m.stated()), y]), m.stated()))
    )
    assert "constants" in said


@pytest.mark.parametrize("kernel", [[2**31 - 1, 5], [60_000, 60_000], [70_000, 1]])
def test_windows_beyond_any_image(tmp_path, kernel):
    m = OnnxModel(opset=12)
    pads = [kernel[0] - 1, kernel[1] - 1, 0, 0]
    y = m.node("MaxPool", [m.qdq("x", m.stated())], kernel_shape=kernel, pads=pads)
    assert "window" in problem(saved(tmp_path, m, m.qdq(y, m.stated()), (1, 4, 60, 60)))


def test_large_tensor_turned_over_and_over(tmp_path):
    m = OnnxModel()
    first = m.stated()
    y = m.qdq("x", first)
    for _ in range(40):
        y = m.node("Transpose", [y], perm=[0, 2, 1])
    path = saved(tmp_path, m, m.qdq(y, first), (1, 2048, 4095))
    assert "rearranges" in problem(path)


@pytest.mark.parametrize("shape", [(1, 2**40, 1, 1), (2**31, 2**31, 2**31), (1,) * 40])
def test_absurd_input(tmp_path, shape):
    m = OnnxModel()
    assert problem(saved(tmp_path, m, m.qdq("x", m.stated()), shape))


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [2**31, 2**31], "pads": [2**31] * 4}),
        ("MaxPool", {"kernel_shape": [1, 1], "strides": [-1, 1]}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [2**40] * 4}),
        ("DepthToSpace", {"blocksize": 0}),
        ("DepthToSpace", {"blocksize": -1}),
        ("Softmax", {"axis": 2**40}),
        ("Transpose", {"perm": [0, 0, 0, 0]}),
        ("Split", {"axis": -9}),
        ("Resize", {}),
    ],
)
def test_absurd_attributes(tmp_path, op, attributes):
    m = OnnxModel(opset=12)
    y = m.node(op, [m.qdq("x", m.stated())], **attributes)
    assert problem(saved(tmp_path, m, m.qdq(y, m.stated()), (1, 4, 6, 6)))


def test_repetition_without_end(tmp_path):
    m = OnnxModel()
    x = m.qdq("x", m.stated())
    for op, values in (("Expand", [2**20, 2**20, 4]), ("Tile", [2**30, 2**30])):
        y = m.node(op, [x, m.constant(np.array(values))])
        assert problem(saved(tmp_path, m, m.qdq(y, m.stated())))


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "link", "sub/../../w.bin"])
def test_weights_from_outside(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(64))
    (folder / "link").symlink_to(tmp_path / "w.bin")

    def change(model):
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)

    m = OnnxModel()
    assert "outside the model's folder" in problem(
        saved(folder, m, m.qdq("x", m.stated()), change=change)
    )


def test_large_file(tmp_path):
    for name in ("m.onnx", "m.tflite"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(3 << 30)
        assert "at most" in problem(tmp_path / name)


def test_many_tensors_on_one_buffer(tmp_path):
    m = TfliteModel()
    (x,), (y,) = tflite_models.conv((6, 6), 4, 8, (1, 1))(m)
    first = m.constant(np.zeros(1 << 22, np.int32))
    for _ in range(2_000):
        other = m.constant(np.zeros(1, np.int32))
        m.graph.tensors[other].buffer = m.graph.tensors[first].buffer
        m.graph.tensors[other].shape = [1 << 22]
    assert problem(m.save(tmp_path / "m.tflite", [x], [y])) == ""


@pytest.mark.parametrize(
    ("kind", "values"),
    [("SLICE", ([0, 0, 0, 0], [1, 2**30, 2**30, 9])), ("SLICE", ([0, -5, 0, 0], [1, 1, 1, 1]))],
)
def test_absurd_slice(tmp_path, kind, values):
    m = TfliteModel()
    x = m.activation((1, 4, 4, 4))
    y = m.like(x, (1, 4, 4, 4))
    m.op(kind, [x, *(m.constant(np.array(v, np.int32)) for v in values)], y, "Slice")
    assert "cannot slice" in problem(m.save(tmp_path / "m.tflite", [x], [y]))


def test_negative_stride(tmp_path):
    m = TfliteModel()
    (x,), (y,) = tflite_models.conv((6, 6), 4, 8, (3, 3))(m)
    m.graph.operators[0].builtinOptions.strideH = -1
    assert "stride" in problem(m.save(tmp_path / "m.tflite", [x], [y]))


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, 1e-45, 3e38])
def test_scales_that_are_none(tmp_path, scale):
    m = TfliteModel()
    a, b = m.activation((1, 4)), m.activation((1, 4))
    y = m.activation((1, 4), float(scale))
    m.op("MUL", [a, b], y, "Mul")
    said = problem(m.save(tmp_path / "m.tflite", [a, b], [y]))
    assert "scale" in said or scale in (1e-45, 3e38)


def test_constants_folded_over_and_over(tmp_path):
    """2500 arrays of 8 million numbers would follow from one of a single number."""
    m = TfliteModel()
    (x,), (y,) = tflite_models.conv((6, 6), 4, 8, (1, 1))(m)
    one = m.constant(np.zeros(1, np.int32))
    times = m.constant(np.array([1 << 23], np.int32))
    for _ in range(2_500):
        wide = m.activation((1 << 23,), dtype=np.int32)
        m.graph.tensors[wide].quantization = None
        m.op("TILE", [one, times], wide)
    assert "TILE" in problem(m.save(tmp_path / "m.tflite", [x], [y]))


def test_conditions_at_the_end_of_a_long_chain(tmp_path):
    m = TfliteModel()
    x = y = m.activation((1, 8))
    for _ in range(900):
        y = m.op("RELU", [y], m.activation((1, 8)))
    outputs = []
    for _ in range(200):
        number = m.constant(np.array(3, np.int8), [0.1])
        more = m.op("GREATER", [y, number], m.activation((1, 8), dtype=np.bool_))
        outputs.append(m.op("SELECT_V2", [more, x, y], m.activation((1, 8))))
    assert "several tensors are combined" in problem(m.save(tmp_path / "m.tflite", [x], outputs))


def test_a_branch_that_is_the_model_itself(tmp_path):
    m = tflite_branches.BranchModel()
    x = m.activation((1, 4), 0.1, 0)
    y = x
    for _ in range(2_900):
        y = m.op("RELU", [y], m.like(x, (1, 4)))
    y = m.choice(m.number(True, dtype=np.bool_), y, tflite_branches.same, tflite_branches.same)[0]
    m.graph.operators[-1].builtinOptions.thenSubgraphIndex = 0
    path = m.save(tmp_path / "m.tflite", [x], [y])
    assert "the condition is not constant" in problem(path)
