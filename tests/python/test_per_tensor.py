# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers with one factor for all channels: it is a parameter, not a part of the
stream. Streams of layers with factors by channel stay as they are."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders.networks import SHARED, present
from builders.tflite_models import TfliteModel, dense
from random_graphs import disjoint, random_inputs
from vmcu_bench import oracle, runners
from vmcu_bench.cycles.kernels import Case, case_graph
from vmcu_tools.frontends import load
from vmcu_tools.graph import Graph
from vmcu_tools.kernels.targets import TARGETS
from vmcu_tools.ops import bind
from vmcu_tools.ops.dense_per_tensor import LEAST_CHANNELS, NAME
from vmcu_tools.ops.mac import MacLayer
from vmcu_tools.passes import optimize
from vmcu_tools.quant import FixedPoint

# Those that read factors by channel of all layers.
WITHOUT = ("v6m", "rv32")
SERVED = [target for target in TARGETS if target not in WITHOUT]
# Of streams by target, of 8 and of 4 bits, before layers with one factor had a kernel.
DIGESTS = {
    "helium": "607b16361df3687e",
    "dsp": "da0934658853853a",
    "rv32": "b64c5e6c60c110c8",
    "v6m": "b64c5e6c60c110c8",
}
DIGESTS |= dict.fromkeys(("v7m", "portable"), DIGESTS["dsp"])


def graph_of(target: str, bits: int = 8, channels: int = LEAST_CHANNELS, taps: int = 40) -> Graph:
    """A layer with factors by channel."""
    case = Case("fc", "dense", 1, taps, channels, weight_bits=bits)
    return replace(case_graph(case, 3), target=target)


def layer_of(graph: Graph, requant: FixedPoint | None = None, **changes: object) -> MacLayer:
    """The layer, with other factors and members."""
    (node,) = graph.nodes
    changes |= {} if requant is None else {"requant": requant}
    layer = bind(graph, replace(node, op=replace(node.op, **changes)))
    assert isinstance(layer, MacLayer)
    return layer


def factor(channels: int = LEAST_CHANNELS, shift: int = -8) -> FixedPoint:
    return FixedPoint(np.full(channels, 0x50000001, np.int32), np.full(channels, shift))


@pytest.mark.parametrize("target", SERVED)
@pytest.mark.parametrize("bits", [8, 4])
def test_a_stream_has_no_factor(target: str, bits: int) -> None:
    layer = layer_of(graph_of(target, bits), factor())
    assert layer.symbol == f"{NAME}{layer.target.packing.suffix}"
    taps = layer.target.packing.padded(40) * LEAST_CHANNELS * bits // 8
    assert len(layer.binding.stream) == taps + 4 * LEAST_CHANNELS
    assert layer.weight_bytes == 40 * LEAST_CHANNELS * bits // 8 + 4 * LEAST_CHANNELS + 5
    assert layer.binding.fields["multiplier"] == 0x50000001 and layer.binding.fields["shift"] == 7


@pytest.mark.parametrize("target", DIGESTS)
def test_streams_with_factors_by_channel_are_what_they_were(target: str) -> None:
    streams = []
    for bits in (8, 4):
        layer = layer_of(graph_of(target, bits))
        assert layer.symbol.startswith("vmcu_dense") and NAME not in layer.symbol
        streams.append(layer.binding.stream)
    assert hashlib.sha256(b"".join(streams)).hexdigest()[:16] == DIGESTS[target]


@pytest.mark.parametrize(
    ("channels", "taps", "changes"),
    [
        pytest.param(LEAST_CHANNELS - 4, 40, {}, id="few channels"),
        pytest.param(LEAST_CHANNELS + 2, 40, {}, id="part of a block"),
        pytest.param(LEAST_CHANNELS, 36, {}, id="part of a turn"),
        pytest.param(LEAST_CHANNELS, 40, {"act_min": 0}, id="activation"),
        pytest.param(LEAST_CHANNELS, 40, {"shift": 1}, id="shift to the left"),
        pytest.param(LEAST_CHANNELS, 40, {"bias": 1 << 30}, id="large bias"),
        pytest.param(LEAST_CHANNELS, 40, {"weights": -128}, id="channels apart"),
    ],
)
def test_other_layers_keep_their_kernel(channels: int, taps: int, changes: dict) -> None:
    graph, more = graph_of("dsp", 8, channels, taps), dict(changes)
    (node,) = graph.nodes
    requant = factor(channels, more.pop("shift", -8))
    if "bias" in more:
        more["bias"] = np.full(channels, more["bias"], np.int32)
    if "weights" in more:
        more["weights"] = np.full_like(node.op.weights, more["weights"])
    assert layer_of(graph, requant, **more).symbol == "vmcu_dense"


@pytest.mark.parametrize("board", ["host", "qemu:m3", "qemu:m4", "qemu:m7", "qemu:m55"])
@pytest.mark.parametrize("is_int4", [False, True])
def test_layers_are_those_of_tflite_micro(board: str, is_int4: bool, tmp_path: Path) -> None:
    model = TfliteModel(3, int4=is_int4)
    path = model.save(tmp_path / "layer.tflite", *dense((1, 40), LEAST_CHANNELS + 4)(model))
    judge, runner = oracle.open(path), runners.get(board)
    graph = replace(judge.graph, target=getattr(runner, "family", None))
    assert NAME in bind(graph, graph.nodes[0]).symbol
    samples = [random_inputs(graph, seed) for seed in range(3)]
    for sample, (output,) in zip(samples, runner.run(disjoint(graph), samples), strict=True):
        wanted = judge.run(sample)[graph.outputs[0].tensor]
        np.testing.assert_array_equal(output.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("target", SERVED)
def test_an_autoencoder_takes_less_than_its_file(target: str) -> None:
    path = present(SHARED / "mlperf-tiny-ad.tflite")
    graph = replace(optimize(load(path)), target=target)
    layers = [bind(graph, node) for node in graph.nodes]
    streams = sum(len(x.binding.stream) for x in layers if isinstance(x, MacLayer))
    assert streams < path.stat().st_size
