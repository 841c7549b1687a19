# SPDX-License-Identifier: Apache-2.0
"""Each operator that is evaluated where all its inputs are constants, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel, single
from test_onnx_ops import assert_close
from vmcu_tools.cli import main
from vmcu_tools.frontends.onnx import fold

A = np.array([[1.5, -2.0, 4.0], [0.25, 3.0, -1.0]], np.float32)
B = np.array([[2.0, -0.5, 1.0]], np.float32)
INTS = np.array([[7, 2, 5], [3, 9, 4]], np.int64)
BITS = np.array([[True, False, True], [False, False, True]])
PLACES = np.array([1, 0], np.int64)

# Inputs and attributes.
CASES: dict[str, tuple[list[np.ndarray], dict]] = {
    **{op: ([A, B], {}) for op in ("Add", "Sub", "Mul", "Div", "Min", "Max")},
    **{op: ([A, B], {}) for op in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")},
    **{op: ([BITS, BITS[::-1].copy()], {}) for op in ("And", "Or")},
    **{op: ([A], {}) for op in ("Identity", "Neg", "Abs", "Floor", "Ceil", "Flatten")},
    **{op: ([A, np.array([0])], {"keepdims": 1}) for op in ("ReduceSum",)},
    **{op: ([A], {"axes": [0], "keepdims": 0}) for op in ("ReduceMax", "ReduceProd")},
    "Cast": ([A], {"to": onnx.TensorProto.INT32}),
    "Clip": ([A, np.float32(-1), np.float32(2)], {}),
    "Concat": ([A, B], {"axis": 0}),
    "Constant": ([], {"value_floats": [1.0, 2.5, -1.0]}),
    "ConstantOfShape": ([np.array([2, 2])], {"value": onnx.helper.make_tensor("v", 1, [1], [3])}),
    "Expand": ([B, np.array([4, 3])], {}),
    "Gather": ([A, PLACES], {"axis": 1}),
    "GatherND": ([A, np.array([[0, 1], [1, 2]])], {}),
    "Mod": ([INTS, np.array([4])], {}),
    "Not": ([BITS], {}),
    "Pow": ([A, np.float32(2)], {}),
    "Range": ([np.int64(1), np.int64(9), np.int64(3)], {}),
    "Reshape": ([A, np.array([3, 2])], {}),
    "ScatterND": ([A, np.array([[1]]), B], {}),
    "Slice": ([A, np.array([1]), np.array([3]), np.array([1])], {}),
    "Sqrt": ([np.abs(A)], {}),
    "Squeeze": ([B, np.array([0])], {}),
    "Tile": ([B, np.array([2, 1])], {}),
    "Transpose": ([A], {"perm": [1, 0]}),
    "Trilu": ([A], {"upper": 1}),
    "Unsqueeze": ([A, np.array([0])], {}),
    "Where": ([BITS, A, B], {}),
    # Of operators that have an int8 form, and of those that have none.
    **{op: ([A], {}) for op in ("Relu", "Sigmoid", "Erf", "Softmax", "Round", "Sign", "IsNaN")},
    "ArgMax": ([A], {"axis": 1}),
    "CumSum": ([A, np.array(1)], {}),
    "Det": ([np.float32([[[1, 2], [3, 5]], [[2, 1], [0, 3]]])], {}),
    "EyeLike": ([A], {"dtype": 1}),
    "MatMul": ([A, B.T.copy()], {}),
    "NonZero": ([A], {}),
    "OneHot": ([PLACES, np.int64(3), np.float32([0.5, 2])], {}),
    "Pad": ([A, np.array([0, 1, 0, 0])], {}),
    "Split": ([A, np.array([1, 1])], {"axis": 0}),
    "TopK": ([A, np.array([2])], {"axis": 1}),
}


def difference_of(op: str):
    """The input, and the difference of the first two elements of what an operator makes of
    constants: another order of them is another difference."""

    def build(m: OnnxModel, x: str, scale: float):
        arrays, attributes = CASES[op]
        operands = [m.constant(array) for array in arrays]
        outputs = {"Split": 2, "TopK": 2}.get(op, 0)
        y = m.node(op, operands, **attributes)
        if outputs:
            m.nodes[-1].output.append(f"{y}/second")
            y = f"{y}/second"
        y = m.node("Cast", [y], to=onnx.TensorProto.FLOAT)
        y = m.node("Reshape", [y, m.constant(np.array([-1]))])
        parts = [m.node("Gather", [y, m.constant(np.array([i]))]) for i in (0, 1)]
        return m.node("Add", [x, m.node("Sub", parts)]), scale + 4 / 127

    return build


@pytest.mark.parametrize("op", CASES)
def test_constants_are_evaluated(tmp_path, op):
    path = tmp_path / "m.onnx"
    onnx.save(single(OnnxModel(0, np.int8, 17), (1, 3, 4, 5), difference_of(op)), path)
    assert_close(path)


def test_shape_of_a_function(tmp_path):
    """What nobody quantises has a shape all the same."""

    def build(m: OnnxModel, x: str, scale: float):
        y = m.node("Sigmoid", [x])
        return m.node("Reshape", [y, m.node("Shape", [y])]), 1 / 255

    path = tmp_path / "m.onnx"
    onnx.save(single(OnnxModel(0, np.int8, 17), (1, 3, 4, 5), build), path)
    assert_close(path)


BOMBS: dict[str, tuple[list[np.ndarray], dict]] = {
    "ConstantOfShape": ([np.array([1 << 20, 1 << 20])], {}),
    "Range": ([np.int64(0), np.int64(1 << 40), np.int64(1)], {}),
    "Expand": ([B, np.array([1 << 30, 3])], {}),
    "Tile": ([B, np.array([1 << 30, 3])], {}),
    "Pad": ([A, np.array([0, 1 << 40, 0, 0])], {}),
    "OneHot": ([PLACES, np.array([1 << 40]), np.float32([0, 1])], {}),
    "Add": ([np.ones((1 << 13, 1), np.float32), np.ones((1, 1 << 13), np.float32)], {}),
    "MatMul": ([np.ones((1 << 13, 1), np.float32), np.ones((1, 1 << 13), np.float32)], {}),
}


@pytest.mark.parametrize("op", BOMBS)
def test_large_constants_are_refused(tmp_path, capsys, monkeypatch, op):
    """Before they are computed."""
    monkeypatch.setattr("onnx.reference.ReferenceEvaluator.run", lambda *given: pytest.fail("ran"))
    monkeypatch.setitem(CASES, op, BOMBS[op])
    path = tmp_path / "m.onnx"
    # Without the operators behind it, whose sizes onnx would infer, too.
    m = OnnxModel(0, np.int8, 17)
    y = m.node("Add", [m.qdq("x", m.stated()), m.node(op, [m.constant(a) for a in BOMBS[op][0]])])
    kind = onnx.TensorProto.FLOAT
    onnx.save(m.proto({"x": (kind, (1, 3))}, {m.qdq(y, m.stated()): (kind, None)}), path)
    assert main(["build", str(path)]) == 1
    assert f"({op}): the result would have" in capsys.readouterr().err


@pytest.mark.parametrize("op", ["RandomNormal", "Conv", "DequantizeLinear", "Loop", "No"])
def test_what_is_not_folded(op):
    assert not fold.folds(op)


def test_an_operator_without_int8_form_needs_constants(tmp_path, capsys):
    """Of values it is refused, also where its own input has been refused."""
    m = OnnxModel(0, np.int8, 17)
    y = m.node("Det", [m.node("Inverse", [m.qdq("x", m.stated())], "com.microsoft")])
    y = m.qdq(y, m.stated())
    kind = onnx.TensorProto.FLOAT
    onnx.save(m.proto({"x": (kind, (1, 3, 3))}, {y: (kind, None)}), tmp_path / "m.onnx")
    assert main(["build", str(tmp_path / "m.onnx")]) == 1
    said = capsys.readouterr().err
    assert "Inverse): this operation is not supported" in said
    assert "(Det): this operation is not supported" in said
