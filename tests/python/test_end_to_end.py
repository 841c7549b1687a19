# SPDX-License-Identifier: Apache-2.0
"""What `vmcu verify` says of a model from the file's inputs to its outputs, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel, conv, dense, single, unary
from builders.onnx_options import index_of_extreme
from builders.tflite_models import TfliteModel, depthwise
from drawn import case
from random_builder import Builder
from vmcu_bench.oracle import whole
from vmcu_bench.oracle.compare import node_differences
from vmcu_bench.runners import borders, compiled
from vmcu_bench.verify import end_to_end, verify
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit import emit
from vmcu_tools.ops.requantize import Requantize

FLOAT = onnx.TensorProto.FLOAT
IMAGE = (1, 3, 6, 7)
POINT = {"strideH": 1, "strideW": 1, "filterHeight": 1, "filterWidth": 1}


def verified(path: Path, *words: str, on: str = "host") -> int:
    return main(["verify", str(path), "--on", on, "-n", "2", *words])


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx"


def convolution(folder: Path, dtype: type = np.int8) -> Path:
    """All of it exact; float32 in and out, (1, 3, 6, 7) to (1, 5, 6, 7)."""
    layer = conv(3, 5, (3, 3), pads=[1, 1, 1, 1])
    return saved(single(OnnxModel(1, dtype), IMAGE, layer), folder)


def function(folder: Path) -> Path:
    """A step may be off."""
    return saved(single(OnnxModel(2), IMAGE, unary("HardSigmoid", factor=0.02)), folder)


def six_images(folder: Path) -> Path:
    """A first dimension that is no batch of one."""
    m = OnnxModel()
    first = m.stated()
    y = m.qdq(m.node("Transpose", [m.qdq("x", first)], perm=[1, 0, 3, 2]), first)
    return saved(m.proto({"x": (FLOAT, (6, 2, 3, 4))}, {y: (FLOAT, None)}), folder)


def split(folder: Path) -> Path:
    """Two outputs of different shapes, one moved by the file."""
    m = OnnxModel()
    first = m.stated()
    m.node("Split", [m.qdq("x", first), m.constant(np.array([1, 2]))], axis=1)
    m.nodes[-1].output[:] = ["a", "b"]
    ends = [m.qdq("a", first), m.qdq(m.node("Transpose", ["b"], perm=[0, 3, 1, 2]), first)]
    return saved(m.proto({"x": (FLOAT, IMAGE)}, dict.fromkeys(ends, (FLOAT, None))), folder)


def index(folder: Path) -> Path:
    return saved(index_of_extreme("ArgMax", axis=1, keepdims=0), folder)


def integers(dtype: type) -> Callable[[Path], Path]:
    """.onnx whose own input and output are int8 or uint8, channels first."""

    def build(folder: Path) -> Path:
        m = OnnxModel(3, dtype)
        first = m.stated(0.25)
        x = m.node("DequantizeLinear", ["x", *first])
        y = m.node("QuantizeLinear", [m.node("MaxPool", [x], kernel_shape=[2, 2]), *first])
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return saved(m.proto({"x": (kind, IMAGE)}, {y: (kind, None)}), folder)

    return build


def lite(kind: type) -> Callable[[Path], Path]:
    """.tflite with borders of a type around a pool of one pixel, which moves nothing."""

    def build(folder: Path) -> Path:
        m, shape = TfliteModel(), (1, 3, 5, 4)
        scale, zero = (None, None) if kind is np.float32 else (0.25, 7)
        if kind is np.uint8:
            zero = 7 + 128
        x, y = (m.activation(shape, scale, zero, dtype=kind) for _ in range(2))
        q = x if kind is np.int8 else m.op("QUANTIZE", [x], m.activation(shape, 0.25, 7))
        if kind is np.int8:
            m.op("MAX_POOL_2D", [q], y, "Pool2D", **POINT)
        else:
            p = m.op("MAX_POOL_2D", [q], m.like(q, shape), "Pool2D", **POINT)
            m.op("DEQUANTIZE" if kind is np.float32 else "QUANTIZE", [p], y)
        return m.save(folder / "m.tflite", [x], [y])

    return build


# Values of one sample's outputs.
MODELS: dict[str, tuple[Callable[[Path], Path], tuple[int, ...]]] = {
    "convolution": (convolution, (5 * 42,)),
    "convolution of uint8": (lambda folder: convolution(folder, np.uint8), (5 * 42,)),
    "function": (function, (126,)),
    "six images": (six_images, (144,)),
    "split": (split, (42, 84)),
    "index": (index, (20,)),
    "int8": (integers(np.int8), (90,)),
    "uint8": (integers(np.uint8), (90,)),
    "tflite float32": (lite(np.float32), (60,)),
    "tflite int8": (lite(np.int8), (60,)),
    "tflite uint8": (lite(np.uint8), (60,)),
}
SAMPLES = 3 + 1 + end_to_end.STRIPED


# Each model on the virtual machine and, by turns, on this computer or a board; the rest is slow.
@pytest.mark.parametrize(
    ("name", "on"),
    [
        case(name, on, slow=turn == place % 2)
        for place, name in enumerate(MODELS)
        for turn, on in enumerate(("host", "qemu:m4-64k", "virtual"))
    ],
)
def test_outputs_are_those_of_the_runtime(tmp_path, capsys, name, on):
    build, sizes = MODELS[name]
    assert verified(build(tmp_path), on=on) == 0
    said = re.findall(r"end to end: .*: 0 of ([\d,]+) values differ", capsys.readouterr().out)
    assert [int(count.replace(",", "")) for count in said] == [SAMPLES * size for size in sizes]


@pytest.mark.parametrize("words", [["--stream-input"], ["--rotate"], ["--input-layout", "nhwc"]])
def test_however_the_input_comes(tmp_path, capsys, words):
    assert verified(convolution(tmp_path), *words) == 0
    assert f"0 of {SAMPLES * 5 * 42:,} values differ" in capsys.readouterr().out


def without_first(text: str) -> str:
    return text.replace("VMCU_IO_CHANNELS_FIRST", "0", 1)


def without_last(text: str) -> str:
    return "0".join(text.rsplit("VMCU_IO_CHANNELS_FIRST", 1))


def without_rounding(text: str) -> str:
    return text.replace("VMCU_IO_HALF_AWAY", "0")


def another_zero(text: str) -> str:
    return text.replace("INPUT0_ZERO_POINT,", "INPUT0_ZERO_POINT + 1,")


def mutated(monkeypatch: pytest.MonkeyPatch, mutate: Callable[[str], str]) -> None:
    """Changes the model's tables after their proof, as a fault of the emitter would."""

    def changed(plan, name):
        emitted = emit(plan, name)
        before = emitted.files[f"{name}.c"]
        emitted.files[f"{name}.c"] = mutate(before)
        assert emitted.files[f"{name}.c"] != before
        return emitted

    monkeypatch.setattr(compiled, "emit", changed)


@pytest.mark.parametrize("mutate", [without_first, without_last])
@pytest.mark.parametrize("name", ["convolution", "function", "int8", "uint8"])
def test_a_wrong_order_of_axes_on_one_side_is_seen(tmp_path, capsys, monkeypatch, name, mutate):
    path = MODELS[name][0](tmp_path)
    mutated(monkeypatch, mutate)
    # The tensors' bytes are those of the channels last either way.
    assert verified(path) == 1
    said = capsys.readouterr().out
    assert " matches the reference (" in said and said.rstrip().endswith("FAILED")
    allowed = "allowed: 33%" if name == "function" else "allowed: 0%"
    away = r"end to end: output '\w+': .*of the difference between two inputs, "
    assert re.search(away + allowed, said) and "[" not in said


@pytest.mark.parametrize("converter", ["to_memory", "to_file"])
@pytest.mark.parametrize("name", ["convolution", "function"])
def test_the_converters_in_python_are_seen_too(tmp_path, capsys, monkeypatch, name, converter):
    path, right = MODELS[name][0](tmp_path), getattr(borders, converter)

    def wrong(data, graph, port):
        if converter == "to_memory" or port in graph.outputs:
            port = end_to_end.Port(port.tensor, port.name, port.file_shape, port.dtype)
        return right(data, graph, port)

    monkeypatch.setattr(end_to_end, converter, wrong)
    assert verified(path, on="virtual") == 1
    assert "of the difference between two inputs" in capsys.readouterr().out


@pytest.mark.parametrize("mutate", [without_rounding, another_zero])
def test_a_wrong_conversion_is_seen(tmp_path, capsys, monkeypatch, mutate):
    path = lite(np.float32)(tmp_path)
    mutated(monkeypatch, mutate)
    assert verified(path) == 1
    assert "by at most 1 step" in capsys.readouterr().out


def test_steps_are_reported_and_allowed(tmp_path, capsys, monkeypatch):
    """One byte in ten a step off, where nodes may be."""
    right = end_to_end.outputs

    def a_step_off(plan, target, samples):
        found = right(plan, target, samples)
        step = plan.graph.tensors[plan.graph.outputs[0].tensor].scale
        tenth = np.arange(126).reshape(found[0][0].shape) % 10 == 0
        return [[values + tenth * np.float32(step)] for (values,) in found]

    monkeypatch.setattr(end_to_end, "outputs", a_step_off)
    assert verified(function(tmp_path)) == 0
    off, total = SAMPLES * 13, SAMPLES * 126
    share = f"{off:,} of {total:,} values differ ({off / total:.2%}), by at most 1 step"
    assert share in capsys.readouterr().out


def test_another_size_than_the_runtimes_is_said(tmp_path, capsys, monkeypatch):
    right = end_to_end.outputs
    cut = lambda *args: [[v[..., 1:] for v in values] for values in right(*args)]  # noqa: E731
    monkeypatch.setattr(end_to_end, "outputs", cut)
    assert verified(function(tmp_path)) == 1
    assert "in the runtime [1, " in capsys.readouterr().err


def test_the_largest_value_of_a_vector(tmp_path, monkeypatch):
    path = saved(single(OnnxModel(4), (1, 16), dense("Gemm", 16, 7)), tmp_path)
    plan = compile_model(path)
    (border,) = verify.verify(plan, "host", 3, 1, 0).ends.borders
    assert (border.agreeing, border.samples, border.passed) == (SAMPLES, SAMPLES, True)
    right = end_to_end.outputs
    monkeypatch.setattr(end_to_end, "outputs", lambda *args: negative(right(*args)))
    (border,) = verify.verify(plan, "host", 3, 1, 0).ends.borders
    assert (border.agreeing, border.samples, border.passed) == (0, SAMPLES, False)


def negative(samples: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
    return [[-values for values in sample] for sample in samples]


def test_what_the_runtime_does_not_run_as_it_is(tmp_path, capsys):
    m = TfliteModel()
    x = m.activation((1, 2, 3, 4))
    times = m.constant(np.array([1, 1, 2, 1], np.int32))
    y = m.op("TILE", [x, times], m.like(x, (1, 2, 6, 4)))
    assert verified(m.save(tmp_path / "m.tflite", [x], [y])) == 0
    (line,) = [n for n in capsys.readouterr().out.splitlines() if n.startswith("end to end")]
    assert "not compared, the runtime does not run this file: TensorFlow Lite" in line


def test_what_the_optimiser_of_the_runtime_rejects(tmp_path):
    """Scales with an axis, as PyTorch writes them: it runs unoptimised, and steps are allowed."""
    model = single(OnnxModel(6), IMAGE, unary("AveragePool", kernel_shape=[2, 2]))
    for tensor in model.graph.initializer:
        if not tensor.dims:
            tensor.dims.append(1)
    path = saved(model, tmp_path)
    plan = compile_model(path)
    _, optimised = whole.runner(path, plan.graph)
    assert not optimised
    (border,) = verify.verify(plan, "host", 3, 1, 0).ends.borders
    assert border.passed and border.values == SAMPLES * 90


def test_samples_that_are_none(tmp_path, capsys):
    path = str(saved(single(OnnxModel(4), (1, 16), dense("Gemm", 16, 7)), tmp_path))
    assert main(["verify", path, "-n", "0"]) == 1
    assert "no input to compare" in capsys.readouterr().err
    assert main(["verify", path, "--seed", "-5"]) == 2
    assert "'-5' is not a count" in capsys.readouterr().err


def test_a_depthwise_convolution_whose_biases_are_said_to_be_none(tmp_path, capsys):
    """TensorFlow Lite Micro would read them, and take this program with it."""
    m = TfliteModel()
    (x,), (y,) = depthwise((4, 5), 3, 1, (3, 3))(m)
    m.graph.operators[0].inputs[2] = -1
    assert verified(m.save(tmp_path / "m.tflite", [x], [y])) == 0
    assert "not compared" in capsys.readouterr().out


def test_an_output_without_an_axis(tmp_path):
    m = TfliteModel()
    x = m.activation((1, 1, 1, 1))
    y = m.op("SQUEEZE", [x], m.like(x, ()), "Squeeze", squeezeDims=[])
    path = m.save(tmp_path / "m.tflite", [x], [y])
    assert verified(path) == 0
    np.save(tmp_path / "x.npy", np.int8([[[[7]]]]))
    words = ["--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "y.npy")]
    assert main(["run", str(path), *words]) == 0
    found = np.load(tmp_path / "y.npy")
    assert (found.shape, int(found)) == ((), 7)


@pytest.mark.parametrize("lacking", [(), (0,), (1,), (0, 1, 2)])
def test_a_node_is_judged_by_the_values_of_its_inputs(lacking: tuple[int, ...]) -> None:
    """Wrong bytes of one node are its own; a tensor that nobody has is computed, and not judged."""
    b = Builder(np.random.default_rng(1))
    x = b.input((2, 3, 4))
    names = []
    for _ in range(3):
        x = b.node(Requantize(None), [x], x.shape)
        names.append(x.name)
    graph = b.graph([x.name])
    start = np.arange(24, dtype=np.int8).reshape(2, 3, 4)
    values = {graph.inputs[0].tensor: start, **{name: start.copy() for name in names}}
    wrong = [number for number in (0, 2) if number not in lacking]
    for number in wrong:
        values[names[number]] = start.copy()
        values[names[number]][1, 2, 2:] += np.array([3, -5], np.int8)
    for number in lacking:
        del values[names[number]]
    found = {one.node.outputs[0]: one for one in node_differences(graph, values)}
    assert set(found) == {name for n, name in enumerate(names) if n not in lacking}
    # Each hands on what it gets: of one that nobody has, what it got.
    before = start
    for name in names:
        if name in found:
            off = np.abs(values[name].astype(int) - before)
            assert (found[name].largest, found[name].count) == (off.max(), np.count_nonzero(off))
            assert found[name].total == 24
            assert found[name].values == len(np.unique(values[name]))
        before = values.get(name, before)
