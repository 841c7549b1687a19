# SPDX-License-Identifier: Apache-2.0
"""Float models through calibration: the file, the report, and what is wrong with the data."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel, float_network
from vmcu_bench import oracle
from vmcu_tools import frontends
from vmcu_tools.cli import main
from vmcu_tools.errors import UserError
from vmcu_tools.quantize import calibration
from vmcu_tools.quantize.leftovers import quantise_leftovers

SHAPE = (3, 16, 16)
FLOAT = onnx.TensorProto.FLOAT


@pytest.fixture
def model(tmp_path):
    return float_network(tmp_path / "float.onnx")


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


def drawn(count: int = 6) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(count, *SHAPE)).astype(np.float32)


@pytest.mark.parametrize("method", calibration.METHODS)
def test_quantise(tmp_path, capsys, model, method):
    data, target = save(tmp_path / "data.npz", x=drawn()), tmp_path / "int8.onnx"
    figures = tmp_path / "report.json"
    words = ["quantize", str(model), "--calibration", str(data), "-o", str(target)]
    assert main([*words, "--calibration-method", method, "--json", str(figures)]) == 0
    assert "samples" in capsys.readouterr().out
    report = json.loads(figures.read_text())
    ratios = [layer["signal_to_noise"] for layer in report["layers"]]
    assert ratios == sorted(ratios) and ratios[0] > 10 and report["top1"] >= 0.5
    assert report["per_channel"] and report["method"] == method
    kinds = {node.kind for node in frontends.load(target).nodes}
    assert {"Conv2D", "DepthwiseConv2D", "Add"} <= kinds


def test_weights_in_a_file_of_their_own(tmp_path, model):
    """As PyTorch exports them."""
    data = save(tmp_path / "data.npz", x=drawn())
    parted = tmp_path / "parted.onnx"
    onnx.save(onnx.load(model), parted, save_as_external_data=True, size_threshold=0)
    assert (tmp_path / "parted.onnx").stat().st_size < model.stat().st_size / 2
    made = []
    for source in (model, parted):
        words = ["quantize", str(source), "--calibration", str(data)]
        assert main([*words, "-o", str(tmp_path / "int8.onnx")]) == 0
        made.append((tmp_path / "int8.onnx").read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceMax", "GlobalMaxPool"])
def test_reductions_between_layers(tmp_path, op):
    """PyTorch writes a global mean as ReduceMean over the last two axes."""
    m = OnnxModel()
    weights = m.rng.normal(size=(4, 3, 3, 3)).astype(np.float32)
    y = m.node("Relu", [m.node("Conv", ["x", m.constant(weights)])])
    axes = {} if op == "GlobalMaxPool" else {"axes": [2, 3]}
    y = m.node("Flatten", [m.node(op, [y], **axes)])
    y = m.node("Gemm", [y, m.constant(m.rng.normal(size=(4, 5)).astype(np.float32))])
    path, target = tmp_path / "m.onnx", tmp_path / "q.onnx"
    onnx.save(m.proto({"x": (FLOAT, (1, *SHAPE))}, {y: (FLOAT, None)}), path)
    samples = [{"x": x[None]} for x in drawn()]
    calibration.quantize_and_judge(path, target, samples)
    assert main(["verify", str(target), "-n", "2"]) == 0


def test_the_report_finds_the_layer_that_suffers(tmp_path):
    """Weights a thousand times larger than the others, for an input that is hardly there, leave
    the others without bits; not so with a scale for each output channel."""
    m = OnnxModel()
    weights = m.rng.normal(size=(4, 3, 3, 3)).astype(np.float32)
    weights[0] = [[[1000]], [[0]], [[0]]]
    y = m.node("Conv", ["x", m.constant(weights)])
    path = tmp_path / "m.onnx"
    onnx.save(m.proto({"x": (FLOAT, (1, *SHAPE))}, {y: (FLOAT, None)}), path)
    samples = [{"x": x[None] * np.float32([[[[1e-3]], [[1]], [[1]]]])} for x in drawn()]
    coarse, fine = (
        calibration.quantize_and_judge(path, tmp_path / "q.onnx", samples, per_channel=each)
        for each in (False, True)
    )
    assert coarse.layers[0].signal_to_noise < 3 < 7 < fine.layers[0].signal_to_noise


@pytest.mark.parametrize("command", [["build"], ["build", "--pareto"], ["verify", "-n", "1"]])
def test_calibration_in_front_of_a_command(tmp_path, capsys, model, command):
    data = save(tmp_path / "data.npz", x=drawn())
    assert main([*command, str(model), "--calibration", str(data)]) == 0
    assert main([*command, str(model)]) == 1
    assert "--calibration" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": drawn(), "z": drawn()}, "no samples for the input 'x'"),
        ({"x": drawn()[:, :2]}, "the input (1, 3, 16, 16)"),
        ({"x": drawn() * np.nan}, "no numbers"),
        ({"x": drawn()[:0]}, "of shape (0, 3, 16, 16)"),
        ({"x": np.array(["a"])}, "samples of 'x' are <U1"),
    ],
)
def test_bad_data(tmp_path, model, arrays, message):
    with pytest.raises(UserError) as caught:
        calibration.read_samples(model, save(tmp_path / "data.npz", **arrays))
    assert message in str(caught.value)
    assert all(problem.remedy for problem in caught.value.problems)


def test_close_match_of_an_input(tmp_path, model):
    data = save(tmp_path / "data.npz", xx=drawn(), other=drawn())
    with pytest.raises(UserError, match="rename 'xx'"):
        calibration.read_samples(model, data)


def test_files_that_are_none(tmp_path, capsys, model):
    data = save(tmp_path / "data.npz", x=drawn())
    (tmp_path / "text.npz").write_text("no archive")
    words = ["-o", str(tmp_path / "q.onnx"), "--calibration"]
    assert main(["quantize", str(model), *words, str(tmp_path / "absent.npz")]) == 1
    assert main(["quantize", str(model), *words, str(tmp_path / "text.npz")]) == 1
    assert main(["quantize", str(tmp_path / "flat.onnx"), *words, str(data)]) == 1
    assert "float.onnx" in capsys.readouterr().err
    assert not (tmp_path / "q.onnx").exists()


def test_quantised_already(tmp_path, model):
    samples = [{"x": x[None]} for x in drawn(2)]
    calibration.quantize(model, tmp_path / "q.onnx", samples)
    with pytest.raises(UserError, match="already quantised"):
        calibration.quantize(tmp_path / "q.onnx", tmp_path / "r.onnx", samples)


def test_operators_that_onnxruntime_leaves_in_float(tmp_path):
    """A model that ends with one, and one between two activations."""
    m = OnnxModel(opset=17)
    w = m.constant(m.rng.normal(size=(3, 3, 3, 3)).astype(np.float32))
    y = m.node("Conv", ["x", w], pads=[1, 1, 1, 1])
    y = m.node("Tanh", [m.node("Sub", [y, "x"])])
    path = tmp_path / "m.onnx"
    onnx.save(m.proto({"x": (FLOAT, (1, *SHAPE))}, {y: (FLOAT, (1, *SHAPE))}), path)
    calibration.quantize(path, tmp_path / "q.onnx", [{"x": x[None]} for x in drawn(2)])
    graph = oracle.open(tmp_path / "q.onnx").graph
    assert {node.kind for node in graph.nodes} == {"Conv2D", "Binary", "Lookup"}


def masked(m: OnnxModel) -> str:
    chosen = m.constant(np.arange(12).reshape(1, 3, 2, 2) % 3 > 0)
    return m.node("MaxPool", [m.node("Where", [chosen, "x", m.constant(np.float32(0.5))])], **ONE)


def clamped(m: OnnxModel) -> str:
    y = m.node("Clip", [m.node("Relu", ["x"]), "", m.constant(np.float32(1.5))])
    return m.node("Transpose", [m.node("Identity", [y])], perm=[0, 2, 3, 1])


def read_twice(m: OnnxModel) -> str:
    weights = m.constant(m.rng.normal(size=(3, 3, 1, 1)).astype(np.float32))
    pooled = m.node("AveragePool", ["x"], **ONE)
    return m.node("Add", [m.node("Conv", ["x", weights]), m.node("MaxPool", [pooled], **ONE)])


def factors(m: OnnxModel) -> str:
    """Of which onnxruntime quantises none, nor a bias for each row."""
    weights, bias = (m.constant(m.rng.normal(size=s).astype(np.float32)) for s in ((7, 12), (1, 7)))
    y = m.node("Gemm", [m.node("Flatten", ["x"]), weights, bias], transB=1, alpha=0.5, beta=2.0)
    return m.node("Gemm", [y, m.constant(np.eye(7, dtype=np.float32)), m.constant(np.float32(1))])


def divided(m: OnnxModel) -> str:
    """By a number for each channel, and such numbers by values."""
    drawn = m.constant(m.rng.uniform(0.5, 2, (1, 3, 1, 1)).astype(np.float32))
    offset = m.node("Add", [m.node("Abs", ["x"]), m.constant(np.float32(0.5))])
    return m.node("Div", [drawn, m.node("Div", [offset, drawn])])


def grouped(m: OnnxModel) -> str:
    weights, bias = (m.constant(m.rng.normal(size=s).astype(np.float32)) for s in ((3, 2, 2, 2), 6))
    return m.node("ConvTranspose", ["x", weights, bias], group=3, strides=[2, 2])


ONE = {"kernel_shape": [1, 1]}


@pytest.mark.parametrize("build", [masked, clamped, read_twice, factors, divided, grouped])
def test_nothing_is_left_in_float(tmp_path, capsys, build):
    """Not even where nothing in front of an operator is quantised, or nothing behind it."""
    m = OnnxModel(3, opset=17)
    y = build(m)
    model = m.proto({"x": (FLOAT, (1, 3, 2, 2))}, {y: (FLOAT, None)})
    onnx.save(model, path := tmp_path / "m.onnx")
    data = save(tmp_path / "data.npz", x=m.rng.normal(size=(8, 3, 2, 2)))
    target = tmp_path / "q.onnx"
    words = ["--calibration", str(data), "-q"]
    assert main(["quantize", str(path), "-o", str(target), *words]) == 0
    assert main(["verify", str(target), "-n", "2", "-q"]) == 0, capsys.readouterr().err
    samples = calibration.read_samples(path, data)
    report = calibration.quantize_and_judge(path, target, samples)
    assert report.layers and report.layers[0].signal_to_noise > 30


def test_what_lies_between_elements_is_not_cut_off_before():
    """Means may have a narrower range than what they are of, which needs a scale of its own."""
    m = OnnxModel(3, opset=17)
    y = m.node(
        "Where", [m.constant(np.eye(2) > 0), m.qdq("x", m.stated()), m.constant(np.float32(0))]
    )
    z = m.node("Resize", [y, "", "", m.constant(np.array([1, 3, 1, 1]))], mode="linear")
    model = m.proto({"x": (FLOAT, (1, 3, 2, 2))}, {m.qdq(z, m.stated()): (FLOAT, None)})
    asked: list[str] = []
    quantise_leftovers(model, lambda names: asked.extend(names) or dict.fromkeys(names, (-1, 1)))
    assert asked == [y]


def test_what_is_wrong_is_told_of_the_file_that_was_given(tmp_path, capsys):
    m = OnnxModel(opset=17)
    y = m.node("Resize", ["x", "", m.constant(np.float32([1, 1, 2, 2]))], mode="cubic")
    model = m.proto({"x": (FLOAT, (1, 3, 2, 2))}, {y: (FLOAT, None)})
    onnx.save(model, path := tmp_path / "m.onnx")
    data = save(tmp_path / "data.npz", x=np.ones((1, 3, 2, 2)))
    assert main(["build", str(path), "--calibration", str(data)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {path}: ")


@pytest.mark.parametrize(
    ("dtype", "bounds"),
    [(np.int8, (-127, 100)), (np.uint8, (1, 228)), (np.int8, (-3, None)), (np.uint8, (None, 7))],
)
def test_fake_quantisation_with_a_narrow_range(tmp_path, dtype, bounds):
    """Exporters put a Clip between QuantizeLinear and DequantizeLinear."""
    m = OnnxModel(dtype=dtype)
    first = m.stated()
    q = m.node("QuantizeLinear", ["x", *first])
    q = m.node("Clip", [q, *("" if b is None else m.constant(dtype(b)) for b in bounds)])
    y = m.qdq(
        m.node("MaxPool", [m.node("DequantizeLinear", [q, *first])], kernel_shape=[2, 2]), first
    )
    path = tmp_path / "m.onnx"
    onnx.save(m.proto({"x": (FLOAT, (1, *SHAPE))}, {y: (FLOAT, None)}), path)
    judge = oracle.open(path)
    values = np.random.default_rng(0).integers(-128, 128, (16, 16, 3)).astype(np.int8)
    for found in oracle.node_differences(judge.graph, judge.run([values])):
        assert found.largest == 0


def test_an_operator_that_nothing_can_be_done_about(tmp_path, capsys):
    """It is named, with calibration data and without; the data do not help."""
    m = OnnxModel()
    y = m.node("Det", ["x"])
    path = tmp_path / "m.onnx"
    onnx.save(m.proto({"x": (FLOAT, (1, 3, 3))}, {y: (FLOAT, None)}), path)
    data = save(tmp_path / "data.npz", x=np.zeros((2, 1, 3, 3), np.float32))
    for words in (["--calibration", str(data)], []):
        assert main(["build", str(path), *words]) == 1
        error = capsys.readouterr().err
        assert "(Det): " in error
        assert "Traceback" not in error
