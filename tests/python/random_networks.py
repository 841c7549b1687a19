# SPDX-License-Identifier: Apache-2.0
"""Random networks of any form: branches, several outputs off one tensor, outputs that are inputs or
listed twice, concatenations of concatenations, images one pixel wide, windows larger than
images."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from random_builder import Builder
from random_graphs import LAYERS, convolution, depthwise_of
from vmcu_tools.graph import Graph, Shape, Tensor, Window
from vmcu_tools.ops.add import Add
from vmcu_tools.ops.average_pooling import AveragePool2D
from vmcu_tools.ops.concat import Concat
from vmcu_tools.ops.fully_connected import FullyConnected
from vmcu_tools.ops.max_pooling import MaxPool2D
from vmcu_tools.ops.pad import Pad
from vmcu_tools.ops.requantize import Requantize
from vmcu_tools.quant import FixedSum

# How far back a layer looks for its inputs: chains with short branches, or anything.
RECENT = (1, 2, 4, 100)


def wide(seed: int) -> Graph:
    """A bottleneck of so many channels that kernels need scratch in the pool, summed up to one
    pixel, and a layer whose scratch leaves most of the pool free."""
    b = Builder(np.random.default_rng(seed))
    x = b.input((9, 8, 12))
    x = convolution(b, x, Window(), 9, 8, 96)
    x = depthwise_of(b, x, Window((3, 3), pad=(1, 1, 1, 1)), 9, 8, 1)
    x = convolution(b, x, Window(), 9, 8, 80)
    x = convolution(b, x, Window((3, 3), pad=(1, 1, 1, 1)), 9, 8, 72)
    x = b.node(AveragePool2D(Window((9, 8))), [x], (1, 1, 72))
    x = convolution(b, x, Window((3, 3), pad=(1, 1, 1, 1)), 1, 1, 8)
    op = FullyConnected(b.weights(5, 8), b.bias(5), b.requant(5, 8))
    return b.graph([b.node(op, [x], (1, 1, 5)).name])


def drawn_window(b: Builder, x: Tensor, taps: tuple[int, ...]) -> tuple[Window, int, int]:
    """A window that fits onto a tensor, and the size of what it makes."""
    height, width, _ = x.shape
    while True:
        down, across = b.pick(*taps), b.pick(*taps)
        stride = b.pick(1, 2, 3), b.pick(1, 2, 3)
        dilation = (b.pick(1, 1, 2), b.pick(1, 1, 2))
        spans = down * dilation[0], across * dilation[1]
        pad = tuple(int(b.rng.integers(0, span)) for span in (*spans, *spans))
        window = Window((down, across), stride, dilation, pad)
        size = window.out_size(0, height), window.out_size(1, width)
        if min(size) >= 1 and size[1] > 1:
            return window, *size


def two_layers(seed: int) -> Graph:
    """A layer and a window over what it makes, both of any kind, and one behind them."""
    b = Builder(np.random.default_rng(seed))
    x = b.input((int(b.rng.integers(7, 14)), int(b.rng.integers(8, 17)), b.pick(3, 4, 6)))
    first, *size = drawn_window(b, x, (1, 1, 3))
    if b.rng.random() < 0.5:
        first, size = Window(), [*x.shape[:2]]
    if b.rng.random() < 0.3 and first.kernel != (1, 1):
        e = depthwise_of(b, x, first, *size, 1)
    else:
        e = convolution(b, x, first, *size, b.pick(5, 8, 12))
    second, *size = drawn_window(b, e, (2, 3, 3, 5))
    layer = convolution if b.rng.random() < 0.4 else depthwise_of
    y = layer(b, e, second, *size, 1 if layer is depthwise_of else b.pick(3, 7))
    return b.graph([convolution(b, y, Window(), *size, 4).name])


class AnyNetwork(Builder):
    """Draws a graph of up to `layers` layers; the same seed draws the same one."""

    def __init__(self, seed: int, layers: int = 12):
        super().__init__(np.random.default_rng(seed))
        self.recent = self.pick(*RECENT)
        size = self.pick(1, 3, 7, 10, 14), self.pick(1, 2, 5, 8, 13)
        self.past: list[Tensor] = []
        self.past += [self.input((*size, self.pick(1, 2, 3, 5))) for _ in range(self.pick(1, 1, 2))]
        grow = self.layers()
        for _ in range(int(self.rng.integers(1, layers + 1))):
            self.past.append(grow[int(self.rng.integers(len(grow)))]())
        if self.rng.random() < 0.3:
            self.past.append(self.dense())
        self.made = self._finished()

    def layers(self) -> tuple[Callable[[], Tensor], ...]:
        """What is drawn from: each adds a layer, or a few, and returns the last one's output."""
        return (
            *(self.spatial, self.spatial, self.pointwise, self.depthwise, self.pooled),
            *(self.added, self.added, self.joined, self.joined, self.looked_up, self.padded),
        )

    def _finished(self) -> Graph:
        """With every tensor that nothing reads as an output, and some more."""
        read = {name for node in self.nodes for name in node.inputs}
        outputs = [t.name for t in self.past if t.name not in read]
        for tensor in self.past:
            if self.rng.random() < 0.08:
                outputs.append(tensor.name)
        return self.graph([outputs[int(n)] for n in self.rng.permutation(len(outputs))])

    def any(self) -> Tensor:
        """A tensor to go on from, rather a late one."""
        return self.past[-1 - int(self.rng.integers(min(self.recent, len(self.past))))]

    def spatial(self) -> Tensor:
        x = self.any()
        window, out_h, out_w = self.window(x.shape)
        return convolution(self, x, window, out_h, out_w, self.pick(1, 2, 5, 8))

    def pointwise(self) -> Tensor:
        x = self.any()
        return convolution(self, x, Window(), *x.shape[:2], self.pick(1, 3, 4, 12))

    def depthwise(self) -> Tensor:
        x = self.any()
        window, out_h, out_w = self.window(x.shape)
        if self.rng.random() < 0.5:
            window, (out_h, out_w) = Window((3, 3), pad=(1, 1, 1, 1)), x.shape[:2]
        return depthwise_of(self, x, window, out_h, out_w, self.pick(1, 1, 1, 2))

    def pooled(self) -> Tensor:
        x = self.any()
        window, out_h, out_w = self.window(x.shape)
        if self.rng.random() < 0.2:
            window, out_h, out_w = Window(x.shape[:2]), 1, 1
        kind = MaxPool2D if self.rng.random() < 0.5 else AveragePool2D
        return self.node(kind(window), [x], (out_h, out_w, x.shape[2]))

    def added(self) -> Tensor:
        x = self.any()
        # A tensor may be added to itself.
        twins = [t for t in self.past if t.shape == x.shape]
        y = twins[int(self.rng.integers(len(twins)))]
        fixed = FixedSum(self.factor(0.1, 1.0), self.factor(0.1, 1.0), self.factor(2**-21, 2**-17))
        op = Add(fixed if self.rng.random() < 0.7 else self.float_sum(), **self.limits())
        return self.node(op, [x, y], x.shape)

    def joined(self) -> Tensor:
        x, axis = self.any(), self.pick(0, 1, 2, 2)
        others = [a for a in range(3) if a != axis]
        beside = [t for t in self.past if all(t.shape[a] == x.shape[a] for a in others)]
        parts = [x, *(beside[int(self.rng.integers(len(beside)))] for _ in range(self.pick(1, 2)))]
        tables = [self.rng.integers(-128, 128, 256).astype(np.int8) for _ in parts]
        shape = list(x.shape)
        shape[axis] = sum(t.shape[axis] for t in parts)
        op = Concat(axis, tuple(t if self.rng.random() < 0.2 else None for t in tables))
        return self.node(op, parts, (shape[0], shape[1], shape[2]))

    def looked_up(self) -> Tensor:
        x = self.any()
        return self.node(Requantize(self.factor(0.2, 5.0), **self.limits()), [x], x.shape)

    def padded(self) -> Tensor:
        x = self.any()
        pads = tuple((int(a), int(b)) for a, b in self.rng.integers(0, 3, (3, 2)))
        shape = tuple(size + sum(pair) for size, pair in zip(x.shape, pads, strict=True))
        return self.node(Pad(pads, int(self.rng.integers(-128, 128))), [x], shape)

    def dense(self) -> Tensor:
        x, count = self.any(), self.pick(1, 4, 10)
        op = FullyConnected(
            self.weights(count, x.shape[2]), self.bias(count), self.requant(count, x.shape[2])
        )
        return self.node(op, [x], (*x.shape[:2], count))


class EveryNetwork(AnyNetwork):
    """As AnyNetwork, with layers of every kind, residuals and long branches."""

    def layers(self) -> tuple[Callable[[], Tensor], ...]:
        return (*super().layers(), self.residual, self.deep, *[self.of_any_kind] * 4)

    def shape(self) -> Shape:
        """That of a tensor there is already, so that input() finds it."""
        return self.any().shape if self.past else super().shape()

    def input(self, shape: Shape) -> Tensor:
        """A tensor there is already, if one has the shape."""
        made = getattr(self, "past", [])
        fitting = [tensor for tensor in made if tensor.shape == shape]
        return fitting[int(self.rng.integers(len(fitting)))] if fitting else super().input(shape)

    def of_any_kind(self) -> Tensor:
        kinds = list(LAYERS.values())
        before = len(self.tensors)
        made = kinds[int(self.rng.integers(len(kinds)))](self)
        # Inputs that the layer brought along can be read by others, too.
        names = list(self.tensors)[before:]
        self.past += [self.tensors[name] for name in names if name in self.inputs]
        return made

    def residual(self) -> Tensor:
        x = self.any()
        y = convolution(self, x, Window(), *x.shape[:2], self.pick(2, 6, 12))
        y = depthwise_of(self, y, self.square(), *y.shape[:2], 1)
        return self.sum_of(x, convolution(self, y, Window(), *y.shape[:2], x.shape[2]))

    def deep(self) -> Tensor:
        """A long branch that a short one waits for."""
        x = y = self.any()
        for _ in range(self.pick(3, 5, 8)):
            y = depthwise_of(self, y, self.square(), *y.shape[:2], 1)
        return self.sum_of(x, y)

    @staticmethod
    def square() -> Window:
        return Window((3, 3), pad=(1, 1, 1, 1))

    def sum_of(self, x: Tensor, y: Tensor) -> Tensor:
        fixed = FixedSum(self.factor(0.1, 1.0), self.factor(0.1, 1.0), self.factor(2**-21, 2**-17))
        return self.node(Add(fixed, **self.limits()), [x, y], x.shape)
