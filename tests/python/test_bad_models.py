# SPDX-License-Identifier: Apache-2.0
"""Whatever is wrong with a model file, the user gets one message that names it, no traceback."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from builders import onnx_models, tflite_models
from builders.onnx_models import OnnxModel
from builders.tflite_models import TfliteModel
from onnx import TensorProto
from vmcu_tools import frontends, oracle
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.frontends.tflite.ops import RULES
from vmcu_tools.oracle.base import required

FLOAT = TensorProto.FLOAT


def problems_of(path) -> tuple[Problem, ...]:
    with pytest.raises(UserError) as caught:
        frontends.load(path)
    for problem in caught.value.problems:
        assert problem.file == str(path)
        assert problem.reason
    return caught.value.problems


def tflite_conv(m: TfliteModel):
    return tflite_models.conv((6, 6), 4, 8, (3, 3))(m)


def _float_only(m: TfliteModel):
    x, y = (m.activation((1, 8), dtype=np.float32) for _ in range(2))
    w = m.constant(np.ones((8, 8), np.float32))
    m.op("FULLY_CONNECTED", [x, w], y, "FullyConnected")
    return [x], [y]


def _unknown(m: TfliteModel):
    x = m.activation((1, 8))
    y = m.op("COMPLEX_ABS", [x], m.activation((1, 8)))
    z = m.op("CUMSUM", [y], m.activation((1, 8)))
    return [x], [z]


def _changed(change: Callable[[TfliteModel], None]):
    def build(m: TfliteModel):
        ends = tflite_conv(m)
        change(m)
        return ends

    return build


def _quantisation(field: str, value, tensor: int = 0):
    def change(m: TfliteModel):
        array = np.asarray(value, np.float32 if field == "scale" else np.int64)
        setattr(m.graph.tensors[tensor].quantization, field, array)

    return _changed(change)


def _shape(value, tensor: int = 0, signature=None):
    def change(m: TfliteModel):
        m.graph.tensors[tensor].shape = list(value)
        m.graph.tensors[tensor].shapeSignature = list(signature or value)

    return _changed(change)


def _attribute(tensor: int, **values):
    return _changed(lambda m: [setattr(m.graph.tensors[tensor], k, v) for k, v in values.items()])


def _option(**values):
    def change(m: TfliteModel):
        for key, value in values.items():
            setattr(m.graph.operators[0].builtinOptions, key, value)

    return _changed(change)


def _two_subgraphs(m: TfliteModel):
    ends = tflite_conv(m)
    m.model.subgraphs.append(m.graph)
    return ends


def _add_constant(m: TfliteModel):
    a, b = (m.constant(np.ones((1, 8), np.int8), [0.1]) for _ in range(2))
    y = m.op("ADD", [a, b], m.activation((1, 8)), "Add")
    return [], [y]


def _float_middle(m: TfliteModel):
    x = m.activation((1, 8))
    f = m.op("DEQUANTIZE", [x], m.activation((1, 8), dtype=np.float32))
    g = m.op("SOFTMAX", [f], m.activation((1, 8), dtype=np.float32), "Softmax")
    return [x], [m.op("QUANTIZE", [g], m.activation((1, 8)))]


def _condition_on_two(m: TfliteModel):
    x, y = m.activation((1, 8)), m.activation((1, 8))
    more = m.op("GREATER", [x, y], m.activation((1, 8), dtype=np.bool_))
    return [x, y], [m.op("SELECT_V2", [more, x, y], m.activation((1, 8)))]


def _float_output(m: TfliteModel):
    x = m.activation((1, 8))
    f = m.op("DEQUANTIZE", [x], m.activation((1, 8), dtype=np.float32))
    return [x], [m.op("NEG", [f], m.activation((1, 8), dtype=np.float32))]


def _negated(m: TfliteModel):
    x = m.activation((1, 8))
    return [x], [m.op("NEG", [x], m.like(x, (1, 8)))]


def _float_untouched(m: TfliteModel):
    x = m.activation((1, 8), dtype=np.float32)
    return [x], [x]


def _small_quotients(m: TfliteModel):
    x, y = m.activation((1, 8), 0.1), m.activation((1, 8), 0.1)
    return [x, y], [m.op("DIV", [x, y], m.activation((1, 8), 0.1), "Div")]


def _batched_norm(m: TfliteModel):
    """A pooling that looks along the second of five dimensions."""
    x = m.activation((1, 2, 3, 4, 5))
    return [x], [m.op("MAX_POOL_2D", [x], m.like(x, (1, 2, 3, 4, 5)), "Pool2D")]


def _repeated_without_end(m: TfliteModel):
    x = m.activation((1, 4))
    times = m.constant(np.array([2**30, 2**30], np.int32))
    return [x], [m.op("TILE", [x, times], m.like(x, (1, 4)))]


def _listed_twice(m: TfliteModel):
    x = m.activation((1, 4))
    return [x, x], [m.op("RESHAPE", [x], m.like(x, (1, 4)), "Reshape")]


def _several_matrices(m: TfliteModel):
    x = m.activation((2, 3, 4))
    w = m.constant(np.ones((2, 4, 5), np.int8), [0.1])
    return [x], [m.op("BATCH_MATMUL", [x, w], m.activation((2, 3, 5)), "BatchMatMul")]


# Tensor 0 is the input, 1 the weights, 2 the biases, 3 the output. What the message must contain.
BAD_TFLITE = {
    "float only": (_float_only, "it is a float32 model"),
    "unknown op": (_unknown, "COMPLEX_ABS: this operation is not supported"),
    "dynamic": (_shape((1, 1, 1, 4), signature=(-1, -1, -1, 4)), "dynamic shape"),
    "batch": (_shape((2, 6, 6, 4)), "batch size 2"),
    "huge": (_shape((1, 60000, 60000, 4)), "bytes"),
    "empty": (_shape((1, 0, 6, 4)), "empty"),
    "rank": (_shape((6, 4)), "2 dimensions instead of four"),
    "output shape": (_shape((1, 6, 5, 8), 3), "computes"),
    "uint8": (_attribute(0, type=3), "works on uint8"),
    "int16": (_attribute(0, type=7), "int16, not int8"),
    "zero scale": (_quantisation("scale", [0.0]), "scale of tensor 't0' is 0.0"),
    "nan scale": (_quantisation("scale", [np.nan]), "is nan"),
    "zero point": (_quantisation("zeroPoint", [300]), "zero point 300"),
    "weight scale": (_quantisation("scale", [0.0] * 8, 1), "weights is zero or not a number"),
    "weight zero point": (_quantisation("zeroPoint", [1] * 8, 1), "weights have a zero point"),
    "scale count": (_quantisation("scale", [1.0] * 3, 1), "3 scales for 8 channels"),
    "no weights": (_attribute(1, buffer=0), "weights are not constant"),
    "stride": (_option(strideH=0), "bad kernel"),
    "fused": (_option(fusedActivationFunction=4), "fused activation 4"),
    "subgraphs": (_two_subgraphs, "2 subgraphs"),
    "constant operand": (_add_constant, "both inputs are constant"),
    "float middle": (_float_middle, "in the middle of the model"),
    "condition": (_condition_on_two, "joins several tensors in float or by a condition"),
    "float output": (_float_output, "this output is computed in float"),
    "int8 in a float operator": (_negated, "NEG: on int8 it is not supported"),
    "float untouched": (_float_untouched, "it is a float32 model"),
    "quotients": (_small_quotients, "cannot compute quotients as small"),
    "five dimensions": (_batched_norm, "5 dimensions instead of four"),
    "repetition": (_repeated_without_end, "elements"),
    "several matrices": (_several_matrices, "differs from batch to batch"),
    "listed twice": (_listed_twice, "2 of the model's inputs at once"),
}


@pytest.mark.parametrize("case", BAD_TFLITE)
def test_bad_tflite(tmp_path, case):
    build, message = BAD_TFLITE[case]
    m = TfliteModel()
    problems_found = problems_of(m.save(tmp_path / "m.tflite", *build(m)))
    assert message in "\n".join(map(str, problems_found))


def test_a_failing_rule_is_not_called_damage(tmp_path, monkeypatch):
    def wrong(importer, op):
        raise TypeError("unsupported operand")

    monkeypatch.setitem(RULES, "CONV_2D", wrong)
    m = TfliteModel()
    (found,) = problems_of(m.save(tmp_path / "m.tflite", *tflite_conv(m)))
    assert (found.op, found.node) == ("CONV_2D", "t3")
    assert "importing it failed: unsupported operand" in found.reason
    assert "damaged" not in str(found)
    assert "report it" in found.remedy


@pytest.mark.parametrize("axis", range(4))
def test_only_the_batch_may_be_symbolic(tmp_path, axis):
    """As many images as the shape has, which is one."""
    m = TfliteModel()
    ends = tflite_conv(m)
    signature = [1, 6, 6, 4]
    signature[axis] = -1
    m.graph.tensors[0].shapeSignature = signature
    path = m.save(tmp_path / "m.tflite", *ends)
    if axis == 0:
        assert frontends.load(path).tensors["t0"].shape == (6, 6, 4)
        return
    assert "dynamic shape" in str(problems_of(path)[0])


@pytest.mark.parametrize(("most", "read"), [(1, True), (0, False)])
def test_a_file_has_so_many_operators_and_eight_times_as_many_tensors(
    tmp_path, monkeypatch, most, read
):
    m = TfliteModel()
    path = m.save(tmp_path / "m.tflite", *tflite_conv(m))
    assert len(m.graph.tensors) > 1 == len(m.graph.operators)
    monkeypatch.setattr("vmcu_tools.frontends.tflite.file.MAX_NODES", most)
    if read:
        frontends.load(path)
        return
    (problem,) = problems_of(path)
    assert "1 operators, 4 tensors" in str(problem)


def test_what_follows_from_a_problem_is_not_reported(tmp_path):
    m = TfliteModel()
    (found,) = problems_of(m.save(tmp_path / "m.tflite", *_float_middle(m)))
    assert found.op == "SOFTMAX"


def test_all_problems_are_reported_at_once(tmp_path):
    m = TfliteModel()
    found = problems_of(m.save(tmp_path / "m.tflite", *_unknown(m)))
    assert [(problem.op, problem.node) for problem in found] == [
        ("COMPLEX_ABS", "t1"),
        ("CUMSUM", "t2"),
    ]
    assert all(problem.remedy for problem in found)


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
    "expand to nothing": (_onnx_to_nothing("Expand", [1, 3, 0, 2]), "its shape is [1, 3, 0, 2]"),
    "reshape to nothing": (
        _onnx_to_nothing("Reshape", [1, 3, 0, 2], allowzero=1),
        "its shape is [1, 3, 0, 2]",
    ),
    "resize to nothing": (
        _onnx_to_nothing("Resize", None, np.float32([1, 1, 0.3, 1])),
        "its output is [1, 3, 0, 2]",
    ),
    "repeated no time": (_onnx_to_nothing("Tile", [1, 1, 0, 1]), "it repeats [1, 1, 0, 1] times"),
    "one operand": (_onnx_one_operand, "MatMul: it has 1 inputs; ONNX asks for 2"),
    "int8 relu": (_onnx_int8_relu, "without regard to their scale"),
    "unused input": (_onnx_unused_input, "constant where an activation is needed"),
    "float only": (_onnx_float, "float model"),
    "unknown op": (_onnx_op("LRN"), "LRN: this operation is not supported"),
    "dynamic": (_onnx_op("Relu", (1, 3, "H", "W")), "dynamic shape"),
    "dynamic vector": (_onnx_op("Relu", ("N",)), "dynamic shape"),
    "empty": (_onnx_no_columns, "shape [2, 3, 0] is empty"),
    "batch": (_onnx_op("GlobalMaxPool", (2, 3, 4, 4)), "batch size 2"),
    "five dimensions": (_onnx_op("GlobalMaxPool", (1, 3, 4, 4, 4)), "not (1, C, H, W)"),
    "zero scale": (_onnx_op("Relu", stated=(0.0,)), "scale of an activation is 0.0"),
    "nan scale": (_onnx_op("Relu", stated=(np.nan,)), "scale of an activation is nan"),
    "int16": (_onnx_int16, "int16, not int8"),
    "softmax axis": (_onnx_op("Softmax", (1, 3, 4, 5), axis=7), "axis 7 of 4 dimensions"),
    "pool kernel": (_onnx_op("MaxPool", (1, 3, 4, 4), kernel_shape=[0, 2]), "bad kernel"),
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
    m = OnnxModel()
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


def test_missing_file_suggests_the_close_one(tmp_path):
    (tmp_path / "model.tflite").write_bytes(b"")
    with pytest.raises(UserError, match=r"Did you mean .*model\.tflite\?"):
        frontends.load(tmp_path / "modle.tflite")
    with pytest.raises(UserError, match="no such file"):
        oracle.open(tmp_path / "nowhere" / "model.tflite")


def test_foreign_files(tmp_path):
    for name, content in (("a.txt", b"hello"), ("b.tflite", b"hello"), ("c.onnx", b"hello there")):
        path = tmp_path / name
        path.write_bytes(content)
        problems_of(path)
    problems_of(tmp_path)


def test_missing_package_says_what_to_install():
    with pytest.raises(UserError, match="pip install vmcu-no-such-package"):
        required("vmcu_no_such_package", "vmcu-no-such-package", "test")
