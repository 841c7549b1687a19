# SPDX-License-Identifier: Apache-2.0
"""A .tflite operator with another one's options table is refused, whichever operator it is: read
as its own, the table would mean something else. So is what is an input twice."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from builders import tflite_models
from builders.onnx_models import OnnxModel
from builders.tflite_models import TfliteModel, schema
from test_bad_models import problems_of
from vmcu_tools import frontends
from vmcu_tools.frontends.tflite.float import TABULATED
from vmcu_tools.frontends.tflite.importer import RULES


@pytest.mark.parametrize("op", sorted({*RULES, *TABULATED}))
def test_options_of_another_operator(tmp_path, op):
    m = TfliteModel()
    x = m.activation((1, 6, 6, 4))
    y = m.op(op, [x], m.like(x, (1, 6, 6, 4)), "SkipGram")
    (found,) = problems_of(m.save(tmp_path / "m.tflite", [x], [y]))
    assert (found.op, found.node) == (op, "t1")
    assert "the options belong to another operator, SkipGramOptions" in found.reason
    assert "export it again" in found.remedy


def test_a_convolution_with_those_of_a_depthwise_one(tmp_path):
    """Their fields differ in number and order, so that it would be strided and dilated anyhow."""
    m = TfliteModel()
    ends = tflite_models.conv((6, 6), 4, 8, (3, 3))(m)
    (operator,) = m.graph.operators
    operator.builtinOptions = schema.DepthwiseConv2DOptionsT()
    operator.builtinOptionsType = schema.BuiltinOptions.DepthwiseConv2DOptions
    (found,) = problems_of(m.save(tmp_path / "m.tflite", *ends))
    assert "DepthwiseConv2DOptions and not Conv2DOptions" in found.reason


def test_a_table_that_is_said_to_be_none(tmp_path):
    m = TfliteModel()
    path = m.save(tmp_path / "m.tflite", *tflite_models.add((1, 5))(m))
    data = path.read_bytes()
    (operator,) = m.graph.operators
    operator.builtinOptionsType = schema.BuiltinOptions.NONE
    assert m.save(path, m.graph.inputs, m.graph.outputs).read_bytes() != data
    (found,) = problems_of(path)
    assert found.reason == "the operator's options are missing"


def test_options_that_only_a_newer_schema_knows(tmp_path):
    """They are not looked at where the operator has none that matter."""
    m = TfliteModel()
    x = m.activation((1, 8))
    y = m.op("RELU", [x], m.like(x, (1, 8)), "Add")
    path = m.save(tmp_path / "m.tflite", [x], [y])
    data = bytearray(path.read_bytes())
    (found,) = problems_of(path)
    assert "AddOptions" in found.reason
    field = _union_type(bytes(data))
    assert data[field] == schema.BuiltinOptions.AddOptions
    data[field] = 250
    path.write_bytes(data)
    assert len(frontends.load(path).nodes) == 1


def _union_type(data: bytes) -> int:
    """Where a file's only operator keeps the number of its options' class."""
    operator = schema.Model.GetRootAs(data, 0).Subgraphs(0).Operators(0)
    return operator._tab.Pos + operator._tab.Offset(10)


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_a_value_that_is_several_inputs_of_onnx(tmp_path, dtype):
    m = OnnxModel()
    stated = m.stated()
    q = m.node("QuantizeLinear", ["x", *stated]) if dtype == np.float32 else "x"
    y = m.qdq(m.node("Relu", [m.node("DequantizeLinear", [q, *stated])]), m.stated())
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = m.proto({"x": (kind, (1, 8))}, {y: (onnx.TensorProto.FLOAT, None)})
    model.graph.input.append(model.graph.input[0])
    onnx.save(model, tmp_path / "m.onnx")
    (found,) = problems_of(tmp_path / "m.onnx")
    assert found.reason == "'x' is 2 of the model's inputs at once" and found.remedy


@pytest.mark.parametrize("times", [2, 3])
def test_a_tensor_that_is_several_inputs(tmp_path, times):
    m = TfliteModel()
    ends, outputs = tflite_models.pad((1, 4, 5, 3), ((0, 0), (1, 2), (0, 3), (0, 0)))(m)
    (found,) = problems_of(m.save(tmp_path / "m.tflite", ends * times, outputs))
    assert found.reason == f"'t0' is {times} of the model's inputs at once"
    assert found.node == "t0" and "list each input once" in found.remedy
