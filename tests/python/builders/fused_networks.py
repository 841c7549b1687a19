# SPDX-License-Identifier: Apache-2.0
"""Networks that fuse well, in one stage, and comparisons of what a plan computes."""

from __future__ import annotations

import numpy as np
from random_builder import Builder
from random_graphs import convolution, depthwise_of, random_inputs
from vmcu_bench.runners import get
from vmcu_tools.graph import Graph, Tensor, Window
from vmcu_tools.machine import reference
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.ops.add import Add
from vmcu_tools.ops.average_pooling import AveragePool2D
from vmcu_tools.ops.concat import Concat
from vmcu_tools.ops.fully_connected import FullyConnected
from vmcu_tools.ops.max_pooling import MaxPool2D
from vmcu_tools.ops.requantize import Requantize
from vmcu_tools.plan.plan import Plan
from vmcu_tools.plan.schedule import Tile
from vmcu_tools.planner.places import smallest_pool
from vmcu_tools.planner.places.layout import Cut, Layout
from vmcu_tools.quant import FixedSum

HOST = "host:sanitize"


class Network(Builder):
    """A random chain of windows and point by point layers, with residual sums and
    concatenations."""

    def __init__(self, seed: int, layers: int = 7):
        super().__init__(np.random.default_rng(seed))
        height, width = int(self.rng.integers(6, 15)), self.pick(4, 6, 8, 9, 12, 16)
        self.x = self.input((height, width, self.pick(1, 3, 4)))
        self.past: list[Tensor] = [self.x]
        for _ in range(layers):
            self.x = self.grow()
            self.past.append(self.x)
        if self.rng.random() < 0.5:
            window = Window(self.x.shape[:2])
            self.x = self.node(AveragePool2D(window), [self.x], (1, 1, self.x.shape[2]))
            op = FullyConnected(
                self.weights(5, self.x.shape[2]), self.bias(5), self.requant(5, self.x.shape[2])
            )
            self.x = self.node(op, [self.x], (1, 1, 5))
        self.made = self.graph([self.x.name])

    def grow(self) -> Tensor:
        x = self.x
        twins = [t for t in self.past[-4:-1] if t.shape == x.shape]
        beside = [t for t in self.past[-4:-1] if t.shape[:2] == x.shape[:2]]
        kind = self.pick(0, 1, 2, 3, 4, 4, 5, 6)
        if kind == 0:
            window, out_h, out_w = self.window(x.shape)
            return convolution(self, x, window, out_h, out_w, self.pick(2, 5, 8))
        if kind == 1:
            return convolution(self, x, Window(), *x.shape[:2], self.pick(3, 8, 12))
        if kind == 2:
            window, out_h, out_w = self.window(x.shape)
            return depthwise_of(self, x, window, out_h, out_w, 1)
        if kind == 3 and min(x.shape[:2]) >= 3:
            stride = self.pick(1, 2)
            window = Window((3, 3), (stride, stride), pad=(1, 1, 1, 1))
            size = window.out_size(0, x.shape[0]), window.out_size(1, x.shape[1])
            return depthwise_of(self, x, window, *size, 1)
        if kind == 4 and twins:
            factors = self.factor(0.1, 1.0), self.factor(0.1, 1.0), self.factor(2**-21, 2**-17)
            return self.node(Add(FixedSum(*factors)), [twins[0], x], x.shape)
        if kind == 5 and beside:
            shape = (*x.shape[:2], x.shape[2] + beside[0].shape[2])
            return self.node(Concat(2, (None, None)), [x, beside[0]], shape)
        if kind == 6:
            window, out_h, out_w = self.window(x.shape)
            return self.node(MaxPool2D(window), [x], (out_h, out_w, x.shape[2]))
        return self.node(Requantize(self.factor(0.2, 5.0)), [x], x.shape)


def whole_network(graph: Graph, tile: Tile, streamed: bool) -> Plan:
    """All layers in one stage."""
    layout = Layout(graph, (Cut(0, len(graph.nodes), tile),), streamed)
    return smallest_pool.place("vmcu", layout)


def expect_meaning(plan: Plan, target: str) -> None:
    inputs = random_inputs(plan.graph, 1)
    meaning = reference.run(plan.graph, inputs)
    for outputs in get(target).run(plan, [inputs, inputs]):
        for port, values in zip(plan.graph.outputs, outputs, strict=True):
            np.testing.assert_array_equal(values, meaning[port.tensor])


def expect_every_tensor(plan: Plan) -> None:
    inputs = random_inputs(plan.graph, 1)
    meaning = reference.run(plan.graph, inputs)
    for name, values in VirtualMcu(plan).run(inputs).items():
        assert np.ma.filled(values == meaning[name], True).all(), name


def bottleneck() -> Graph:
    """An inverted bottleneck: seven rows of 32 channels are what it needs most."""
    made = Builder(np.random.default_rng(8))
    window = Window((7, 7), pad=(3, 3, 3, 3))
    x = convolution(made, made.input((20, 20, 4)), Window(), 20, 20, 4)
    e = convolution(made, x, Window(), 20, 20, 32)
    p = convolution(made, depthwise_of(made, e, window, 20, 20, 1), Window(), 20, 20, 4)
    factors = made.factor(0.1, 1.0), made.factor(0.1, 1.0), made.factor(2**-21, 2**-17)
    return made.graph([made.node(Add(FixedSum(*factors)), [x, p], x.shape).name])
