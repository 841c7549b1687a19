# SPDX-License-Identifier: Apache-2.0
"""Layers that compute another's output again wherever a window sees it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders.fused_networks import HOST, whole_network
from builders.networks import network_file
from drawn import seeds
from random_builder import Builder
from random_graphs import convolution, depthwise_of
from random_networks import two_layers
from vmcu_bench.runners import get
from vmcu_tools import container, paths
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit import emit
from vmcu_tools.emit.proof import prove
from vmcu_tools.errors import PlanError, UserError
from vmcu_tools.graph import Graph, Tensor, Window
from vmcu_tools.kernels.targets import named
from vmcu_tools.machine import between, reference
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.ops import NEVER, bind
from vmcu_tools.ops.recomputed import Recomputed, RecomputedLayer
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.rotate import rotate
from vmcu_tools.planner.stages.recomputation import (
    COLUMN_CHOICES,
    Pair,
    pairs_of,
    recomputed,
    saved,
    window_of,
)
from vmcu_tools.quant import FixedPoint, FloatScale

TILES = (None, 256, 64)


def expect_same(plan: Plan, original: Graph, target: str = HOST) -> None:
    """Of a plan the bytes of a graph, on the virtual MCU and in C."""
    rng = np.random.default_rng(1)
    shapes = [original.tensors[port.tensor].shape for port in original.inputs]
    inputs = [rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes]
    meaning = reference.run(original, inputs)
    found = VirtualMcu(plan).run(inputs)
    for name in found.keys() & meaning.keys():
        values = found[name]
        assert np.ma.filled(values == meaning[name], True).all(), name
    for outputs in get(target).run(plan, [inputs, inputs]):
        for port, values in zip(original.outputs, outputs, strict=True):
            np.testing.assert_array_equal(values, meaning[port.tensor])


@pytest.mark.parametrize("seed", seeds(24, 6))
def test_bytes_of_two_layers_in_one(seed: int) -> None:
    graph = replace(two_layers(seed), target=named(("dsp", "portable")[seed % 2]).name)
    columns = COLUMN_CHOICES[seed % len(COLUMN_CHOICES)]
    found = recomputed(graph, Pair(0, 1, columns))
    assert found is not None and len(found.nodes) == 2
    plan = whole_network(found, TILES[seed % len(TILES)], bool(seed % 2))
    expect_same(plan, graph)
    expect_same(make_plan(found, CompileOptions(planner="single")), graph)


@pytest.mark.parametrize(("seed", "target"), [(20, "qemu:m3"), (22, "qemu:m4")])
def test_bytes_on_boards(seed: int, target: str) -> None:
    graph = two_layers(seed)
    found = recomputed(graph, Pair(0, 1, 4))
    assert found is not None
    expect_same(whole_network(found, None, True), graph, target)


def keeps_apart(graph: Graph, columns: int, ring: int) -> bool:
    """True if no two pixels of a piece are one byte of a ring of so many pixels: all pieces, each
    pixel by itself."""
    outer, between = graph.nodes[1], graph.tensors[graph.nodes[0].outputs[0]]
    (height, width, _), out = between.shape, graph.tensors[outer.outputs[0]].shape
    window = window_of(outer)
    for y, x in itertools.product(range(out[0]), range(out[1])):
        last = min(x + columns, out[1]) - 1
        down = [window.first(0, y) + k * window.dilation[0] for k in range(window.kernel[0])]
        across = range(window.first(1, x), window.first(1, last) + window.extent(1))
        rows = [row for row in down if 0 <= row < height]
        pixels = [r * width + c for r in rows for c in across if 0 <= c < width]
        if len({pixel % ring for pixel in pixels}) < len(pixels):
            return False
    return True


def joined(graph: Graph, columns: int) -> RecomputedLayer:
    """The first two layers of a graph as one."""
    found = recomputed(graph, Pair(0, 1, columns))
    assert found is not None
    layer = bind(found, found.nodes[0])
    assert isinstance(layer, RecomputedLayer)
    return layer


@pytest.mark.parametrize("seed", seeds(40, 14))
def test_rings_between_are_the_smallest(seed: int) -> None:
    graph, columns = two_layers(seed), COLUMN_CHOICES[seed % len(COLUMN_CHOICES)]
    layer = joined(graph, columns)
    sizes = itertools.count(1)
    assert layer.ring_pixels == next(r for r in sizes if keeps_apart(graph, columns, r))


def columns_read(graph: Graph, x: int) -> range:
    """From the first to the last column of the input under the windows of both layers."""
    inner, outer = map(window_of, graph.nodes[:2])
    first = outer.first(1, x)
    last = first + outer.extent(1) - 1
    return range(inner.first(1, first), inner.first(1, last) + inner.extent(1))


@pytest.mark.parametrize("seed", seeds(12, 4))
def test_reads_and_writes_in_a_call_are_those_of_its_columns(seed: int) -> None:
    """Of a call with some columns: all calls that a row can have."""
    graph = two_layers(seed)
    layer = joined(graph, COLUMN_CHOICES[seed % len(COLUMN_CHOICES)])
    (_, width, channels), (_, across, made) = layer.ins[0].shape, layer.out.shape
    for x, stop in itertools.combinations(range(across + 1), 2):
        reads, writes = np.full(width, NEVER), np.full(across, NEVER)
        for tick in range(stop - x):
            seen = columns_read(graph, x + tick)
            reads[max(seen.start, 0) : max(seen.stop, 0)] = tick
            writes[x + tick] = tick
        found = layer.reads_in_call(0, x, stop - x), layer.writes_in_call(x, stop - x)
        np.testing.assert_array_equal(found[0], np.tile(reads[:, None], channels))
        np.testing.assert_array_equal(found[1], np.tile(writes[:, None], made))


def bottleneck(seed: int = 3) -> Graph:
    """A wide tensor between narrow ones, at the network's front."""
    b = Builder(np.random.default_rng(seed))
    x = b.input((16, 24, 6))
    wide = convolution(b, x, Window(), 16, 24, 40)
    window = Window((3, 3), (2, 2), pad=(1, 1, 1, 1))
    y = depthwise_of(b, wide, window, 8, 12, 1)
    return b.graph([convolution(b, y, Window(), 8, 12, 6).name])


def test_what_is_spared_are_rows_between_for_rows_in_front() -> None:
    """Two rows of 24 x 40 bytes, for two of 24 x 6 that stay and the ring in scratch."""
    graph, pair = bottleneck(), Pair(0, 1, 2)
    found = recomputed(graph, pair)
    assert found is not None
    scratch = joined(graph, 2).scratch_bytes
    assert saved(graph, pair, found) == 1920 - 288 - scratch > 0


def test_a_build_needs_the_requantisers_of_both() -> None:
    ops = [node.op for node in bottleneck().nodes[:2]]
    first, second = (
        replace(op, requant=requant)  # type: ignore[call-arg]
        for op, requant in zip(
            ops,
            (
                FixedPoint(np.array([1 << 30]), np.array([-5])),
                FloatScale(np.array([0.5], np.float32)),
            ),
            strict=True,
        )
    )
    both = Recomputed(first, second, Tensor("e", (16, 24, 40), 1.0, 0), 2)
    assert both.requantisers == first.requantisers | second.requantisers
    assert len(both.requantisers) == 2


def macs(plan: Plan) -> int:
    return sum(step.bind(plan.graph).macs for step in plan.steps)


# A pool with the whole input is searched ten times as long.
@pytest.mark.parametrize("streamed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_multiply_accumulates_buy_bytes(streamed: bool) -> None:
    graph = bottleneck()
    usual = make_plan(graph, CompileOptions(stream_input=streamed))
    pools = [usual.pool_bytes]
    for extra in (20, 100, 400):
        plan = make_plan(graph, CompileOptions(stream_input=streamed, extra_macs=extra))
        assert macs(plan) - macs(usual) == plan.macs_extra <= extra / 100 * macs(usual)
        expect_same(plan, graph)
        pools.append(plan.pool_bytes)
    assert pools == sorted(pools, reverse=True)
    assert not streamed or pools[-1] < 0.7 * pools[0]


def test_ram_is_worth_multiply_accumulates() -> None:
    """As many as in the paper, where nothing else fits."""
    graph = bottleneck()
    least = make_plan(graph, CompileOptions(stream_input=True, extra_macs=200)).pool_bytes
    plan = make_plan(graph, CompileOptions(stream_input=True, ram=least))
    assert plan.pool_bytes <= least and plan.macs_extra > 0


def again_plan() -> Plan:
    return make_plan(bottleneck(), CompileOptions(stream_input=True, extra_macs=200))


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (".ring = {ring},", ".ring = {less},"),
        (".columns = {columns},", ".columns = 16,"),
        (".inner_kernel = vmcu_pointwise_narrow,", ".inner_kernel = vmcu_pointwise,"),
        (".height = 16,", ".height = 15,"),
        (".by_pixel = true,", ""),
    ],
)
def test_the_proof_reads_what_lies_between(was: str, becomes: str) -> None:
    plan = again_plan()
    layer = next(
        layer
        for layer in (step.bind(plan.graph) for step in plan.steps)
        if isinstance(layer, RecomputedLayer)
    )
    ring, channels = layer.kernel.params.fields["ring"], layer.op.between.shape[2]  # type: ignore
    known = {"ring": ring, "less": ring - channels, "columns": layer.op.columns}
    files = dict(emit(plan, "m").files)
    start = files["m.c"].index("struct vmcu_recomputed_params")
    part = files["m.c"][start:]
    assert was.format(**known) in part
    files["m.c"] = files["m.c"][:start] + part.replace(
        was.format(**known), becomes.format(**known), 1
    )
    with pytest.raises(PlanError):
        prove(files, "m", plan)


def between_of(layer: RecomputedLayer, **changes: int) -> dict[str, Any]:
    """The parameters of a layer as the proof reads them, some of them others."""
    params = layer.kernel.params
    assert params is not None
    outer: Any = params.fields["outer"]
    return {**params.fields, "outer": {"window": outer.fields["window"].fields}, **changes}


@pytest.mark.parametrize("seed", seeds(20, 7))
def test_the_proof_finds_rings_that_are_too_small(seed: int) -> None:
    graph, columns = two_layers(seed), COLUMN_CHOICES[seed % len(COLUMN_CHOICES)]
    layer = joined(graph, columns)
    shape, scratch, channels = layer.out.shape, layer.scratch_bytes, layer.op.between.shape[2]

    def passes(room: int = scratch, **changes: int) -> bool:
        try:
            between.check("it", between_of(layer, **changes), shape, room, False)
        except PlanError:
            return False
        return True

    # Larger rings may do, but only those that keep the pixels of all pieces apart.
    for pixels in range(1, layer.ring_pixels + 4):
        ring = pixels * channels
        room = between_of(layer)["scratch"] and {"scratch": ring + 3}
        assert passes(scratch + ring, ring=ring, **(room or {})) == keeps_apart(
            graph, columns, pixels
        )
    assert not passes(layer.ring_pixels * channels - 1, scratch=0)
    assert not passes(ring=layer.ring_pixels * channels + 1, room=1 << 20, scratch=0)
    assert not passes(ring=0) and not passes(columns=0) and not passes(channels=0)
    assert not passes(scratch=scratch + 1)
    with pytest.raises(PlanError, match="rotates"):
        between.check("it", between_of(layer), shape, scratch, True)


def test_containers_and_rotating_pools_do_without() -> None:
    plan = again_plan()
    with pytest.raises(UserError, match="not supported in containers"):
        container.build(plan, "m")
    with pytest.raises((UserError, PlanError), match="rotate"):
        emit(rotate(plan), "m")
    plain = CompileOptions(stream_input=True, extra_macs=200, container=True)
    assert container.build(make_plan(bottleneck(), plain), "m")


def test_pairs_are_layers_that_nobody_else_needs() -> None:
    b = Builder(np.random.default_rng(0))
    x = b.input((8, 8, 4))
    e = convolution(b, x, Window(), 8, 8, 8)
    window = Window((3, 3), pad=(1, 1, 1, 1))
    y = depthwise_of(b, e, window, 8, 8, 1)
    graph = b.graph([y.name, e.name])
    assert not [*pairs_of(graph, 0, 2)]
    graph = b.graph([y.name])
    assert {(pair.inner, pair.outer) for pair in pairs_of(graph, 0, 2)} == {(0, 1)}
    assert not [*pairs_of(graph, 0, 1)]


def test_the_page_has_the_figures_of_now() -> None:
    model = network_file("mlperf-tiny-vww")
    usual = compile_model(model, CompileOptions(stream_input=True))
    plan = compile_model(model, CompileOptions(stream_input=True, extra_macs=10))
    extra = f"{100 * plan.macs_extra / macs(usual):.1f} %"
    words = " ".join((paths.root() / "doc" / "fusion.md").read_text(encoding="utf-8").split())
    bought = f"{plan.pool_bytes:,} bytes instead of {usual.pool_bytes:,}, for {extra}"
    assert f"--extra-macs 10` needs {bought}" in words
