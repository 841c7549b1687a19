# SPDX-License-Identifier: Apache-2.0
"""Each operator that is evaluated where all its inputs are constants, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel, single
from test_onnx_ops import assert_close
from vmcu_tools.frontends.onnx.fold import FOLDED

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
}


def difference_of(op: str):
    """The input, and the difference of the first two elements of what an operator makes of
    constants: another order of them is another difference."""

    def build(m: OnnxModel, x: str, scale: float):
        arrays, attributes = CASES[op]
        y = m.node(op, [m.constant(array) for array in arrays], **attributes)
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


def test_every_operator_has_a_case() -> None:
    assert sorted(CASES) == sorted(FOLDED)
