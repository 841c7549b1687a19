# SPDX-License-Identifier: Apache-2.0
"""What is wrong with an .onnx file, as test_bad_models.py has it of any."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from builders import onnx_models
from builders.onnx_models import OnnxModel
from onnx import TensorProto
from test_bad_models import problems_of

FLOAT = TensorProto.FLOAT


def test_all_problems_of_onnx_are_reported_at_once(tmp_path):
    m = OnnxModel()
    x = m.qdq("x", m.stated())
    y = m.qdq(m.node("LRN", [x]), m.stated())
    z = m.node("LSTM", [y, y, y])
    found = problems_of(onnx_file(tmp_path / "m.onnx", m, (1, 4), [m.qdq(z, m.stated())]))
    assert [problem.op for problem in found] == ["LRN", "LSTM"]
    assert all(problem.remedy and problem.node for problem in found)


def test_similar_operator_is_suggested(tmp_path):
    m = OnnxModel()
    y = m.node("Sigmoids", [m.qdq("x", m.stated())])
    found = problems_of(onnx_file(tmp_path / "m.onnx", m, (1, 4), [m.qdq(y, m.stated())]))
    assert "Sigmoid" in found[0].remedy


@pytest.mark.parametrize("quantised", [True, False])
def test_an_operator_that_waits_for_its_scale_is_named_itself(tmp_path, quantised):
    """Its result is made where it is quantised, or where the model ends."""
    m = OnnxModel()
    sizes = m.constant(np.array([1, 2, 6, 6]))
    y = m.node("Resize", [m.node("Sigmoid", [m.qdq("x", m.stated())]), "", "", sizes], mode="cubic")
    end = m.qdq(y, m.stated()) if quantised else y
    found = problems_of(onnx_file(tmp_path / "m.onnx", m, (1, 2, 3, 3), [end]))
    assert [(problem.op, problem.node) for problem in found] == [("Resize", f"n_{y}")]


def onnx_file(path, m: OnnxModel, x_shape, outputs, kind=FLOAT):
    onnx.save(m.proto({"x": (kind, x_shape)}, dict.fromkeys(outputs, (FLOAT, None))), path)
    return path


def _onnx_float(m: OnnxModel):
    return (1, 4), [m.node("Relu", ["x"])]


def _onnx_op(op: str, shape=(1, 4), stated: tuple = (), **attributes):
    """x, QuantizeLinear, DequantizeLinear, `op`, and the same two again."""

    def build(m: OnnxModel):
        y = m.node(op, [m.qdq("x", m.stated(*stated))], **attributes)
        return shape, [m.qdq(y, m.stated())]

    return build


def _onnx_float_tail(m: OnnxModel):
    names, _ = m.weights((4, 3), None, 0.1, 4, "none")
    return (1, 4), [m.node("MatMul", [m.qdq("x", m.stated()), names[0]])]


def _onnx_float_weights(m: OnnxModel):
    w = m.constant(np.ones((4, 3), np.float32))
    y = m.node("MatMul", [m.qdq("x", m.stated()), w])
    return (1, 4), [m.qdq(y, m.stated())]


def _onnx_moving_weights(m: OnnxModel):
    x = m.qdq("x", m.stated())
    return (1, 4, 1, 1), [m.qdq(m.node("Conv", [x, x]), m.stated())]


def _onnx_wide_weights(m: OnnxModel):
    names, scale = m.weights((4, 3, 1, 1), None, 0.1, 4, "none", zero_point=100, span=27)
    ints = next(t for t in m.initializers if t.name == m.nodes[-1].input[0])
    ints.CopyFrom(onnx.numpy_helper.from_array(np.full((4, 3, 1, 1), -128, np.int8), ints.name))
    y = m.node("ConvTranspose", [m.qdq("x", m.stated(0.1)), names[0]], group=2)
    return (1, 4, 2, 2), [m.qdq(y, m.stated(scale))]


def _onnx_int16(m: OnnxModel):
    m.dtype = np.dtype(np.int16)
    return _onnx_op("Relu")(m)


def _onnx_constant_add(m: OnnxModel):
    given = [m.constant(a) for a in (np.ones(4, np.int8), np.float32(0.1), np.int8(0))]
    constant = m.node("DequantizeLinear", given)
    y = m.node("Add", [constant, constant])
    return (1, 4), [m.qdq(y, m.stated())]


def _onnx_int8_relu(m: OnnxModel):
    first = m.stated()
    y = m.node("Relu", [m.node("QuantizeLinear", ["x", *first])])
    return (1, 4), [m.node("DequantizeLinear", [y, *first])]


def _onnx_no_columns(m: OnnxModel):
    w = [m.constant(a) for a in (np.zeros((5, 0), np.int8), np.float32(0.1))]
    y = m.node("MatMul", [m.qdq("x", m.stated()), m.node("DequantizeLinear", w)])
    return (2, 3, 5), [m.qdq(y, m.stated())]


def _onnx_unused_input(m: OnnxModel):
    k = m.constant(np.ones((1, 4), np.float32))
    return (1, 4), [m.qdq(m.node("Relu", [m.qdq(k, m.stated())]), m.stated())]


def _onnx_to_nothing(op: str, *others: np.ndarray | list | None, **more):
    """An image of three channels, none of whose rows is left."""

    def build(m: OnnxModel):
        given = ["" if other is None else m.constant(np.array(other)) for other in others]
        y = m.node(op, [m.qdq("x", m.stated()), *given], **more)
        return (1, 3, 1, 2), [m.qdq(y, m.stated())]

    return build


def _onnx_one_operand(m: OnnxModel):
    return (1, 4), [m.qdq(m.node("MatMul", [m.qdq("x", m.stated())]), m.stated())]


BAD_ONNX = {
    "expand to nothing": (_onnx_to_nothing("Expand", [1, 3, 0, 2]), "shape [1, 3, 0, 2]"),
    "reshape to nothing": (
        _onnx_to_nothing("Reshape", [1, 3, 0, 2], allowzero=1),
        "shape [1, 3, 0, 2]",
    ),
    "resize to nothing": (
        _onnx_to_nothing("Resize", None, np.float32([1, 1, 0.3, 1])),
        "invalid output size [1, 3, 0, 2]",
    ),
    "repeated no time": (
        _onnx_to_nothing("Tile", [1, 1, 0, 1]),
        "the output is empty, of shape [1, 3, 0, 2]",
    ),
    "one operand": (_onnx_one_operand, "(MatMul): 1 inputs; ONNX requires 2"),
    "int8 relu": (_onnx_int8_relu, "without their scale"),
    "unused input": (_onnx_unused_input, "constant where an activation is needed"),
    "float only": (_onnx_float, "float model"),
    "unknown op": (_onnx_op("LRN"), "(LRN): this operation is not supported"),
    "dynamic": (_onnx_op("Relu", (1, 3, "H", "W")), "dynamic shape"),
    "dynamic vector": (_onnx_op("Relu", ("N",)), "dynamic shape"),
    "empty": (_onnx_no_columns, "shape [2, 3, 0] is empty"),
    "batch": (_onnx_op("GlobalMaxPool", (2, 3, 4, 4)), "batch size 2"),
    "five dimensions": (_onnx_op("GlobalMaxPool", (1, 3, 4, 4, 4)), "not (1, C, H, W)"),
    "zero scale": (_onnx_op("Relu", stated=(0.0,)), "scale of an activation is 0.0"),
    "nan scale": (_onnx_op("Relu", stated=(np.nan,)), "scale of an activation is nan"),
    "int16": (_onnx_int16, "int16, not int8"),
    "softmax axis": (_onnx_op("Softmax", (1, 3, 4, 5), axis=7), "axis 7 of 4 dimensions"),
    "pool kernel": (_onnx_op("MaxPool", (1, 3, 4, 4), kernel_shape=[0, 2]), "invalid kernel"),
    "pool size": (_onnx_op("MaxPool", (1, 3, 4, 4), kernel_shape=[9, 9]), "output is empty"),
    "float tail": (_onnx_float_tail, "output is a float that is not quantised"),
    "float weights": (_onnx_float_weights, "weights are float"),
    "moving weights": (_onnx_moving_weights, "weights are not constant"),
    "wide weights": (_onnx_wide_weights, "do not fit int8"),
    "constant operand": (_onnx_constant_add, "constant where an activation is needed"),
}


@pytest.mark.parametrize("case", BAD_ONNX)
def test_bad_onnx(tmp_path, case):
    build, message = BAD_ONNX[case]
    m = OnnxModel(opset=14)
    found = problems_of(onnx_file(tmp_path / "m.onnx", m, *build(m)))
    assert message in "\n".join(map(str, found))
    assert all(problem.remedy for problem in found), found


def test_old_opset(tmp_path):
    m = OnnxModel(opset=9)
    found = problems_of(onnx_file(tmp_path / "m.onnx", m, *_onnx_op("Relu")(m)))
    assert "opset 9" in found[0].reason


def test_quantised_input_without_scale(tmp_path):
    m = OnnxModel()
    path = onnx_file(
        tmp_path / "m.onnx", m, (1, 3, 4, 4), [m.qdq("x", m.stated())], TensorProto.INT8
    )
    assert "scale of this input is not known" in problems_of(path)[0].reason


def test_external_weights_outside_the_folder(tmp_path):
    model = onnx_models.single(OnnxModel(), *onnx_models.CASES["conv 3x3"])
    weights = model.graph.initializer[2]
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    for location, message in (("../w.bin", "outside the model's folder"), ("w.bin", "is missing")):
        del weights.external_data[:]
        weights.external_data.add(key="location", value=location)
        path = tmp_path / "m.onnx"
        path.write_bytes(model.SerializeToString())
        assert message in problems_of(path)[0].reason
