# SPDX-License-Identifier: Apache-2.0
"""`vmcu quantize` with int4 weights: the file against ONNX Runtime, the scales, the report, and the
limit of flash."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders.onnx_models import OnnxModel, float_network
from onnx import TensorProto, numpy_helper
from promises import assert_within
from random_graphs import random_inputs
from vmcu_bench import oracle
from vmcu_tools.cli import main
from vmcu_tools.errors import UserError
from vmcu_tools.ops import bind
from vmcu_tools.quantize import calibration, int4, int4_scales, widths
from vmcu_tools.quantize.int4_scales import Int4Scales
from vmcu_tools.quantize.judge import compare, showing
from vmcu_tools.quantize.samples import Samples

FLOAT = TensorProto.FLOAT
SAMPLES = 12


def mlp(path: Path) -> Path:
    """Dense layers whose weights are as training leaves them: many small ones and a few large, and
    the inputs differ in size. Input "x" (1, 96), output (1, 6)."""
    m = OnnxModel(7, opset=17)

    def trained(*shape: int) -> str:
        sizes = np.exp(m.rng.normal(size=shape[::-1][:1])).repeat(shape[0]).reshape(shape[::-1]).T
        drawn = m.rng.standard_t(4, shape) * sizes
        return m.constant((drawn / np.sqrt(shape[1])).astype(np.float32))

    def bias(count: int) -> str:
        return m.constant(m.rng.normal(size=count).astype(np.float32))

    y = m.node("Relu", [m.node("Gemm", ["x", trained(64, 96), bias(64)], transB=1)])
    y = m.node("Relu", [m.node("MatMul", [y, trained(64, 40)])])
    y = m.node("Gemm", [y, trained(40, 6), bias(6)])
    onnx.save(m.proto({"x": (FLOAT, (1, 96))}, {y: (FLOAT, (1, 6))}), path)
    return path


NETWORKS = {"mlp": (mlp, (96,)), "cnn": (float_network, (3, 16, 16))}


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """A float model and its calibration data, with the classes that the model itself answers."""
    return network_of(request.param, tmp_path)


def network_of(name: str, folder: Path) -> tuple[Path, Path]:
    build, shape = NETWORKS[name]
    path, data = build(folder / "float.onnx"), folder / "data.npz"
    x = np.random.default_rng(5).normal(size=(SAMPLES, *shape)).astype(np.float32)
    session = showing(onnx.load(path), [])
    labels = [int(np.argmax(session.run(None, {"x": one[None]})[0])) for one in x]
    np.savez(data, x=x, labels=np.array(labels))
    return path, data


def quantize(network: tuple[Path, Path], *words: str) -> tuple[int, Path, dict]:
    """The exit code, the file and the report."""
    path, data = network
    target, figures = path.parent / "q.onnx", path.parent / "report.json"
    named = ["quantize", str(path), "--calibration", str(data), "-o", str(target)]
    code = main([*named, "--json", str(figures), *words])
    return code, target, json.loads(figures.read_text()) if code == 0 else {}


def flash_of(target: Path) -> int:
    """As `vmcu build` has it."""
    figures = target.parent / "build.json"
    words = ["build", str(target), "-o", str(target.parent), "--json", str(figures), "-q"]
    assert main(words) == 0
    found = json.loads(figures.read_text())
    return int(found["weights_bytes"] + found["tables_bytes"])


def prepared(name: str, folder: Path) -> tuple[onnx.ModelProto, onnx.ModelProto, Samples]:
    """The float model as it is quantised, the int8 model, and the samples."""
    path, data = network_of(name, folder)
    samples = calibration.read_samples(path, data)
    real = folder / "prepared.onnx"
    made = calibration._quantize(
        calibration.read_float(path), real, samples, "minmax", True, int4.OPSET
    )
    return made.real, made.int8, samples


@pytest.mark.parametrize("words", [("--weights", "int4"), ("--weights", "int4:32")])
def test_the_file_is_that_of_onnx_runtime(
    network: tuple[Path, Path], words: tuple[str, ...]
) -> None:
    code, target, report = quantize(network, *words)
    assert code == 0
    judge = oracle.open(target)
    for seed in range(8):
        wanted = judge.run(random_inputs(judge.graph, seed))
        for found in oracle.node_differences(judge.graph, wanted):
            assert_within(judge, found)
    assert main(["verify", str(target), "-n", "3", "-q"]) == 0
    kinds = {layer["node"]: layer["bits"] for layer in report["widths"]["layers"]}
    for node in judge.graph.nodes:
        if node.name in kinds:
            small = "int4" in bind(judge.graph, node).target.name
            assert small == (kinds[node.name] == 4), node.name
            assert small == (node.kind != "DepthwiseConv2D"), node.name


def test_the_report(network: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, _, report = quantize(network, "--weights", "int4")
    said = capsys.readouterr().out
    found = report["widths"]
    assert code == 0 and found["flash"] is None
    assert f"their constants {found['constants_int8']:,} -> {found['constants']:,} bytes" in said
    assert found["constants"] < 0.8 * found["constants_int8"]
    assert report["accuracy"] == {"real": 1, "quantized": report["top1"]}
    assert found["snr"] == pytest.approx(output_snr(report), abs=1e-6)
    for layer in found["layers"]:
        if layer["bits"] == 4:
            assert layer["bytes_int4"] < layer["bytes_int8"]
            assert 8 < layer["snr_int4"] < layer["snr_int8"]
        else:
            assert "saves no flash" in layer["reason"] and layer["snr_int4"] is None


def output_snr(report: dict) -> float:
    """Of the only output, which the report lists as any tensor."""
    session = onnx.load(report["target"])
    (output,) = session.graph.output
    return next(one["signal_to_noise"] for one in report["layers"] if one["tensor"] == output.name)


def test_layers_are_in_the_order_of_the_error_for_a_byte(network: tuple[Path, Path]) -> None:
    found = quantize(network, "--weights", "int4")[2]["widths"]
    costs = []
    for layer in found["layers"]:
        if layer["bits"] == 4:
            noise = 10 ** (-layer["output_snr"] / 10) - 10 ** (-found["snr_int8"] / 10)
            costs.append(noise / (layer["bytes_int8"] - layer["bytes_int4"]))
    assert len(costs) > 2 and costs == sorted(costs)


def test_the_limit_of_flash(network: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Every limit is met by the file that was written; one byte less than with int4 weights in all
    layers is refused, with figures and without a file."""
    _, target, report = quantize(network, "--weights", "int4")
    least = flash_of(target)
    most = quantize(network, "--flash", "1G")[2]["widths"]["flash_int8"]
    every = sum(layer["bits"] == 4 for layer in report["widths"]["layers"])
    for limit in (least, (least + most) // 2, most - 1, most):
        code, target, report = quantize(network, "--flash", str(limit))
        widths = report["widths"]
        changed = sum(layer["bits"] == 4 for layer in widths["layers"])
        assert code == 0 and widths["flash"] == flash_of(target) <= limit
        assert {least: changed == every, most: changed == 0}.get(limit, 0 < changed <= every)
    target.unlink()
    capsys.readouterr()
    assert quantize(network, "--flash", str(least - 1))[0] == 1
    problem = capsys.readouterr().err
    assert f"{least:,} bytes" in problem and f"{most:,} with int8" in problem
    assert f"the limit is {least - 1:,}" in problem and not target.exists()


def test_a_layer_that_the_limit_does_not_require_keeps_8_bits(tmp_path: Path) -> None:
    """The first layers of the order save a little; the one behind them saves enough alone."""
    network = network_of("cnn", tmp_path)
    widths = quantize(network, "--weights", "int4")[2]["widths"]
    large = max(widths["layers"], key=lambda layer: layer["bytes_int8"])
    assert widths["layers"].index(large) > 0
    whole = quantize(network, "--flash", "1G")[2]["widths"]["flash_int8"]
    limit = whole - (large["bytes_int8"] - large["bytes_int4"]) + 16
    found = quantize(network, "--flash", str(limit))[2]["widths"]["layers"]
    assert [layer["node"] for layer in found if layer["bits"] == 4] == [large["node"]]


@pytest.mark.parametrize("group", [0, 16])
def test_scales_change_the_output_the_least(tmp_path: Path, group: int) -> None:
    """Not more than any part of the largest weight. The bias makes up for the mean of the error, as
    far as the samples are enough to know it."""
    real, int8, samples = prepared("mlp", tmp_path)
    layers = int4.weighted_layers(int8, real)
    groups = {one.weights: group if one.can_group(group) else 0 for one in layers}
    chosen = Int4Scales(real, layers, samples).chosen(groups)
    readers = {name: node for node in real.graph.node for name in node.input}
    session = showing(real, [readers[one.source].input[0] for one in layers[1:]])
    inputs = zip(*(session.run(None, sample) for sample in samples), strict=True)
    _, *behind = (np.concatenate(one) for one in inputs)
    for layer, x in zip(layers, [np.concatenate([s["x"] for s in samples]), *behind], strict=True):
        made = chosen[layer.weights]
        error = differences(layer, made.scales, x)
        mean = error.mean(axis=0)
        assert (made.shift * mean >= 0).all() and (np.abs(made.shift) <= np.abs(mean) + 1e-6).all()
        assert made.shift.any() == bool(layer.bias)
        parts = np.abs(layer.real.reshape(*made.scales.shape, -1)).max(axis=2)
        grid = [differences(layer, parts / n, x) for n in (7, *np.linspace(5, 20, 200))]
        usual, *others = ((one**2).sum() for one in grid)
        found = ((error - made.shift) ** 2).sum()
        assert found < min(others) and found < 0.8 * usual


def differences(layer: int4.WeightedLayer, scales: np.ndarray, x: np.ndarray) -> np.ndarray:
    """What int4 weights add to the output, (samples, channels)."""
    stated = np.repeat(scales, layer.real.shape[1] // scales.shape[1], axis=1)
    found: np.ndarray = x @ (int4.int4_values(layer, scales) * stated - layer.real).T
    return found


def test_the_bias_makes_up_for_the_mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The inputs are positive, as behind a Relu; one sample is not enough to know a mean."""
    m = OnnxModel(3, opset=17)
    weights, bias = (m.rng.normal(size=n).astype(np.float32) for n in ((8, 32), 8))
    y = m.node("Gemm", ["x", m.constant(weights), m.constant(bias)], transB=1)
    path = tmp_path / "float.onnx"
    onnx.save(m.proto({"x": (FLOAT, (1, 32))}, {y: (FLOAT, (1, 8))}), path)
    x = m.rng.uniform(0.5, 1.5, size=(100, 1, 32)).astype(np.float32)

    def ratio(count: int) -> float:
        samples = [{"x": one} for one in x[:count]]
        asked = widths.Int4()
        found = calibration.quantize_and_judge(path, tmp_path / "q.onnx", samples, int4=asked)
        made, real = (onnx.load(one) for one in (tmp_path / "q.onnx", path))
        assert found.widths is not None
        return compare(real, made, [{"x": one} for one in x])[1][0].signal_to_noise

    with_mean, unknown = ratio(50), ratio(1)
    monkeypatch.setattr(int4_scales._Error, "split", without_bias)
    assert with_mean > ratio(50) + 2
    assert unknown == pytest.approx(ratio(1))


def without_bias(error: int4_scales._Error, _: str) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros_like(error.mean), error.energy / error.samples


def test_groups(tmp_path: Path) -> None:
    """Scales of a channel are whole multiples of one step; the file has the values that its own
    integers and scales state, and a smaller error than with one scale for each channel."""
    real, int8, samples = prepared("mlp", tmp_path)
    layers = int4.weighted_layers(int8, real)
    groups = {layer.weights: 32 if layer.can_group(32) else 0 for layer in layers}
    assert list(groups.values()) == [32, 32, 0]
    scales = Int4Scales(real, layers, samples)
    chosen = scales.chosen(groups)
    for layer in layers[:2]:
        made = chosen[layer.weights]
        multiples = np.rint(made.scales / made.unit[:, None])
        assert multiples.min() >= 1 and (multiples.max(axis=1) == 255).all()
        exact = (made.unit.astype(np.float64)[:, None] * multiples).astype(np.float32)
        np.testing.assert_array_equal(made.scales, exact)
    model = int4.with_int4(int8, layers, chosen)
    onnx.checker.check_model(model)
    for layer in layers:
        loss = np.abs(weights_of(model, layer) - layer.real).max()
        assert loss <= np.abs(layer.real).max() / 3
    ratios = []
    for made in (model, int4.with_int4(int8, layers, scales.chosen(dict.fromkeys(groups, 0)))):
        found = {one.tensor: one.signal_to_noise for one in compare(real, made, samples)[1]}
        ratios.append(sum(found[layer.output] for layer in layers))
    assert ratios[0] > ratios[1] + 1


def weights_of(model: onnx.ModelProto, layer: int4.WeightedLayer) -> np.ndarray:
    """The float weights that ONNX Runtime computes of a file, as `layer.real` has them; they are
    the integers of the file times their scales."""
    node = next(n for n in model.graph.node if int4.name_of(n) == layer.dequantised)
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    session = showing(model, [node.output[0]])
    feeds = {value.name: np.zeros((1, 96), np.float32) for value in model.graph.input}
    (found,) = session.run([node.output[0]], feeds)
    ints, scales = (arrays[name].astype(np.float32) for name in node.input)
    given = {a.name: a.i for a in node.attribute}
    if "block_size" in given:
        wide = np.repeat(scales, given["block_size"], axis=given["axis"])
    else:
        wide = np.expand_dims(scales, 1 - given["axis"])
    np.testing.assert_array_equal(found, ints * wide)
    assert ints.min() >= int4.LOW and ints.max() <= int4.HIGH
    return int4.rows(found, layer.channel_axis)


def test_a_layer_without_a_kernel_for_groups_has_a_scale_for_each_channel(
    network: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The importer's refusal is the reason in the report."""

    def refused(self: object, groups: dict[str, int]) -> dict[str, int]:
        if any(groups.values()):
            raise UserError(*(calibration.Problem("no groups", node=n) for n in nodes))
        return usual(self, groups)

    usual = widths._Forms.constant_bytes
    nodes = [
        layer["node"] for layer in quantize(network, "--weights", "int4")[2]["widths"]["layers"]
    ]
    monkeypatch.setattr(widths._Forms, "constant_bytes", refused)
    code, _, report = quantize(network, "--weights", "int4:32")
    layers = report["widths"]["layers"]
    assert code == 0 and {layer["group"] for layer in layers} == {0}
    assert "no groups" in {layer["reason"] for layer in layers}


def test_a_bias_that_is_large_for_its_weights(tmp_path: Path) -> None:
    """A channel that training has emptied: its scale leaves room for the bias in a sum of 27 bits,
    so that the layer still has an int4 kernel. A channel of zeros has a scale, too."""
    m = OnnxModel(3, opset=17)
    weights = m.rng.normal(size=(8, 32)).astype(np.float32)
    weights[0] *= 1e-9
    weights[1] = 0
    bias = np.full(8, 3, np.float32)
    y = m.node("Gemm", ["x", m.constant(weights), m.constant(bias)], transB=1)
    path, data = tmp_path / "float.onnx", tmp_path / "data.npz"
    onnx.save(m.proto({"x": (FLOAT, (1, 32))}, {y: (FLOAT, (1, 8))}), path)
    np.savez(data, x=m.rng.normal(size=(6, 32)).astype(np.float32))
    code, target, report = quantize((path, data), "--weights", "int4")
    assert code == 0 and report["widths"]["snr"] > 15
    (layer,) = report["widths"]["layers"]
    assert layer["bits"] == 4
    assert main(["verify", str(target), "-n", "3", "-q"]) == 0
    made = showing(onnx.load(target), []).run(None, {"x": np.zeros((1, 32), np.float32)})[0]
    np.testing.assert_allclose(made[0, :2], bias[:2], atol=0.1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--weights", "int8", "--flash", "4K"], "--flash cannot be combined with --weights int8"),
        (["--weights", "int4", "--per-tensor"], "--per-tensor cannot be combined with int4"),
        (["--flash", "10"], "with int4 weights in all layers"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    network = network_of("mlp", tmp_path)
    assert quantize(network, *words)[0] == 1
    problem = capsys.readouterr().err
    assert said in problem and "hint: " in problem and "Traceback" not in problem
    assert not (tmp_path / "q.onnx").exists()


def test_an_opset_that_has_no_int4(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(onnx.version_converter, "convert_version", fail)
    assert quantize(network_of("mlp", tmp_path), "--weights", "int4")[0] == 1
    assert "int4 weights need opset 21" in capsys.readouterr().err


@pytest.mark.parametrize(
    "labels", [np.zeros(3, int), np.zeros(SAMPLES), np.full(SAMPLES, -1), np.array("a")]
)
def test_labels_that_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], labels: np.ndarray
) -> None:
    path, data = network_of("mlp", tmp_path)
    np.savez(data, x=np.load(data)["x"], labels=labels)
    assert quantize((path, data))[0] == 1
    assert "'labels' is" in capsys.readouterr().err


def test_labels_beside_samples_without_a_name(tmp_path: Path) -> None:
    """As without labels, a model with one input needs no name for its samples; int8, too, has an
    accuracy."""
    path, data = network_of("mlp", tmp_path)
    arrays = np.load(data)
    np.savez(data, arrays["x"], labels=arrays["labels"])
    code, _, report = quantize((path, data))
    assert code == 0 and report["widths"] is None
    assert report["accuracy"] == {"real": 1.0, "quantized": 1.0}
