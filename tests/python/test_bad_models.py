# SPDX-License-Identifier: Apache-2.0
"""Whatever is wrong with a model file, the user gets one message that names it, no traceback."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from builders import tflite_models
from builders.tflite_models import TfliteModel
from vmcu_bench import oracle
from vmcu_tools import frontends
from vmcu_tools.errors import Problem, UserError
from vmcu_tools.frontends.tflite.ops import RULES
from vmcu_tools.runtimes import required


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
    "float only": (_float_only, "this is a float32 model"),
    "unknown op": (_unknown, "COMPLEX_ABS): this operation is not supported"),
    "dynamic": (_shape((1, 1, 1, 4), signature=(-1, -1, -1, 4)), "dynamic shape"),
    "batch": (_shape((2, 6, 6, 4)), "batch size 2"),
    "huge": (_shape((1, 60000, 60000, 4)), "bytes"),
    "empty": (_shape((1, 0, 6, 4)), "empty"),
    "rank": (_shape((6, 4)), "2 dimensions instead of four"),
    "output shape": (_shape((1, 6, 5, 8), 3), "computes"),
    "uint8": (_attribute(0, type=3), "the tensors are uint8"),
    "int16": (_attribute(0, type=7), "int16, not int8"),
    "zero scale": (_quantisation("scale", [0.0]), "scale of tensor 't0' is 0.0"),
    "nan scale": (_quantisation("scale", [np.nan]), "is nan"),
    "zero point": (_quantisation("zeroPoint", [300]), "zero point 300"),
    "weight scale": (_quantisation("scale", [0.0] * 8, 1), "weights is zero or not a number"),
    "weight zero point": (_quantisation("zeroPoint", [1] * 8, 1), "weights have a zero point"),
    "scale count": (_quantisation("scale", [1.0] * 3, 1), "3 scales for 8 channels"),
    "no weights": (_attribute(1, buffer=0), "weights are not constant"),
    "stride": (_option(strideH=0), "invalid kernel"),
    "fused": (_option(fusedActivationFunction=4), "fused activation 4"),
    "subgraphs": (_two_subgraphs, "2 subgraphs"),
    "constant operand": (_add_constant, "both inputs are constant"),
    "float middle": (_float_middle, "in the middle of the model"),
    "condition": (_condition_on_two, "several tensors are combined in float or by a condition"),
    "float output": (_float_output, "this output is computed in float"),
    "int8 in a float operator": (_negated, "NEG): on int8 it is not supported"),
    "float untouched": (_float_untouched, "this is a float32 model"),
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


def test_missing_file_suggests_the_close_one(tmp_path):
    (tmp_path / "model.tflite").write_bytes(b"")
    with pytest.raises(UserError, match=r"did you mean .*model\.tflite\?"):
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
    with pytest.raises(UserError, match=r"pip install '\.\[verify\]'"):
        required("vmcu_no_such_package", "vmcu-no-such-package", "test")
