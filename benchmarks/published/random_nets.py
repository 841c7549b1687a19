# SPDX-License-Identifier: Apache-2.0
"""Random networks of the layers that microcontrollers run, for the error of estimates: few channels
and many, fused activations, and factors of both runtimes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests/python"))

from random_builder import Builder
from random_graphs import convolution, depthwise_of
from vmcu_tools.graph import Graph, Tensor, Window
from vmcu_tools.ops.add import Add
from vmcu_tools.ops.average_pooling import AveragePool2D
from vmcu_tools.ops.fully_connected import FullyConnected
from vmcu_tools.ops.max_pooling import MaxPool2D
from vmcu_tools.quant import FixedPoint, FixedSum, FloatScale, FloatSum, Requant

SMALLEST = 4
CLASSES = 10


class DrawnNetwork(Builder):
    """Draws a network; the same seed draws the same one. `fixed`: TensorFlow Lite's factors;
    `bounded`: half of the layers have an activation that leaves out a part of the int8 range."""

    def __init__(self, seed: int):
        super().__init__(np.random.default_rng(seed))
        self.fixed, self.bounded = (bool(self.rng.random() < share) for share in (0.6, 0.4))

    def limits(self) -> dict[str, int]:
        is_bounded = self.bounded and self.rng.random() < 0.5
        return {"act_min": int(self.rng.integers(-128, 0))} if is_bounded else {}

    def requant(self, channels: int, depth: int) -> Requant:
        real = 0.01 / np.sqrt(depth) * np.exp(self.rng.uniform(-0.5, 0.5, channels))
        return FixedPoint.of(real) if self.fixed else FloatScale(real.astype(np.float32))

    def bias(self, channels: int) -> np.ndarray:
        return self.rng.integers(-2000, 2000, channels).astype(np.int32)

    def sums(self) -> FixedSum | FloatSum:
        if not self.fixed:
            return FloatSum.of((0.05, 0.04, 0.07), (-10, 3, 5), 0)
        return FixedSum(self.factor(0.3, 0.9), self.factor(0.3, 0.9), self.factor(2e-6, 4e-6))

    def conv(self, x: Tensor, taps: int, stride: int, channels: int) -> Tensor:
        return convolution(self, x, *self._window(x, taps, stride), channels)

    def depthwise(self, x: Tensor, taps: int, stride: int) -> Tensor:
        return depthwise_of(self, x, *self._window(x, taps, stride), 1)

    @staticmethod
    def _window(x: Tensor, taps: int, stride: int) -> tuple[Window, int, int]:
        pad = taps // 2
        window = Window((taps, taps), (stride, stride), pad=(pad, pad, pad, pad))
        return window, window.out_size(0, x.shape[0]), window.out_size(1, x.shape[1])

    def separable(self, x: Tensor, stride: int) -> Tensor:
        return self.conv(self.depthwise(x, self.pick(3, 3, 5), stride), 1, 1, self.channels())

    def bottleneck(self, x: Tensor, stride: int) -> Tensor:
        y = self.conv(x, 1, 1, x.shape[2] * self.pick(2, 3, 4, 6))
        y = self.depthwise(y, self.pick(3, 3, 5, 7), stride)
        y = self.conv(y, 1, 1, x.shape[2] if stride == 1 else self.channels())
        return self.node(Add(self.sums()), [x, y], x.shape) if y.shape == x.shape else y

    def plain(self, x: Tensor, stride: int) -> Tensor:
        return self.conv(x, self.pick(1, 3, 3, 5), stride, self.channels())

    def pooled(self, x: Tensor, _: int) -> Tensor:
        height, width, channels = x.shape
        kind = MaxPool2D if self.rng.random() < 0.7 else AveragePool2D
        return self.node(kind(Window((2, 2), (2, 2))), [x], (height // 2, width // 2, channels))

    def channels(self) -> int:
        return self.pick(4, 8, 8, 10, 12, 16, 24, 32)

    def draw(self) -> Graph:
        size = self.pick(12, 16, 20, 24)
        x = self.input((size, size, self.pick(1, 3)))
        x = self.conv(x, 3, self.pick(1, 2), self.channels())
        blocks = (self.separable, self.bottleneck, self.plain, self.pooled)
        usual = self.pick(0, 1, 2)
        for _ in range(int(self.rng.integers(2, 5))):
            if min(x.shape[:2]) < SMALLEST:
                break
            x = blocks[self.pick(usual, usual, 0, 1, 2, 3)](x, self.pick(1, 1, 2))
        height, width, channels = x.shape
        x = self.node(AveragePool2D(Window((height, width))), [x], (1, 1, channels))
        weights, bias = self.weights(CLASSES, channels), self.bias(CLASSES)
        last = FullyConnected(weights, bias, self.requant(CLASSES, channels))
        return self.graph([self.node(last, [x], (1, 1, CLASSES)).name])
