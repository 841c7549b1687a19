# SPDX-License-Identifier: Apache-2.0
"""What fits: figures are those of the plans that `vmcu build` makes, and of networks that have the
sizes that a scaled graph only claims."""

from __future__ import annotations

import concurrent.futures
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import vmcu_tools
from builders import onnx_models
from builders.networks import SHARED, own
from vmcu_tools.cli import main
from vmcu_tools.emit import emit
from vmcu_tools.errors import UserError
from vmcu_tools.frontends import load
from vmcu_tools.graph import Graph, Window
from vmcu_tools.ops.binary import Binary
from vmcu_tools.ops.window import scaled_window
from vmcu_tools.passes import optimize
from vmcu_tools.passes.scaled import scaled, wider
from vmcu_tools.peaks import peak, structure
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "benchmarks" / "models"


@pytest.fixture(scope="module")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network."""
    folder = tmp_path_factory.mktemp("nets")
    return onnx_models.quantised_network(folder, "QDQ", "QInt8", True)


def all_channels(path: Path) -> Graph:
    return optimize(load(path), all_channels=True)


def built(path: Path, tmp_path: Path, *words: str) -> dict:
    file = tmp_path / "build.json"
    assert main(["build", str(path), "--json", str(file), *words]) == 0
    return json.loads(file.read_text())


def fitted(path: Path, tmp_path: Path, code: int, *words: str) -> dict:
    file = tmp_path / "fit.json"
    assert main(["fit", str(path), "--json", str(file), *words]) == code
    return json.loads(file.read_text())


@pytest.mark.parametrize(
    "name",
    [
        "ds-cnn",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("mcunet-80", "mobilenetv1-0.25-96")
        ),
    ],
)
def test_peak_is_what_build_says(tmp_path: Path, name: str) -> None:
    path = own(name)
    assert vmcu_tools.peak(path) == built(path, tmp_path)["pool_bytes"]


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="VMCU_MODELS is not there")
def test_peak_of_real_networks(tmp_path: Path) -> None:
    for path in sorted(SHARED.glob("mlperf-tiny-*.tflite")):
        assert peak(path) == built(path, tmp_path)["pool_bytes"], path.name


def test_a_network_is_planned_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever its weights and names: a search asks again and again."""
    graph = optimize(load(own("ds-cnn")))
    vmcu_tools.peaks._known.clear()
    first = peak(graph, tmp_path / "cache")
    node = graph.nodes[0]
    other = replace(node, name="other", op=replace(node.op, weights=-node.op.weights))
    twin = replace(graph, nodes=(other, *graph.nodes[1:]))
    with monkeypatch.context() as patch:
        patch.setattr(vmcu_tools.peaks, "make_plan", None)
        assert peak(twin) == first
    [entry] = (tmp_path / "cache").iterdir()
    assert entry.read_text() == str(first)
    entry.write_text("12345")
    vmcu_tools.peaks._known.clear()
    assert peak(twin, tmp_path / "cache") == 12345
    entry.write_text("")
    vmcu_tools.peaks._known.clear()
    assert peak(twin, tmp_path / "cache") == first


def test_structure_tells_what_matters(quantised: Path) -> None:
    graph = optimize(load(quantised))
    known = structure(graph)
    for number, node in enumerate(graph.nodes):
        window = getattr(node.op, "window", None)
        if isinstance(window, Window):
            pad = (window.pad[0] + 1, *window.pad[1:])
            changed = replace(node, op=replace(node.op, window=replace(window, pad=pad)))
            nodes = (*graph.nodes[:number], changed, *graph.nodes[number + 1 :])
            assert structure(replace(graph, nodes=nodes)) != known
    assert structure(replace(graph, target="portable")) != known
    assert structure(replace(graph, outputs=graph.outputs * 2)) != known


def test_peak_in_other_processes(quantised: Path) -> None:
    path = quantised
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert set(pool.map(peak, [path] * 3)) == {peak(path)}


@pytest.mark.slow
def test_a_scaled_network_is_the_one_that_it_stands_for(tmp_path: Path, monkeypatch) -> None:
    """MobileNetV1 from 96 to 64 pixels, and from 0.25 to half of that, against networks made so."""
    monkeypatch.syspath_prepend(str(MODELS))
    import vision

    import build

    made = {
        "small": lambda: vision.mobilenet_v1(0.25, 64),
        "large": lambda: vision.mobilenet_v1(0.25, 96),
        "wide": lambda: vision.mobilenet_v1(0.5, 64),
    }
    for name, one in made.items():
        monkeypatch.setitem(build.MODELS, name, one)
    graphs = {name: all_channels(build.write(name, tmp_path)) for name in made}
    for found, wanted in (
        (scaled(graphs["large"], (64, 64)), graphs["small"]),
        (scaled(graphs["small"], (96, 96)), graphs["large"]),
        (scaled(graphs["small"], None, 2.0), graphs["wide"]),
        (scaled(graphs["wide"], None, 0.5), graphs["small"]),
    ):
        shapes = [[t.shape for t in graph.tensors.values()] for graph in (found, wanted)]
        assert shapes[0] == shapes[1]
        assert peak(found) == peak(wanted)
        assert [p.file_shape for p in found.inputs] == [p.file_shape for p in wanted.inputs]


@pytest.mark.parametrize("how", ({"size": (24, 24)}, {"width": 0.5}, {"width": 2.0}))
def test_what_is_scaled_can_be_proven(quantised: Path, how: dict) -> None:
    graph = scaled(all_channels(quantised), **how)
    assert emit(make_plan(graph), "model").files


def test_scaling_says_where_it_does_not(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(MODELS))
    import build

    graph = all_channels(build.write("transformer", tmp_path))
    with pytest.raises(
        UserError, match=r".* \(LayerNorm\): the network cannot be resized for inputs of"
    ):
        scaled(graph, None, 0.5)


@pytest.mark.parametrize(
    "window, was, now, out, wanted",
    (
        (Window((3, 3), (2, 2), pad=(0, 0, 1, 1)), 96, 95, 48, (3, (1, 1, 1, 1), 48)),
        (Window((3, 3), (2, 2), pad=(1, 1, 1, 1)), 16, 20, 8, (3, (1, 1, 1, 1), 10)),
        (Window((4, 4), (1, 1)), 4, 7, 1, (7, (0, 0, 0, 0), 1)),
        (Window((2, 2), (2, 2)), 8, 5, 4, (2, (0, 0, 0, 0), 2)),
        (Window((5, 5), (1, 1)), 9, 4, 5, None),
    ),
)
def test_windows(window: Window, was: int, now: int, out: int, wanted) -> None:
    found = scaled_window(window, (was, was, 1), (now, now, 1), (out, out, 1))
    if wanted is None:
        assert found is None
        return
    kernel, pad, size = wanted
    assert found == (replace(window, kernel=(kernel, kernel), pad=pad), (size, size))
    assert found[0].out_size(0, now) == size


def test_constants_repeat_in_larger_images() -> None:
    constant = np.arange(6, dtype=np.int8).reshape(2, 1, 3)
    found = Binary("minimum", constant=constant).scaled([(5, 4, 3)], [(2, 4, 3)], (2, 4, 3), 3)
    assert found is not None and found[1] == (5, 4, 3)
    assert np.array_equal(found[0].constant, constant[[0, 1, 0, 1, 0]])


def test_channels_stay_even() -> None:
    assert [wider(16, f) for f in (0.25, 0.5, 0.7, 1.5)] == [8, 8, 8, 24]
    assert [wider(3, f) for f in (0.1, 0.5, 2)] == [1, 2, 6]


def test_it_fits(quantised: Path, tmp_path: Path, capsys) -> None:
    found = fitted(quantised, tmp_path, 0, "--ram", "1K", "--flash", "8K")
    assert found["fits"] and found["ways"] == [] and found["ram_lacking"] == 0
    figures = built(quantised, tmp_path)
    assert found["measured"]["pool_bytes"] == figures["pool_bytes"]
    flash = figures["weights_bytes"] + figures["tables_bytes"]
    assert found["measured"]["flash_bytes"] == flash
    assert "of 1,024 bytes of RAM" in capsys.readouterr().out


@pytest.mark.slow
def test_it_does_not_fit_and_what_helps(tmp_path: Path, capsys) -> None:
    path = own("mobilenetv1-0.25-96")
    found = fitted(path, tmp_path, 1, "--ram", "20000")
    assert found["ram_lacking"] == found["measured"]["pool_bytes"] - 20000 > 0
    assert [way["kind"] for way in found["ways"]][:2] == ["stream", "elsewhere"]
    assert "It fits with a streamed input: vmcu build --stream-input" in (capsys.readouterr().out)
    for way in found["ways"]:
        assert way["fits"] == (way["measured"]["pool_bytes"] <= 20000)
        if way["options"]:
            figures = built(path, tmp_path, *way["options"].split())
            assert figures["pool_bytes"] == way["measured"]["pool_bytes"]
    [image] = [way for way in found["ways"] if way["kind"] == "image"]
    step = 8 if image["shape"][0] % 16 else 16
    graph = all_channels(path)
    height, width, _ = image["shape"]
    assert peak(scaled(graph, (height, width))) == image["measured"]["pool_bytes"]
    assert peak(scaled(graph, (height + step, width + step))) > 20000


def test_what_is_streamed_stays_so(quantised: Path, tmp_path: Path) -> None:
    path = quantised
    found = fitted(path, tmp_path, 1, "--ram", "480", "--stream-input")
    assert {way["kind"] for way in found["ways"]} <= {"macs", "image", "width"}
    [image] = [way for way in found["ways"] if way["kind"] == "image"]
    graph = scaled(all_channels(path), tuple(image["shape"][:2]))
    plan = make_plan(graph, CompileOptions(stream_input=True), prove=False)
    assert plan.pool_bytes == image["measured"]["pool_bytes"] <= 480 < peak(graph)


def test_flash_that_is_too_small(tmp_path: Path, capsys) -> None:
    found = fitted(own("ds-cnn"), tmp_path, 1, "--flash", "24K")
    assert found["flash_lacking"] > 0 and found["ram_lacking"] == 0
    file, int4, width = found["ways"]
    assert [way["kind"] for way in (file, int4, width)] == ["file", "int4", "width"]
    assert width["factor"] < 1
    assert all(way["fits"] for way in found["ways"])
    for way in found["ways"]:
        assert way["measured"]["flash_bytes"] <= 24 * 1024 < found["measured"]["flash_bytes"]
    figures = built(own("ds-cnn"), tmp_path, *file["options"].split())
    assert file["measured"]["pool_bytes"] == figures["pool_bytes"]
    assert 0 < figures["weights"]["ram_bytes"] < figures["pool_bytes"]
    assert file["measured"]["flash_bytes"] == figures["weights_bytes"] + figures["tables_bytes"]
    assert "It fits with weights in a file" in capsys.readouterr().out


def test_int4_weights_are_quantised_anew(quantised: Path, tmp_path: Path, capsys) -> None:
    path = own("ds-cnn")
    most = built(path, tmp_path)["pool_bytes"]
    found = fitted(path, tmp_path, 1, "--flash", "24K", "--ram", str(most))
    assert found["ways"][0]["kind"] == "int4" and found["ways"][0]["fits"]
    said = " ".join(capsys.readouterr().out.split())
    assert "It fits with int4 weights, once it is quantised again" in said


def test_a_smaller_buffer_for_weights_fits(tmp_path: Path) -> None:
    """One layer, all of whose weights a buffer of any size would have at once."""
    path = tmp_path / "dense.onnx"
    layer = onnx_models.dense("MatMul", 256, 128)
    path.write_bytes(
        onnx_models.single(onnx_models.OnnxModel(), (1, 256), layer).SerializeToString()
    )
    found = fitted(path, tmp_path, 1, "--flash", "6K", "--ram", "17K")
    file = next(way for way in found["ways"] if way["kind"] == "file")
    assert file["fits"] and file["options"].endswith(f",ram={17 * 512}")
    assert 8 * 1024 < file["measured"]["pool_bytes"] <= 17 * 1024


def test_growing(quantised: Path, tmp_path: Path) -> None:
    path = quantised
    found = fitted(path, tmp_path, 0, "--ram", "1200", "--grow")
    kinds = {way["kind"]: way for way in found["grown"]}
    graph = all_channels(path)
    height, width, _ = kinds["image"]["shape"]
    assert height > 16 and kinds["image"]["measured"]["pool_bytes"] <= 1200
    assert peak(scaled(graph, (height + 2, width + 2))) > 1200
    assert (
        kinds["width"]["measured"]["pool_bytes"]
        <= 1200
        < peak(scaled(graph, None, kinds["width"]["factor"] + 1 / 16))
    )


def test_boards_and_refusals(quantised: Path, tmp_path: Path, capsys) -> None:
    path = quantised
    found = fitted(path, tmp_path, 0, "--board", "nucleo_f411re")
    assert found["limits"]["ram"] == (128 - 16) * 1024
    for words, said in (
        ((), "give --ram, --flash or --board"),
        (("--board", "nucleo_l011k4"), "leave nothing of nucleo_l011k4"),
        (("--ram", "1K", "--rotate"), "--rotate cannot be combined with fit"),
    ):
        assert main(["fit", str(path), *words]) == 1
        assert re.search(said, capsys.readouterr().err)


def test_random_weights_do_not_matter(quantised: Path) -> None:
    """The key leaves out weights, so plans must, too."""
    graph = optimize(load(quantised))
    rng = np.random.default_rng(3)
    nodes = []
    for node in graph.nodes:
        weights = getattr(node.op, "weights", None)
        if weights is not None:
            drawn = rng.integers(-127, 128, weights.shape).astype(np.int8)
            node = replace(node, op=replace(node.op, weights=drawn))
        nodes.append(node)
    other = replace(graph, nodes=tuple(nodes))
    plans = [make_plan(one, prove=False) for one in (graph, other)]
    assert plans[0].placements == plans[1].placements
