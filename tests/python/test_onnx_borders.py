# SPDX-License-Identifier: Apache-2.0
"""What comes out of a model, in the file's own axes and types, is what ONNX Runtime gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import onnx_exports, onnx_models, onnx_norms, onnx_ops
from builders.onnx_models import OnnxModel, single
from builders.onnx_options import INDICES, index_of_extreme
from vmcu_bench.oracle.ort import session_of
from vmcu_bench.runners.borders import read_input, to_file
from vmcu_tools import frontends, passes
from vmcu_tools.graph import Graph
from vmcu_tools.machine import reference

FLOAT = onnx.TensorProto.FLOAT
CASES = {**onnx_models.CASES, **onnx_ops.CASES, **onnx_norms.CASES, **onnx_exports.CASES}
# Models whose inner tensors may each be a step off.
LONG = ("attention", "squeeze and excite")


def outputs(path: Path, values: dict[str, np.ndarray], folder: Path) -> tuple[Graph, list, list]:
    """The graph, and its outputs beside ONNX Runtime's."""
    graph = passes.optimize(frontends.load(path))
    sample = []
    for port in graph.inputs:
        np.save(folder / "values.npy", values[port.name])
        sample.append(read_input(folder / "values.npy", graph, port))
    found = reference.run(graph, sample)
    ours = [to_file(found[port.tensor], graph, port) for port in graph.outputs]
    session = session_of(path, "ORT_ENABLE_EXTENDED")
    return graph, ours, session.run(None, values)


@pytest.mark.parametrize("case", CASES)
def test_output(tmp_path, case):
    m = OnnxModel(5, opset=13 if case in onnx_models.CASES else 17)
    path = tmp_path / "m.onnx"
    onnx.save(single(m, *CASES[case]), path)
    values = m.rng.normal(size=CASES[case][0]).astype(np.float32) * 4
    graph, (ours,), (theirs,) = outputs(path, {"x": values}, tmp_path)
    assert ours.shape == theirs.shape
    step = graph.tensors[graph.outputs[0].tensor].scale
    off = np.abs(ours - theirs).max() / step
    assert off < (3.5 if case in LONG else 1.01)


@pytest.mark.parametrize(("op", "attributes"), INDICES)
def test_index_of_an_extreme(tmp_path, op, attributes):
    """Five values in sixty places: most extremes are there more than once."""
    path = tmp_path / "m.onnx"
    onnx.save(index_of_extreme(op, **attributes), path)
    values = np.random.default_rng(0).integers(-2, 3, (1, 3, 4, 5)).astype(np.float32)
    graph, (ours,), (theirs,) = outputs(path, {"x": values}, tmp_path)
    assert graph.outputs[0].dtype == "int64" and ours.dtype == np.int64
    np.testing.assert_array_equal(ours, theirs)


def test_several_outputs(tmp_path):
    m = OnnxModel()
    first = m.stated()
    x = m.qdq("x", first)
    m.node("Split", [x, m.constant(np.array([1, 2]))], axis=1)
    m.nodes[-1].output[:] = ["a", "b"]
    ends = [m.qdq("a", first), m.qdq(m.node("Transpose", ["b"], perm=[0, 3, 1, 2]), first)]
    path = tmp_path / "m.onnx"
    onnx.save(m.proto({"x": (FLOAT, (1, 3, 4, 5))}, dict.fromkeys(ends, (FLOAT, None))), path)
    values = m.rng.normal(size=(1, 3, 4, 5)).astype(np.float32)
    _, ours, theirs = outputs(path, {"x": values}, tmp_path)
    for mine, yours in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, yours, rtol=0, atol=1e-6)


@pytest.mark.parametrize("shape", [(6, 1, 7, 8), (3, 2, 4, 5), (2, 1, 1, 3), (6, 7, 8), (5, 2)])
@pytest.mark.parametrize("op", ["Relu", "Transpose", "Concat"])
def test_what_is_no_single_image_keeps_the_order_of_its_axes(tmp_path, shape, op):
    m = OnnxModel()
    first = m.stated()
    x = m.qdq("x", first)
    if op == "Transpose":
        y = m.node(op, [x], perm=list(reversed(range(len(shape)))))
    elif op == "Concat":
        y = m.node(op, [x, x], axis=0)
    else:
        y = m.node(op, [x])
    path = tmp_path / "m.onnx"
    onnx.save(m.proto({"x": (FLOAT, shape)}, {m.qdq(y, first): (FLOAT, None)}), path)
    values = m.rng.normal(size=shape).astype(np.float32) * 3
    _, (ours,), (theirs,) = outputs(path, {"x": values}, tmp_path)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((2, 1, 3, 1), (1, 1, 1, 4)),
        ((3, 5, 1, 4), (1, 1, 2, 1)),
        ((1, 3, 1, 4), (1, 1, 5, 1)),
        ((3, 1, 4), (1, 2, 1)),
    ],
)
def test_two_operands_are_repeated_along_each_others_axes(tmp_path, one, other):
    m = OnnxModel()
    shapes = {"x": one, "y": other}
    y = m.qdq(m.node("Add", [m.qdq(name, m.stated(0.03)) for name in shapes]), m.stated(0.06))
    path = tmp_path / "m.onnx"
    inputs = {name: (FLOAT, shape) for name, shape in shapes.items()}
    onnx.save(m.proto(inputs, {y: (FLOAT, None)}), path)
    values = {n: m.rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    _, (ours,), (theirs,) = outputs(path, values, tmp_path)
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() < 1.01 * 0.06


def test_a_concat_of_one_input(tmp_path):
    m = OnnxModel()
    y = m.qdq(m.node("Concat", [m.qdq("x", m.stated(0.03))], axis=1), m.stated(0.05))
    path = tmp_path / "m.onnx"
    onnx.save(m.proto({"x": (FLOAT, (1, 3, 4, 5))}, {y: (FLOAT, None)}), path)
    values = m.rng.normal(size=(1, 3, 4, 5)).astype(np.float32)
    _, (ours,), (theirs,) = outputs(path, {"x": values}, tmp_path)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("turned", [1, 2])
def test_sequences_that_were_turned_are_joined(tmp_path, axis, turned):
    """turned: how many of both; a Reshape has given the other one its shape."""
    m = OnnxModel()
    first = m.stated()
    x = m.qdq("x", first)
    to = m.constant(np.array([1, 6, 4]))
    parts = [m.qdq(m.node("Transpose", [x], perm=[0, 2, 1]), first)]
    parts += parts if turned == 2 else [m.qdq(m.node("Reshape", [x, to]), first)]
    path = tmp_path / "m.onnx"
    y = m.qdq(m.node("Concat", parts, axis=axis), first)
    onnx.save(m.proto({"x": (FLOAT, (1, 4, 6))}, {y: (FLOAT, None)}), path)
    values = m.rng.normal(size=(1, 4, 6)).astype(np.float32) * 3
    _, (ours,), (theirs,) = outputs(path, {"x": values}, tmp_path)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "numbers", "shape"),
    [
        ("Flatten", None, (1, 3, 4, 5)),
        ("Reshape", [1, 4, 12], (1, 4, 2, 6)),
        ("Reshape", [1, 2, 4, 6], (1, 4, 2, 6)),
        ("Squeeze", [2], (1, 4, 1, 6)),
        ("Unsqueeze", [2], (1, 4, 6)),
        ("Transpose", [0, 1, 3, 2], (1, 4, 3, 3)),
        ("Transpose", [0, 2, 3, 1], (1, 4, 3, 2)),
    ],
)
def test_an_image_that_is_quantised_behind_a_view(tmp_path, op, numbers, shape):
    """It is given channels first, whatever shape it has where it is quantised."""
    m = OnnxModel(7)
    first = m.stated(0.05)
    if op == "Transpose":
        y = m.node(op, ["x"], perm=numbers)
    else:
        y = m.node(op, ["x", *([m.constant(np.array(numbers))] if numbers else [])])
    path = tmp_path / "m.onnx"
    end = m.qdq(m.node("Relu", [m.qdq(y, first)]), first)
    onnx.save(m.proto({"x": (FLOAT, shape)}, {end: (FLOAT, None)}), path)
    values = m.rng.normal(size=shape).astype(np.float32) * 3
    _, (ours,), (theirs,) = outputs(path, {"x": values}, tmp_path)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)
