# SPDX-License-Identifier: Apache-2.0
"""Random networks of a window along time, which see each row in the same way wherever it is."""

from __future__ import annotations

import functools

import numpy as np
from random_builder import Builder
from random_graphs import convolution, depthwise_of
from vmcu_tools.graph import Graph, Tensor, Window
from vmcu_tools.ops.add import Add
from vmcu_tools.ops.average_pooling import AveragePool2D
from vmcu_tools.ops.concat import Concat
from vmcu_tools.ops.fully_connected import FullyConnected
from vmcu_tools.ops.max_pooling import MaxPool2D
from vmcu_tools.plan.plan import Plan
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.quant import FixedSum


class Temporal:
    """A network, and by how many rows its window moves; `every`: rows of the input for which its
    last layer with several rows has one."""

    def __init__(self, seed: int):
        self.b = Builder(np.random.default_rng(seed))
        height, width = (int(n) for n in self.b.rng.integers((14, 1), (30, 5)))
        x = self.b.input((height, width, self.b.pick(1, 3, 4, 8)))
        self.every = 1
        for _ in range(self.b.pick(1, 2, 3, 4)):
            x = self._layer(x)
        self.graph: Graph = self.b.graph([self._answer(x).name])
        # One that goes with the strides, and is less than the window.
        self.hop = self.every * min(self.b.pick(1, 1, 2, 3), max((height - 1) // self.every, 1))

    def _window(self, x: Tensor, tall: int) -> tuple[Window, int, int]:
        """One without padding in time."""
        height, width, _ = x.shape
        most = max(min(tall, height // 2), 1)
        kernel = int(self.b.rng.integers(1, most + 1)), self.b.pick(1, min(3, width))
        stride = self.b.pick(1, 1, 2), self.b.pick(1, 1, 2)
        pad = (0, kernel[1] // 2, 0, kernel[1] // 2)
        window = Window(kernel, stride, (1, 1), pad)
        return window, window.out_size(0, height), window.out_size(1, width)

    def _layer(self, x: Tensor) -> Tensor:
        kind = self.b.pick(*range(7))
        if kind == 0:
            return self._sum(x)
        if kind in (1, 2):
            return self._branches(x)
        window, height, width = self._window(x, 5)
        self.every *= window.stride[0]
        if kind == 3:
            return convolution(self.b, x, window, height, width, self.b.pick(2, 3, 8))
        if kind == 4:
            return depthwise_of(self.b, x, window, height, width, 1)
        shape = height, width, x.shape[2]
        if kind == 5:
            return self.b.node(MaxPool2D(window), [x], shape)
        return self.b.node(AveragePool2D(window), [x], shape)

    def _sum(self, x: Tensor) -> Tensor:
        other = convolution(self.b, x, Window(), *x.shape[:2], x.shape[2])
        return self._added(other, x)

    def _added(self, one: Tensor, other: Tensor) -> Tensor:
        fixed = FixedSum(
            self.b.factor(0.1, 1.0), self.b.factor(0.1, 1.0), self.b.factor(2.0**-21, 2.0**-17)
        )
        return self.b.node(Add(fixed), [one, other], other.shape)

    def _branches(self, x: Tensor) -> Tensor:
        """Two that are as tall, one of them in two steps, side by side."""
        tall = min(3, x.shape[0] // 3)
        window = Window((2 * tall - 1, 1))
        height, width = window.out_size(0, x.shape[0]), x.shape[1]
        one = depthwise_of(self.b, x, window, height, width, 1)
        half = Window((tall, 1))
        middle = depthwise_of(self.b, x, half, half.out_size(0, x.shape[0]), width, 1)
        other = convolution(self.b, middle, half, height, width, self.b.pick(1, 4))
        shape = height, width, one.shape[2] + other.shape[2]
        return self.b.node(Concat(2, (None, None)), [one, other], shape)

    def _answer(self, x: Tensor) -> Tensor:
        """From the rows that are left to one."""
        height, width, channels = x.shape
        if self.b.rng.random() < 0.3:
            x = self.b.node(AveragePool2D(Window((height, width))), [x], (1, 1, channels))
        else:
            window = Window((height, width))
            x = convolution(self.b, x, window, 1, 1, self.b.pick(2, 5))
        cout, depth = 4, x.shape[2]
        op = FullyConnected(
            self.b.weights(cout, depth), self.b.bias(cout), self.b.requant(cout, depth)
        )
        return self.b.node(op, [x], (1, 1, cout))


class Mixed(Temporal):
    """A network in which some layers see their rows otherwise at the ends of a window, or in other
    strides than the hop's; its answer may have several rows."""

    def __init__(self, seed: int):
        super().__init__(seed)
        height = self.graph.tensors[self.graph.inputs[0].tensor].shape[0]
        self.hop = min(self.b.pick(1, 1, 2, 3, 4), height - 1)

    def _layer(self, x: Tensor) -> Tensor:
        kind = self.b.pick(*range(8))
        if kind == 0:
            return self._padded(x)
        if kind == 1:
            return self._residual(x)
        if kind == 2:
            return self._beside(x)
        if kind == 3:
            return self.b.node(Concat(0, (None, None)), [x, x], (2 * x.shape[0], *x.shape[1:]))
        return super()._layer(x)

    def _padded(self, x: Tensor) -> Tensor:
        """Zeros in front of the rows, behind them, or both."""
        tall, stride = self.b.pick(2, 3, 5), self.b.pick(1, 1, 2, 3)
        window = Window((tall, 1), (stride, 1), (1, 1), (self.b.pick(0, 1), 0, tall // 2, 0))
        height = window.out_size(0, x.shape[0])
        if height < 1:
            return x
        if self.b.pick(0, 1):
            return depthwise_of(self.b, x, window, height, x.shape[1], 1)
        return convolution(self.b, x, window, height, x.shape[1], self.b.pick(2, 8))

    def _residual(self, x: Tensor) -> Tensor:
        """Past a layer that pads."""
        same = Window((3, 1), pad=(1, 0, 1, 0))
        other = convolution(self.b, x, same, *x.shape)
        return self._added(other, x)

    def _beside(self, x: Tensor) -> Tensor:
        """A branch that pads beside one that does not, and both beside what they read."""
        window = Window((3, 1), pad=(0, 0, 2, 0))
        one = convolution(self.b, x, window, *x.shape[:2], self.b.pick(2, 4))
        other = convolution(self.b, x, Window(), *x.shape[:2], self.b.pick(1, 3))
        channels = sum(tensor.shape[2] for tensor in (one, other, x))
        return self.b.node(Concat(2, (None,) * 3), [one, other, x], (*x.shape[:2], channels))

    def _answer(self, x: Tensor) -> Tensor:
        return x if self.b.pick(0, 0, 0, 1) else super()._answer(x)


@functools.cache
def drawn(kind: type[Temporal], seed: int) -> tuple[Graph, int]:
    """A network of a kind, and its hop."""
    found = kind(seed)
    return found.graph, found.hop


@functools.cache
def plan_of(kind: type[Temporal], seed: int) -> Plan:
    graph, hop = drawn(kind, seed)
    return make_plan(graph, CompileOptions(hop=hop))
