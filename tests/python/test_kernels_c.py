# SPDX-License-Identifier: Apache-2.0
"""The C kernels give the bytes of their numpy meaning, on this computer and on every core."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from drawn import CASES
from edge_graphs import EDGES, edge_layers
from random_builder import Builder
from random_graphs import (
    LAYERS,
    convolution,
    disjoint,
    groups,
    overlapped,
    random_inputs,
    random_layers,
    with_copies,
    wrapped,
)
from random_operators import KINDS, binary_of
from vmcu_bench import runners
from vmcu_bench.runners import compiled
from vmcu_tools.emit.model import write_tables
from vmcu_tools.graph import Graph, Shape, Window
from vmcu_tools.machine import reference
from vmcu_tools.ops import Form
from vmcu_tools.ops.average_pooling import AveragePool2D
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.ops.max_pooling import MaxPool2D
from vmcu_tools.plan.plan import Plan
from vmcu_tools.quant import FixedPoint

HOST, M55 = "host:sanitize", "qemu:m55"
# Layers of a kind that one image takes.
BATCH = 60
BOARD_CASES = max(30, CASES // 20)


OF_KINDS = pytest.mark.parametrize("kinds", groups(), ids="+".join)


def expect_reference(plan: Plan, target: str, samples: Sequence[Sequence[np.ndarray]]) -> None:
    graph = plan.graph
    results = runners.get(target).run(plan, samples)
    for sample, outputs in zip(samples, results, strict=True):
        wanted = reference.run(graph, sample)
        for port, got in zip(graph.outputs, outputs, strict=True):
            node = graph.producer(port.tensor)
            np.testing.assert_array_equal(got, wanted[port.tensor], err_msg=f"{node}")


def batches(cases: int) -> list[tuple[int, int]]:
    """As many layers of a kind as one image takes: (seed, count)."""
    return [(seed, min(BATCH, cases - at)) for seed, at in enumerate(range(0, cases, BATCH))]


def laid_out(graph: Graph, target: str) -> Graph:
    """The graph for the kernels that a machine has of its own."""
    machine = runners.get(target)
    return replace(graph, target=getattr(machine, "family", None) or graph.target)


def expect_random_layers(kinds: tuple[str, ...], batch: tuple[int, int], target: str) -> None:
    graph = laid_out(random_layers(kinds, batch[1], seed=100 + batch[0]), target)
    expect_reference(disjoint(graph), target, [random_inputs(graph, batch[0])])


@pytest.mark.parametrize("batch", batches(CASES), ids=str)
@OF_KINDS
def test_host(kinds: tuple[str, ...], batch: tuple[int, int]) -> None:
    expect_random_layers(kinds, batch, HOST)


@pytest.mark.parametrize("batch", batches(BOARD_CASES), ids=str)
@OF_KINDS
def test_qemu_m4(kinds: tuple[str, ...], batch: tuple[int, int]) -> None:
    expect_random_layers(kinds, batch, "qemu:m4")


# qemu:m7 and qemu:m33 run what qemu:m4 runs.
SAME = [pytest.param(board, 20, marks=pytest.mark.slow) for board in ("qemu:m7", "qemu:m33")]


@pytest.mark.parametrize(
    ("board", "cases"),
    [("qemu:m0", 15), ("qemu:m3", 20), ("qemu:rv32", 20), (M55, 30), *SAME],
)
@OF_KINDS
def test_board(kinds: tuple[str, ...], board: str, cases: int) -> None:
    expect_random_layers(kinds, (1, cases), board)


@pytest.mark.parametrize("target", [HOST, "qemu:m0", "qemu:m3", "qemu:m4", "qemu:rv32", M55])
@pytest.mark.parametrize("first", range(0, len(EDGES), BATCH))
def test_edges(first: int, target: str) -> None:
    graph = laid_out(edge_layers(first, BATCH), target)
    expect_reference(disjoint(graph), target, [random_inputs(graph, seed) for seed in range(2)])


@pytest.mark.parametrize("target", [HOST, M55])
def test_large_windows_at_borders(target: str) -> None:
    """More taps than are packed, of runs of any length."""
    b = Builder(np.random.default_rng(4))
    answers = []
    for kernel, depth in itertools.product(((7, 7), (5, 6), (9, 5)), (1, 2, 3, 7)):
        window = Window(kernel, (1, 2), pad=tuple(size // 2 for size in kernel * 2))
        size = window.out_size(0, 11), window.out_size(1, 13)
        answers.append(convolution(b, b.input((11, 13, depth)), window, *size, 3).name)
    graph = laid_out(b.graph(answers), target)
    expect_reference(disjoint(graph), target, [random_inputs(graph, 0)])


@pytest.mark.parametrize("target", [HOST, M55])
def test_depthwise_sums_at_the_bounds(target: str) -> None:
    """Weights of which 1, 2, 3 ... 25 products are within 16 bits, times bytes at both ends."""
    b = Builder(np.random.default_rng(5))
    answers, sizes = [], (128, 127, 85, 63, 51, 28, 10)
    windows = ((3, 3), (3, 1), (5, 5), (2, 7))
    for kernel, channels, size in itertools.product(windows, (16, 40), sizes):
        window = Window(kernel, (1, b.pick(1, 2)), pad=tuple(side // 2 for side in kernel * 2))
        shape = kernel[0] + 1, kernel[1] + 4, channels
        weights = size * b.rng.choice([-1, 1], (*kernel, channels))
        requant = FixedPoint.of(b.rng.uniform(1e-4, 2e-3, channels))
        op = DepthwiseConv2D(
            weights.clip(-128, 127).astype(np.int8), b.bias(channels), window, requant
        )
        out = window.out_size(0, shape[0]), window.out_size(1, shape[1]), channels
        answers.append(b.node(op, [b.input(shape)], out).name)
    graph = laid_out(b.graph(answers), target)
    sample = [
        b.rng.choice(np.array([-128, 127], np.int8), x.shape) for x in random_inputs(graph, 0)
    ]
    expect_reference(disjoint(graph), target, [sample])


@pytest.mark.parametrize("target", [HOST, M55])
def test_pools_of_many_taps_and_channels(target: str) -> None:
    """Rows of more taps than 16 bits add up, windows of more than a reciprocal serves, and vectors
    of channels that are not whole; bytes at both ends."""
    b = Builder(np.random.default_rng(6))
    answers = []
    sizes = ((1, 300, 17), (2, 255, 16), (65, 64, 9), (5, 7, 40), (64, 64, 1))
    for (height, width, channels), padded in itertools.product(sizes, (False, True)):
        pad = (1, 2, 0, 1) if padded else (0, 0, 0, 0)
        window = Window((height, width), (1, 1), pad=pad)
        out = window.out_size(0, height), window.out_size(1, width), channels
        x = b.input((height, width, channels))
        ops = AveragePool2D(window, None, padded), MaxPool2D(window, act_min=-100, act_max=90)
        answers += [b.node(op, [x], out).name for op in ops]
    graph = laid_out(b.graph(answers), target)
    ends = np.array([-128, -128, -127, 127], np.int8)
    shapes = [x.shape for x in random_inputs(graph, 0)]
    samples = [[b.rng.choice(values, shape) for shape in shapes] for values in (ends, ends[:1])]
    expect_reference(disjoint(graph), target, samples)


@pytest.mark.parametrize("target", [HOST, M55])
def test_all_pairs_of_bytes(target: str) -> None:
    """Of which two are zero, too: 0 / 0 is 0."""
    b = Builder(np.random.default_rng(3))
    inputs = [b.input((256, 256, 1)) for _ in range(2)]
    answers = [b.node(binary_of(b, kind), inputs, (256, 256, 1)).name for kind in KINDS]
    every = np.mgrid[-128:128, -128:128].astype(np.int8)[..., None]
    expect_reference(disjoint(laid_out(b.graph(answers), target)), target, [list(every)])


@pytest.mark.parametrize("target", [HOST, M55])
@pytest.mark.parametrize("kind", ["conv2d", "depthwise", "fully_connected"])
def test_accumulators_wrap(kind: str, target: str) -> None:
    """Models have biases at the ends of int32, and files do not rule out sums beyond them."""
    graph = random_layers(kind, 20, seed=5)
    nodes = []
    for node in graph.nodes:
        size = node.op.bias.size
        bias = np.resize(np.array([-(2**31) + 1, 2**31 - 1], np.int32), size)
        requant = FixedPoint.of(np.full(size, 2.0**-25))
        nodes.append(replace(node, op=replace(node.op, bias=bias, requant=requant)))
    graph = laid_out(replace(graph, nodes=tuple(nodes)), target)
    expect_reference(disjoint(graph), target, [random_inputs(graph, 0)])


@pytest.mark.parametrize("target", [HOST, "qemu:m0", "qemu:m4", "qemu:rv32", M55])
@OF_KINDS
def test_output_on_top_of_input(kinds: tuple[str, ...], target: str) -> None:
    """The kernels keep to the order of access that the planner relies on."""
    graph = laid_out(random_layers(kinds, 24, seed=3), target)
    expect_reference(overlapped(graph), target, [random_inputs(graph, 0)])


@pytest.mark.parametrize("target", [HOST, "qemu:m0", "qemu:m3", "qemu:m4", "qemu:rv32", M55])
def test_pixels_without_a_tile(target: str) -> None:
    """Each pixel of a row is read where it is, also where its channels are whole lanes."""
    graph = laid_out(random_layers("pointwise", BATCH, seed=7), target)
    plan = disjoint(graph, Form.DIRECT)
    inputs = [plan.graph.tensors[step.node.inputs[0]] for step in plan.steps]
    direct = [step.form is Form.DIRECT for step in plan.steps]
    pairs = zip(direct, inputs, strict=True)
    assert any(one and x.shape[1] > 1 and x.shape[2] == 16 for one, x in pairs)
    expect_reference(plan, target, [random_inputs(graph, 0)])


class Large(Builder):
    """Draws layers whose windows of several rows are too large to be copied."""

    def shape(self) -> Shape:
        return self.pick(3, 5, 8), 8, self.pick(13, 16)


@pytest.mark.parametrize("target", [HOST, "qemu:m0", "qemu:m3", "qemu:m4", "qemu:rv32", M55])
def test_columns_without_a_tile(target: str) -> None:
    """Small windows are copied; of others, rows of padding are read from a row of scratch, and the
    rest where it is."""
    made = Large(np.random.default_rng(6))
    graph = laid_out(made.graph([LAYERS["column"](made).name for _ in range(20)]), target)
    (sample,) = samples = [random_inputs(graph, 0)]
    plan = disjoint(graph, Form.DIRECT)
    direct = [step for step in plan.steps if step.form is Form.DIRECT]
    assert direct and all(any(step.node.op.window.pad) for step in direct)
    expect_reference(plan, target, samples)
    expect_reference(overlapped(graph, form=Form.DIRECT), target, samples)
    expect_reference(wrapped(with_copies(graph), 4, Form.DIRECT), target, [sample])


def test_one_byte_nearer_is_too_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """The distances of the test above are tight: it would notice a kernel that reads late."""
    monkeypatch.setattr(compiled, "emit", write_tables)
    graph = random_layers("conv2d", 40, seed=3)
    with pytest.raises(AssertionError, match="not equal"):
        expect_reference(overlapped(graph, closer=1), "host", [random_inputs(graph, 0)])


@pytest.mark.parametrize("target", [HOST, M55])
@OF_KINDS
def test_input_around_the_pools_end(kinds: tuple[str, ...], target: str) -> None:
    graph = laid_out(with_copies(random_layers(kinds, 20, seed=4)), target)
    expect_reference(wrapped(graph, seed=4), target, [random_inputs(graph, 0)])
