# SPDX-License-Identifier: Apache-2.0
"""Files that say the same in another form: tensors in another order, options left out or written
out, other file names. What they mean is the same, to the byte."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import onnx_models, tflite_models, tflite_ops
from builders.networks import extreme_inputs
from builders.onnx_models import OnnxModel
from builders.tflite_models import TfliteModel
from onnx import AttributeProto, helper
from refusals_onnx import SOUND
from vmcu_tools import frontends
from vmcu_tools.errors import UserError
from vmcu_tools.frontends.common import UnsupportedError, hwc, hwc_axis
from vmcu_tools.frontends.onnx.values import tensor_axis, tensor_shape
from vmcu_tools.graph import Graph
from vmcu_tools.machine import reference

TFLITE = tflite_models.CASES | tflite_ops.CASES
ONNX = SOUND
FLOAT = onnx.TensorProto.FLOAT


def meaning(graph: Graph) -> list[np.ndarray]:
    values = reference.run(graph, extreme_inputs(graph, 1))
    return [values[port.tensor] for port in graph.outputs]


def expect_the_same(one: Graph, other: Graph) -> None:
    assert [node.kind for node in one.nodes] == [node.kind for node in other.nodes]
    for ports in ("inputs", "outputs"):
        pairs = zip(getattr(one, ports), getattr(other, ports), strict=True)
        for a, b in pairs:
            assert (a.name, a.file_shape, a.dtype, a.layout) == (
                (b.name, b.file_shape, b.dtype, b.layout)
            )
            assert one.tensors[a.tensor] == other.tensors[b.tensor]
    for a, b in zip(meaning(one), meaning(other), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("case", TFLITE)
def test_tflite_tensors_come_in_any_order(case: str, tmp_path: Path) -> None:
    """Every tensor is the first one once."""
    m = TfliteModel(4)
    inputs, outputs = TFLITE[case](m)
    known = frontends.load(m.save(tmp_path / "m.tflite", inputs, outputs))
    count = len(m.graph.tensors)
    m.graph.tensors = [m.graph.tensors[-1], *m.graph.tensors[:-1]]
    for step in range(1, count):
        for op in m.graph.operators:
            for name in ("inputs", "outputs"):
                moved = [n if n < 0 else (n + 1) % count for n in getattr(op, name)]
                setattr(op, name, moved)
        ends = ([(n + step) % count for n in numbers] for numbers in (inputs, outputs))
        expect_the_same(known, frontends.load(m.save(tmp_path / "m.tflite", *ends)))
        m.graph.tensors = [m.graph.tensors[-1], *m.graph.tensors[:-1]]


def defaults(model: onnx.ModelProto, node: onnx.NodeProto) -> dict[str, AttributeProto]:
    """Those that the operator's definition states, by name."""
    versions = {opset.domain: opset.version for opset in model.opset_import}
    try:
        schema = onnx.defs.get_schema(node.op_type, versions[node.domain], node.domain)
    except onnx.defs.SchemaError:
        # What ONNX Runtime adds.
        return {}
    stated = {name: attribute.default_value for name, attribute in schema.attributes.items()}
    return {name: value for name, value in stated.items() if value.type != AttributeProto.UNDEFINED}


@pytest.mark.parametrize("case", ONNX)
def test_an_option_left_out_is_the_default_of_its_definition(case: str, tmp_path: Path) -> None:
    model = ONNX[case]()
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    known = frontends.load(path)
    for number, node in enumerate(model.graph.node):
        for name, default in defaults(model, node).items():
            other = onnx.ModelProto()
            other.CopyFrom(model)
            same = other.graph.node[number]
            there = [attribute for attribute in same.attribute if attribute.name == name]
            if not there:
                same.attribute.append(default)
                same.attribute[-1].name = name
            elif helper.get_attribute_value(there[0]) == helper.get_attribute_value(default):
                same.attribute.remove(there[0])
            else:
                continue
            onnx.save(other, path)
            expect_the_same(known, frontends.load(path))


@pytest.mark.parametrize("name", ["m.tflite", "m.bin", "m", "m.onnx"])
def test_a_tflite_file_is_known_by_its_content(name: str, tmp_path: Path) -> None:
    m = TfliteModel()
    path = m.save(tmp_path / name, *tflite_models.conv((6, 6), 4, 8, (3, 3))(m))
    assert frontends.format_of(path) == "tflite"
    assert [node.kind for node in frontends.load(path).nodes] == ["Conv2D"]


def test_a_file_without_content_is_known_by_its_name(tmp_path: Path) -> None:
    for name, wanted in (("a.tflite", "tflite"), ("a.onnx", "onnx")):
        (tmp_path / name).write_bytes(b"nothing that anybody knows")
        assert frontends.format_of(tmp_path / name) == wanted
    (tmp_path / "a.h5").write_bytes(bytes(100))
    with pytest.raises(UserError, match=r"neither \.tflite nor \.onnx"):
        frontends.format_of(tmp_path / "a.h5")


def test_a_missing_file_brings_those_that_are_there_to_mind(tmp_path: Path) -> None:
    for name in ("speech.onnx", "vision.tflite", "notes.txt"):
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=r"did you mean \S*speech\.onnx\?"):
        frontends.load(tmp_path / "spech.onnx")
    with pytest.raises(UserError, match=r"did you mean \S*speech\.onnx or \S*vision\.tflite\?"):
        frontends.load(tmp_path / "quite another")
    shutil.rmtree(tmp_path)
    with pytest.raises(UserError, match=r"give the path of a \.onnx or \.tflite file"):
        frontends.load(tmp_path / "m.onnx")


def test_nodes_of_a_file_are_named_whatever_is_supported(tmp_path: Path) -> None:
    m = TfliteModel()
    x = m.activation((1, 8))
    y = m.op("COMPLEX_ABS", [x], m.activation((1, 8)))
    path = m.save(tmp_path / "m.tflite", [x], [m.op("RELU", [y], m.activation((1, 8)))])
    assert frontends.file_nodes(path) == [("t1", "COMPLEX_ABS"), ("t2", "RELU")]
    model = ONNX["conv 3x3 (13)"]()
    model.graph.node[0].op_type = "Unheard"
    onnx.save(model, tmp_path / "m.onnx")
    wanted = [(node.name, node.op_type) for node in model.graph.node]
    assert frontends.file_nodes(tmp_path / "m.onnx") == wanted


def test_a_quantised_input_may_be_an_output(tmp_path: Path) -> None:
    m = TfliteModel()
    x = m.activation((1, 4, 4, 3), dtype=np.float32)
    q = m.op("QUANTIZE", [x], m.activation((1, 4, 4, 3)))
    r = m.op("RELU", [q], m.like(q, (1, 4, 4, 3)))
    graph = frontends.load(m.save(tmp_path / "m.tflite", [x], [q, r]))
    assert [port.tensor for port in graph.outputs] == [graph.inputs[0].tensor, "t2"]


def test_sums_over_each_other_are_not_written_out(tmp_path: Path) -> None:
    """Two files of some kilobytes that would be gigabytes together."""
    m = TfliteModel()
    x, y = m.activation((1, 60_000, 1, 1)), m.activation((1, 1, 60_000, 1))
    z = m.op("ADD", [x, y], m.activation((1, 60_000, 60_000, 1)), "Add")
    with pytest.raises(UserError, match="3600000000"):
        frontends.load(m.save(tmp_path / "m.tflite", [x, y], [z]))


def test_sums_of_equal_shapes_are_additions(tmp_path: Path) -> None:
    for shape, kind in (((1, 4, 5, 3), "Add"), ((1, 1, 1, 3), "Binary")):
        m = TfliteModel()
        a, b = m.activation((1, 4, 5, 3)), m.activation(shape)
        y = m.op("ADD", [a, b], m.activation((1, 4, 5, 3)), "Add")
        graph = frontends.load(m.save(tmp_path / "m.tflite", [a, b], [y]))
        assert [node.kind for node in graph.nodes] == [kind]


SHAPES = [(1, 5, 7, 3), (1, 5, 7), (5, 7), (7,), (3, 5, 7), (2, 3, 5, 7), (1, 1, 2, 3, 5, 7)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_axis_is_where_its_size_went(shape: tuple[int, ...]) -> None:
    """Sizes tell axes apart; a batch, and an axis of several that became one, is none alone."""
    rank = len(shape)
    inside = tensor_shape(shape, None)
    assert math.prod(inside) == math.prod(shape)
    for axis in range(rank):
        if rank > 1 and shape[axis] == 1:
            continue
        place = tensor_axis(axis, shape)
        assert place == tensor_axis(axis - rank, shape)
        alone = shape[axis] in inside and (axis > 0 or rank < 3)
        assert place == (inside.index(shape[axis]) if alone else -1)


@pytest.mark.parametrize("shape", [(1, 5, 7, 3), (1, 5, 7), (5, 7), (7,)], ids=str)
def test_an_axis_of_channels_last_is_where_its_size_went(shape: tuple[int, ...]) -> None:
    inside, rank = hwc(shape), len(shape)
    for axis in range(rank):
        if rank > 2 and axis == 0:
            with pytest.raises(UnsupportedError, match="across the batch"):
                hwc_axis(axis, rank)
            continue
        assert hwc_axis(axis, rank) == hwc_axis(axis - rank, rank) == inside.index(shape[axis])
    for axis in (rank, -rank - 1):
        with pytest.raises(UnsupportedError, match=f"of {rank} dimensions"):
            hwc_axis(axis, rank)
    with pytest.raises(UnsupportedError, match="a tensor with 5 dimensions"):
        hwc_axis(1, 5)


REFUSED_SHAPES = {
    (1, 0, 3): r"shape \[1, 0, 3\] is empty or dynamic",
    (2, 3, 4, 5, 6): r"shape \[2, 3, 4, 5, 6\] has more than four dimensions",
    (2, 3, 4): r"batch size 2 in shape \[2, 3, 4\]",
}


@pytest.mark.parametrize("shape", REFUSED_SHAPES, ids=str)
def test_shapes_that_are_no_image(shape: tuple[int, ...]) -> None:
    with pytest.raises(UnsupportedError, match=REFUSED_SHAPES[shape]):
        hwc(shape)
    assert hwc((1, 1, 1, 4, 5, 6)) == (4, 5, 6)
    assert hwc(()) == (1, 1, 1)


NUMPY = {"tensor(float)": np.float32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8}


@pytest.mark.parametrize("case", ONNX)
def test_outputs_have_the_shape_and_type_of_the_runtimes(case: str, tmp_path: Path) -> None:
    session = pytest.importorskip("onnxruntime").InferenceSession
    onnx.save(ONNX[case](), tmp_path / "m.onnx")
    runtime = session(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    graph = frontends.load(tmp_path / "m.onnx")
    feeds = {
        wanted.name: np.zeros(port.file_shape, NUMPY[wanted.type])
        for wanted, port in zip(runtime.get_inputs(), graph.inputs, strict=True)
    }
    for port, values in zip(graph.outputs, runtime.run(None, feeds), strict=True):
        assert port.file_shape == values.shape and np.dtype(port.dtype) == values.dtype


def padded(shape: tuple[int, ...], amounts: list[int]) -> onnx.ModelProto:
    row = shape, onnx_models.unary("Pad", constants=[np.array(amounts)])
    return onnx_models.single(OnnxModel(opset=13), *row)


@pytest.mark.parametrize("shape", [(1, 3, 8), (1, 3, 8, 5)], ids=str)
def test_a_batch_is_not_padded(shape: tuple[int, ...], tmp_path: Path) -> None:
    rank = len(shape)
    for axis in range(rank):
        for end in (axis, axis + rank):
            amounts = [int(place == end) for place in range(2 * rank)]
            onnx.save(padded(shape, amounts), tmp_path / "m.onnx")
            if axis == 0:
                with pytest.raises(UserError, match="use batch size 1"):
                    frontends.load(tmp_path / "m.onnx")
                continue
            (port,) = frontends.load(tmp_path / "m.onnx").outputs
            assert port.file_shape == tuple(n + (a == axis) for a, n in enumerate(shape))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_weights_quantised_by_the_file_are_those_of_the_runtime(count: int, tmp_path: Path) -> None:
    """Float weights behind a QuantizeLinear of a scale for each channel."""
    session = pytest.importorskip("onnxruntime").InferenceSession
    m = OnnxModel(seed=count)
    first = m.stated()
    real = m.rng.uniform(-1.5, 1.5, (count, 3, 2, 5)).astype(np.float32)
    scales = m.constant(m.rng.uniform(0.005, 0.02, count).astype(np.float32))
    zeros = m.constant(np.zeros(count, np.int8))
    q = m.node("QuantizeLinear", [m.constant(real), scales, zeros], axis=0)
    y = m.node("Conv", [m.qdq("x", first), m.node("DequantizeLinear", [q, scales, zeros], axis=0)])
    kind = onnx.TensorProto.FLOAT
    model = m.proto({"x": (kind, (1, 3, 4, 9))}, {m.qdq(y, m.stated(0.2)): (kind, None)})
    onnx.save(model, tmp_path / "m.onnx")
    (conv,) = frontends.load(tmp_path / "m.onnx").nodes
    model.graph.output.append(helper.make_tensor_value_info(q, onnx.TensorProto.INT8, None))
    run = session(model.SerializeToString(), providers=["CPUExecutionProvider"]).run
    (wanted,) = run([q], {"x": np.zeros((1, 3, 4, 9), np.float32)})
    np.testing.assert_array_equal(conv.op.weights, wanted.transpose(0, 2, 3, 1))


def test_a_function_of_the_file_is_what_is_in_it(tmp_path: Path, monkeypatch) -> None:
    """In number, too: three nodes of each file, one of which scales nothing, and two ports."""
    graphs = []
    for own in (False, True):
        m = OnnxModel()
        first = m.stated()
        x = m.qdq("x", first)
        model = m.proto({"x": (FLOAT, (1, 4))}, {m.node("Relu", [x]): (FLOAT, None)})
        if own:
            node = model.graph.node[-1]
            node.op_type, node.domain = "Own", "own"
            body = [helper.make_node("Relu", ["a"], ["b"])]
            imports = [helper.make_opsetid("", m.opset)]
            model.functions.append(helper.make_function("own", "Own", ["a"], ["b"], body, imports))
            model.opset_import.append(helper.make_opsetid("own", 1))
        onnx.save(model, path := tmp_path / "m.onnx")
        graphs.append(frontends.load(path))
        monkeypatch.setattr("vmcu_tools.frontends.onnx.file.MAX_NODES", 2)
        frontends.load(path)
        monkeypatch.setattr("vmcu_tools.frontends.onnx.file.MAX_NODES", 1)
        with pytest.raises(UserError, match="the model has 3 nodes"):
            frontends.load(path)
        monkeypatch.undo()
    expect_the_same(*graphs)


def test_an_onnx_file_has_so_many_inputs_and_outputs(tmp_path: Path, monkeypatch) -> None:
    m = OnnxModel()
    first = m.stated()
    x = m.qdq("x", first)
    ends = [m.node("Relu", [x]), m.qdq(m.node("MaxPool", [x], kernel_shape=[2, 2]), first)]
    path = tmp_path / "m.onnx"
    onnx.save(m.proto({"x": (FLOAT, (1, 2, 3, 3))}, dict.fromkeys(ends, (FLOAT, None))), path)
    monkeypatch.setattr("vmcu_tools.frontends.onnx.file.MAX_PORTS", 2)
    frontends.load(path)
    monkeypatch.setattr("vmcu_tools.frontends.onnx.file.MAX_PORTS", 1)
    with pytest.raises(UserError, match="1 inputs and 2 outputs"):
        frontends.load(path)
