# SPDX-License-Identifier: Apache-2.0
"""Sequences in one dimension: plans along either axis, and the choice between plans."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from builders.fused_networks import HOST, Network, expect_every_tensor, expect_meaning
from builders.networks import network_file
from drawn import seeds
from random_builder import Builder
from random_graphs import convolution, depthwise_of
from vmcu_tools.compiler import load_prepared
from vmcu_tools.graph import Graph, Tensor, Window
from vmcu_tools.ops.add import Add
from vmcu_tools.ops.average_pooling import AveragePool2D
from vmcu_tools.ops.max_pooling import MaxPool2D
from vmcu_tools.paths import root
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.stages.costs import time_of
from vmcu_tools.planner.stages.fusion import in_one_row
from vmcu_tools.quant import FixedSum

GESTURE = root() / "samples" / "gesture" / "gesture.onnx"
USUAL = CompileOptions()


class Sequence(Builder):
    """A random network of layers along time, which is H, with one residual sum."""

    def __init__(self, seed: int):
        super().__init__(np.random.default_rng(seed))
        x = self.input((int(self.rng.integers(12, 60)), 1, self.pick(1, 3, 6)))
        for _ in range(self.pick(2, 3, 5)):
            x = self.grow(x)
        factors = self.factor(0.1, 1.0), self.factor(0.1, 1.0), self.factor(2**-21, 2**-17)
        same = self.along(x, 3, 1, 1, True)
        y = convolution(self, x, same, x.shape[0], 1, x.shape[2])
        y = self.node(Add(FixedSum(*factors)), [x, y], x.shape)
        mean = AveragePool2D(Window((x.shape[0], 1)))
        self.made = self.graph([self.node(mean, [y], (1, 1, x.shape[2])).name])

    @staticmethod
    def along(x: Tensor, taps: int, stride: int, dilation: int, padded: bool) -> Window:
        reach = (taps - 1) * dilation
        pads = (reach // 2, 0, reach - reach // 2, 0) if padded else (0, 0, 0, 0)
        return Window((taps, 1), (stride, 1), (dilation, 1), pads)

    def grow(self, x: Tensor) -> Tensor:
        taps, stride = self.pick(1, 2, 3, 5, 9), self.pick(1, 1, 2)
        dilation = self.pick(1, 1, 2)
        padded = self.rng.random() < 0.6 or (taps - 1) * dilation >= x.shape[0]
        window = self.along(x, taps, stride, dilation, padded)
        height = window.out_size(0, x.shape[0])
        kind = self.pick(0, 0, 1, 2)
        if kind == 1:
            return depthwise_of(self, x, window, height, 1, self.pick(1, 1, 2))
        if kind == 2 and dilation == 1:
            return self.node(MaxPool2D(window), [x], (height, 1, x.shape[2]))
        return convolution(self, x, window, height, 1, self.pick(2, 5, 8, 16))


def in_row(graph: Graph) -> Graph:
    row = in_one_row(graph, USUAL)
    assert row is not None
    return row


@pytest.mark.parametrize("seed", seeds(40, 5))
def test_plans_along_both_axes_compute_the_same(seed: int) -> None:
    graph = Sequence(seed).made
    small = make_plan(graph)
    expect_every_tensor(small)
    limits = (small.pool_bytes, int(1.3 * small.pool_bytes), 1 << 20)
    for plan in (make_plan(graph, CompileOptions(ram=ram)) for ram in limits):
        expect_every_tensor(plan)
        expect_meaning(plan, HOST)


@pytest.mark.parametrize("target", ["qemu:m4", "qemu:m55", "qemu:rv32", "qemu:m0"])
def test_boards_run_sequences_in_tiles(target: str) -> None:
    family = {"qemu:m4": "dsp", "qemu:m55": "helium", "qemu:rv32": "rv32", "qemu:m0": "v6m"}
    for seed in range(3):
        graph = replace(Sequence(seed).made, target=family[target])
        expect_meaning(make_plan(in_row(graph)), target)
        expect_meaning(make_plan(graph, CompileOptions(stream_input=True)), target)


def test_rows_of_a_sequence_are_fused_in_tiles() -> None:
    """The layers of an image of one row are called more than once if they work in tiles."""
    made = Builder(np.random.default_rng(0))
    x = made.input((128, 1, 3))
    for _ in range(3):
        x = convolution(made, x, Sequence.along(x, 3, 1, 1, True), 128, 1, 8)
    row = in_row(made.graph([made.node(AveragePool2D(Window((128, 1))), [x], (1, 1, 8)).name]))
    whole, least = make_plan(row, CompileOptions(ram=1 << 20)), make_plan(row)
    assert all(len(stage) == 1 for stage in whole.stages)
    assert any(len(stage) > 1 for stage in least.stages)
    assert least.pool_bytes < whole.pool_bytes / 2


def test_the_default_takes_a_sixth_more_ram_for_half_of_the_time() -> None:
    graph = load_prepared(GESTURE, USUAL)
    along_h = make_plan(graph, CompileOptions(stream_input=False, external_input=True))
    assert along_h.graph.tensors[along_h.graph.inputs[0].tensor].shape[1] == 1
    plan = make_plan(graph)
    assert plan.graph.tensors[plan.graph.inputs[0].tensor].shape[0] == 1
    (note,) = (note for note in plan.notes if note.startswith("--ram"))
    faster = make_plan(graph, CompileOptions(ram=int(note.split()[1])))
    assert time_of(faster, None) < 0.9 * time_of(plan, None)


@pytest.mark.parametrize("seed", seeds(20, 5))
def test_a_limit_never_makes_a_plan_slower_than_the_default(seed: int) -> None:
    for graph in (Network(seed).made, Sequence(seed).made):
        default = make_plan(graph)
        for share in (1, 1.1, 1.5, 4):
            plan = make_plan(graph, CompileOptions(ram=int(share * default.pool_bytes)))
            assert time_of(plan, None) <= time_of(default, None)


def test_a_bargain_is_within_the_rule() -> None:
    """ResNet-8 needs an eighth fewer cycles for half a percent more RAM."""
    graph = load_prepared(network_file("mlperf-tiny-resnet8"), USUAL)
    usual = make_plan(graph)
    params = replace(USUAL.params, trade_off=False)
    least = make_plan(graph, CompileOptions(params=params))
    assert least.pool_bytes < usual.pool_bytes <= 1.15 * least.pool_bytes
    assert time_of(usual, None) <= 0.9 * time_of(least, None)
