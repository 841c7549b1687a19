# SPDX-License-Identifier: Apache-2.0
"""The number of executed instructions does not depend on the input."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_builder import Builder
from random_graphs import disjoint, groups, random_layers
from vmcu_bench.cycles.model import board, rows
from vmcu_bench.cycles.spread import Spread, inputs_of, instructions_of, spread_of
from vmcu_bench.runners import family_of
from vmcu_bench.runners.samples import Sample
from vmcu_tools import paths
from vmcu_tools.cli import main
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit import emit
from vmcu_tools.graph import Graph, Window
from vmcu_tools.ops.conv2d import Conv2D
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.ops.fully_connected import FullyConnected
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.quant import FixedPoint, FloatScale

PROGRAMS = ("qemu-system-arm", "qemu-system-riscv32", "arm-none-eabi-gcc", "gcc")
MISSING = [program for program in PROGRAMS if shutil.which(program) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

CORES = ("qemu:m0", "qemu:m4", "qemu:m55", "qemu:rv32")
ALL_CORES = (*CORES, "qemu:m3", "qemu:m7")
# Where real networks are.
MODELS = Path(os.environ.get("VMCU_MODELS", paths.root().parent / "shared" / "models"))
SAMPLES = paths.root() / "samples"
SMALL = (SAMPLES / "digits" / "digits.onnx", SAMPLES / "gesture" / "gesture.onnx")
LARGE = tuple(f"mlperf-tiny-{name}.tflite" for name in ("ad", "kws", "vww", "resnet8"))
WAKE_WORD = "mlperf-tiny-sww.tflite"
# Kernels of a kind in an image.
LAYERS = 4


def spread(plan: Plan, target: str, samples: Sequence[Sample]) -> Spread:
    """The spread of a plan's instructions over samples."""
    machine = board(target).suited(plan)
    with tempfile.TemporaryDirectory(prefix="vmcu-") as folder:
        image = machine.build(emit(plan, "model").all_files, "model", Path(folder))
        each = instructions_of(machine, image, "model", plan, samples)
    return spread_of(each, tuple(rows(plan)))


def expect_constant(model: Path, target: str, inputs: int) -> None:
    if not model.is_file():
        pytest.skip(f"{model} is not there; VMCU_MODELS names the folder of the real networks")
    plan = compile_model(model, CompileOptions(target=family_of(target)))
    found = spread(plan, target, inputs_of(plan.graph, inputs))
    assert (found.inputs, found.spread, found.layers) == (inputs, 0, ())


@pytest.mark.parametrize("target", CORES)
@pytest.mark.parametrize("model", SMALL, ids=lambda path: path.stem)
def test_networks(model: Path, target: str) -> None:
    expect_constant(model, target, 12)


@pytest.mark.slow
@pytest.mark.parametrize("target", ALL_CORES)
@pytest.mark.parametrize("model", (*SMALL, MODELS / WAKE_WORD), ids=lambda path: path.stem)
def test_thousand_inputs(model: Path, target: str) -> None:
    expect_constant(model, target, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("target", ALL_CORES)
@pytest.mark.parametrize("name", LARGE)
def test_large_networks(name: str, target: str) -> None:
    expect_constant(MODELS / name, target, 30)


def extremes(graph: Graph, seed: int) -> Sample:
    """Bytes at both ends alone, which drive sums beyond what a byte has."""
    rng = np.random.default_rng(seed)
    shapes = [graph.tensors[port.tensor].shape for port in graph.inputs]
    return [rng.choice(np.array([-128, 127], np.int8), shape) for shape in shapes]


def saturating() -> Graph:
    """Layers with as many pixels and channels as fill the blocks of every core, in fixed point and
    in float, whose sums are often beyond a byte."""
    b = Builder(np.random.default_rng(4))
    outputs, wide = [], (6, 9, 16)
    for scale in (FixedPoint.of, FloatScale):
        for taps in (1, 3):
            window = Window((taps, taps), pad=(taps // 2,) * 4)
            requant = scale(np.full(16, 0.01 / taps, np.float32))
            conv = Conv2D(b.weights(16, taps, taps, 16), b.bias(16), window, requant)
            outputs.append(b.node(conv, [b.input(wide)], wide).name)
        requant = scale(np.full(16, 0.01, np.float32))
        dense = FullyConnected(b.weights(16, 16), b.bias(16), requant)
        outputs.append(b.node(dense, [b.input((1, 1, 16))], (1, 1, 16)).name)
        for taps in (3, 5, 7):
            window = Window((taps, taps), pad=(taps // 2,) * 4)
            depthwise = DepthwiseConv2D(b.weights(taps, taps, 16), b.bias(16), window, requant)
            outputs.append(b.node(depthwise, [b.input(wide)], wide).name)
    return b.graph(outputs)


@pytest.mark.parametrize("target", CORES)
def test_saturating_layers(target: str) -> None:
    graph = saturating()
    graph = replace(graph, target=family_of(target) or graph.target)
    samples = [*inputs_of(graph, 9), *(extremes(graph, seed) for seed in range(3))]
    assert spread(disjoint(graph), target, samples).layers == ()


@pytest.mark.parametrize("target", CORES)
@pytest.mark.parametrize("kinds", groups(), ids="+".join)
def test_kernels(kinds: tuple[str, ...], target: str) -> None:
    """Each kernel whose op does not say what its instructions depend on."""
    graph = random_layers(kinds, LAYERS, seed=11)
    graph = replace(graph, target=family_of(target) or graph.target)
    samples = [*inputs_of(graph, 9), *(extremes(graph, seed) for seed in range(3))]
    found = spread(disjoint(graph), target, samples)
    ops = {node.name: node.op for node in graph.nodes}
    varying = [layer for layer in found.layers if not ops[layer.name].is_data_dependent]
    assert varying == []


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The spread is printed and in JSON; a kernel that depends on its input is named."""
    report = tmp_path / "report.json"
    model = str(SAMPLES / "gesture" / "gesture.onnx")
    assert main(["bench", model, "--on", "qemu:m0", "--inputs", "7", "--json", str(report)]) == 0
    printed = re.search(
        r"7 inputs: most ([\d,]+) instructions, spread 0 \(0 %\)", capsys.readouterr().out
    )
    figures = json.loads(report.read_text())
    assert printed is not None
    assert int(printed[1].replace(",", "")) == figures["inputs"]["most"] == figures["instructions"]
    assert (figures["inputs"]["inputs"], figures["inputs"]["layers"]) == (7, [])


def test_spread() -> None:
    """Layers are listed by their spread, the largest first."""
    each = np.array([[5, 10, 20, 7], [5, 11, 15, 7]])
    named = [
        ("(between layers)", "executor", 0),
        ("a", "Add", 0),
        ("b", "Softmax", 0),
        ("c", "", 0),
    ]
    found = spread_of(each, named)
    assert (found.least, found.most, found.spread, found.percent) == (38, 42, 4, 10.5263)
    assert [(layer.name, layer.least, layer.most) for layer in found.layers] == [
        ("b", 15, 20),
        ("a", 10, 11),
    ]
