# SPDX-License-Identifier: Apache-2.0
"""Channels of one byte go, and nothing else changes."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders.networks import SHARED, present
from random_graphs import random_inputs
from random_networks import AnyNetwork, EveryNetwork
from vmcu_bench.oracle.compare import parts_of
from vmcu_tools.cli import main
from vmcu_tools.frontends import load
from vmcu_tools.graph import Graph, Node, Op, Port, Tensor, Window
from vmcu_tools.machine import reference
from vmcu_tools.ops import Interval, bind
from vmcu_tools.ops.conv2d import Conv2D
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.ops.lookup import images_of
from vmcu_tools.passes import optimize
from vmcu_tools.passes.leave_out_constants import intervals, leave_out_constants
from vmcu_tools.quant import INT8_MAX, INT8_MIN, FixedPoint

# Far beyond what any sum brings back to the middle of the range.
FAR = 1 << 22
EXTREMES = (INT8_MIN, INT8_MAX)


def saturated(graph: Graph, seed: int) -> Graph:
    """The graph with about half of its biased channels out of reach, some of them without any
    weights."""
    dice = np.random.default_rng(seed)
    nodes = []
    for node in graph.nodes:
        op = node.op
        if hasattr(op, "bias"):
            far = dice.choice((-FAR, 0, 0, FAR), len(op.bias))
            op = replace(op, bias=(op.bias + far).astype(np.int32))
        nodes.append(replace(node, op=op))
    return replace(graph, nodes=tuple(nodes))


def inputs_of(graph: Graph, seed: int) -> list[list[np.ndarray]]:
    shapes = [graph.tensors[port.tensor].shape for port in graph.inputs]
    flat = [[np.full(shape, value, np.int8) for shape in shapes] for value in EXTREMES]
    return [*(random_inputs(graph, seed + n) for n in range(3)), *flat]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kind", [AnyNetwork, EveryNetwork])
def test_what_is_left_computes_the_same(kind: type[AnyNetwork], seed: int) -> None:
    graph = saturated(kind(seed).made, seed)
    less = leave_out_constants(graph)
    for inputs in inputs_of(graph, seed):
        before, after = reference.run(graph, inputs), reference.run(less, inputs)
        assert after.keys() <= before.keys()
        wanted = parts_of(less, before)
        for name, values in after.items():
            assert np.array_equal(wanted[name], values), name


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kind", [AnyNetwork, EveryNetwork])
def test_no_byte_is_outside_its_interval(kind: type[AnyNetwork], seed: int) -> None:
    graph = saturated(kind(seed).made, seed)
    found = intervals(graph, [bind(graph, node) for node in graph.nodes])
    for inputs in inputs_of(graph, seed):
        for name, values in reference.run(graph, inputs).items():
            pixels = values.reshape(-1, values.shape[2])
            assert (pixels >= found[name].low).all() and (pixels <= found[name].high).all(), name


def one_layer(op: Op, shape: tuple[int, int, int], zero: int = 3) -> Graph:
    """A layer behind a pixel of one channel, so that its input has bytes that do not reach far."""
    window = getattr(op, "window", Window())
    out = (window.out_size(0, shape[0]), window.out_size(1, shape[1]), len(op.bias))
    tensors = {"x": Tensor("x", shape, 0.1, zero), "y": Tensor("y", out, 0.1, -7)}
    ports = [Port(name, name, (1, *tensors[name].shape), "int8") for name in tensors]
    return Graph("g", "g", tensors, (Node("n", op, ("x",), ("y",)),), (ports[0],), (ports[1],))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", [Conv2D, DepthwiseConv2D])
def test_an_interval_is_reached_at_both_ends(kind: type[Op], seed: int) -> None:
    # Four pixels of one channel, each at either end of its range, are all extremes there are.
    dice = np.random.default_rng(seed)
    weights = dice.integers(-40, 41, (3, 3))
    shape = (3, 3, 1) if kind is DepthwiseConv2D else (1, 3, 3, 1)
    bias = dice.integers(-3000, 3001, 1).astype(np.int32)
    window = Window((3, 3), pad=(1, 1, 1, 1))
    op = kind(weights.reshape(shape).astype(np.int8), bias, window, FixedPoint.of(np.array([0.01])))
    graph = one_layer(op, (2, 2, 1))
    low, high = sorted(int(value) for value in dice.integers(INT8_MIN, INT8_MAX + 1, 2))
    layer = bind(graph, graph.nodes[0])
    found = layer.interval([Interval.between(low, high, 1)])
    images = [
        np.array(bytes_, np.int8).reshape(2, 2, 1)
        for bytes_ in itertools.product((low, high), repeat=4)
    ]
    seen = np.concatenate([layer.rows([image], 0, 2).ravel() for image in images])
    # Padding takes part in the border's taps only, so a tap of both kinds may reach further.
    assert found.low[0] <= seen.min() and seen.max() <= found.high[0]
    inside = one_layer(replace(op, window=Window((3, 3))), (3, 3, 1))
    layer = bind(inside, inside.nodes[0])
    found = layer.interval([Interval.between(low, high, 1)])
    ends = [np.where(weights * sign > 0, high, low).reshape(3, 3, 1) for sign in (1, -1)]
    seen = [int(layer.rows([end.astype(np.int8)], 0, 1)[0, 0, 0]) for end in ends]
    assert [int(found.low[0]), int(found.high[0])] == sorted(seen)


def pair(first_bias: int, zero: int, pad: int) -> Graph:
    """A convolution of two channels, the second one out of reach, below a 3x3 convolution."""
    one = FixedPoint.of(np.full(2, 0.02))
    first = Conv2D(
        np.ones((2, 1, 1, 1), np.int8), np.array([0, first_bias], np.int32), Window(), one
    )
    window = Window((3, 3), pad=(pad,) * 4)
    second = Conv2D(
        np.arange(1, 37, dtype=np.int8).reshape(2, 3, 3, 2), np.zeros(2, np.int32), window, one
    )
    side = window.out_size(0, 5)
    tensors = {
        "x": Tensor("x", (5, 5, 1), 0.1, 0),
        "m": Tensor("m", (5, 5, 2), 0.1, zero),
        "y": Tensor("y", (side, side, 2), 0.1, 0),
    }
    ports = [Port(name, name, (1, *tensors[name].shape), "int8") for name in ("x", "y")]
    nodes = (Node("a", first, ("x",), ("m",)), Node("b", second, ("m",), ("y",)))
    return Graph("g", "g", tensors, nodes, (ports[0],), (ports[1],))


@pytest.mark.parametrize(
    ("bias", "zero", "pad", "channels"),
    [
        (-FAR, INT8_MIN, 1, 1),  # the byte of padding
        (FAR, INT8_MIN, 1, 2),  # another byte: sums differ at the border
        (FAR, INT8_MIN, 0, 1),
        (-FAR, 5, 1, 2),
        (0, INT8_MIN, 1, 2),
    ],
)
def test_a_channel_goes_where_padding_does_not_tell(
    bias: int, zero: int, pad: int, channels: int
) -> None:
    assert leave_out_constants(pair(bias, zero, pad)).tensors["m"].shape[2] == channels


def test_outputs_and_inputs_stay_whole() -> None:
    graph = pair(FAR, INT8_MIN, 0)
    last = replace(graph.nodes[1], op=replace(graph.nodes[1].op, bias=np.full(2, -FAR, np.int32)))
    less = leave_out_constants(replace(graph, nodes=(graph.nodes[0], last)))
    assert less.tensors["y"].shape[2] == 2 and less.tensors["x"].shape[2] == 1


def test_bytes_of_a_table_by_channel() -> None:
    """Of a damaged file with millions of channels, too: they share what is found."""
    rng = np.random.default_rng(0)
    table = rng.integers(INT8_MIN, INT8_MAX + 1, 256).astype(np.int8)
    low, high = np.sort(rng.integers(INT8_MIN, INT8_MAX + 1, (2, 500)), axis=0)
    found = images_of(table, Interval(low, high))
    for n, (first, last) in enumerate(zip(low - INT8_MIN, high - INT8_MIN, strict=True)):
        part = table[first : last + 1]
        assert (found.low[n], found.high[n]) == (part.min(), part.max())
    tracemalloc.start()
    many = np.full(1_000_000, INT8_MIN)
    assert images_of(table, Interval(many, many + 255)).high.max() == table.max()
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()


def test_half_of_a_real_network_goes() -> None:
    path = present(SHARED / "mlperf-tiny-vww.tflite")
    graph = optimize(load(Path(path)))
    macs = sum(bind(graph, node).macs for node in graph.nodes)
    assert graph.macs_file == 7_489_664
    assert macs < 3_850_000


def test_the_build_says_what_went(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = present(SHARED / "mlperf-tiny-vww.tflite")
    assert main(["build", str(path), "--json", str(tmp_path / "vww.json")]) == 0
    found = json.loads((tmp_path / "vww.json").read_text())
    said = capsys.readouterr().out.replace("\n", " ")
    assert f"Removed {found['left_out']:,} of {found['channels']:,} constant or unused" in said
    assert f"{found['macs_file']:,} MACs" in said
    assert found["macs"] < found["macs_file"] == 7_489_664
    assert found["macs"] == sum(step["macs"] for step in found["steps"])
