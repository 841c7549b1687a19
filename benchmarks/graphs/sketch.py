# SPDX-License-Identifier: Apache-2.0
"""int8 graphs with seeded weights, layer by layer, without a file."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from vmcu_tools.graph import Graph, Node, Op, Port, Shape, Tensor, Window
from vmcu_tools.ops.add import Add
from vmcu_tools.ops.average_pooling import AveragePool2D
from vmcu_tools.ops.binary import Binary
from vmcu_tools.ops.concat import Concat
from vmcu_tools.ops.conv2d import Conv2D
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.ops.fully_connected import FullyConnected
from vmcu_tools.ops.lookup import Lookup
from vmcu_tools.ops.max_pooling import MaxPool2D
from vmcu_tools.ops.move import Move
from vmcu_tools.quant import FixedPoint, FixedSum

HALF, OUT = FixedPoint.of(np.array([0.5])), FixedPoint.of(np.array([2.0**-19]))


class Sketch:
    """A graph under construction. All tensors have one scale, and zero points of zero."""

    def __init__(self, name: str, shape: Shape, seed: int = 0):
        self.name, self.dice = name, np.random.default_rng(seed)
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.inputs = [self.tensor(shape)]

    @property
    def start(self) -> Tensor:
        """The first input."""
        return self.inputs[0]

    def tensor(self, shape: Shape) -> Tensor:
        tensor = Tensor(f"t{len(self.tensors)}", shape, 0.1, 0)
        self.tensors[tensor.name] = tensor
        return tensor

    def input(self, shape: Shape) -> Tensor:
        """One more input."""
        self.inputs.append(self.tensor(shape))
        return self.inputs[-1]

    def node(self, op: Op, shape: Shape, *inputs: Tensor) -> Tensor:
        out = self.tensor(shape)
        names = tuple(tensor.name for tensor in inputs)
        label = f"{type(op).__name__}_{len(self.nodes)}"
        self.nodes.append(Node(label, op, names, (out.name,)))
        return out

    def constants(self, depth: int, *shape: int) -> tuple[np.ndarray, np.ndarray, FixedPoint]:
        """Weights with output channels first, bias and factors for sums of `depth` products."""
        weights = self.dice.integers(-128, 128, shape).astype(np.int8)
        real = np.full(shape[0], 60.0 / (75.0 * 75.0 * depth**0.5))
        return weights, np.zeros(shape[0], np.int32), FixedPoint.of(real)

    def conv(self, x: Tensor, count: int, kernel: int = 1, stride: int = 1) -> Tensor:
        """A convolution, padded by half a kernel, with ReLU."""
        window, size = self._window(x, kernel, stride)
        depth = x.shape[2]
        shape = (count, kernel, kernel, depth)
        weights, bias, factors = self.constants(kernel**2 * depth, *shape)
        op = Conv2D(weights, bias, window, factors, act_min=0)
        return self.node(op, (*size, count), x)

    def depthwise(self, x: Tensor, kernel: int = 3, stride: int = 1) -> Tensor:
        window, size = self._window(x, kernel, stride)
        channels = x.shape[2]
        weights, bias, factors = self.constants(kernel**2, channels, kernel, kernel)
        op = DepthwiseConv2D(np.moveaxis(weights, 0, -1).copy(), bias, window, factors)
        return self.node(op, (*size, channels), x)

    def separable(self, x: Tensor, count: int, kernel: int = 3, stride: int = 1) -> Tensor:
        """Depthwise, then 1 x 1."""
        return self.conv(self.depthwise(x, kernel, stride), count)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        return self.node(Add(FixedSum(HALF, HALF, OUT)), x.shape, x, y)

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        """Element by element; y's sizes are x's, or 1."""
        return self.node(Binary("product", out=FixedPoint.of(np.array([2.0**-7]))), x.shape, x, y)

    def join(self, *parts: Tensor) -> Tensor:
        """Channels after channels."""
        channels = sum(part.shape[2] for part in parts)
        return self.node(Concat(2, (None,) * len(parts)), (*parts[0].shape[:2], channels), *parts)

    def max_pool(self, x: Tensor, kernel: int, stride: int) -> Tensor:
        window, size = self._window(x, kernel, stride)
        return self.node(MaxPool2D(window), (*size, x.shape[2]), x)

    def average_pool(self, x: Tensor, kernel: int, stride: int) -> Tensor:
        window, size = self._window(x, kernel, stride)
        return self.node(AveragePool2D(window), (*size, x.shape[2]), x)

    def mean(self, x: Tensor) -> Tensor:
        """Over all pixels."""
        return self.node(AveragePool2D(Window(x.shape[:2])), (1, 1, x.shape[2]), x)

    def dense(self, x: Tensor, count: int) -> Tensor:
        op = FullyConnected(*self.constants(x.shape[2], count, x.shape[2]))
        return self.node(op, (*x.shape[:2], count), x)

    def curve(self, x: Tensor) -> Tensor:
        """Some function of each value, as a sigmoid is."""
        table = np.rint(127 * np.tanh(np.arange(-128, 128) / 64)).astype(np.int8)
        return self.node(Lookup(table), x.shape, x)

    def part(self, x: Tensor, rows: range, channels: range) -> Tensor:
        """Some rows and channels."""
        at = functools.partial(np.arange, dtype=np.int64)
        op = Move(
            at(rows.start, rows.stop) * x.row_bytes + channels.start,
            at(x.shape[1]) * x.shape[2],
            at(len(channels)),
        )
        return self.node(op, (len(rows), x.shape[1], len(channels)), x)

    def doubled(self, x: Tensor) -> Tensor:
        """Twice as high and wide, each pixel four times."""
        height, width, channels = x.shape
        rows, columns = (np.arange(2 * size, dtype=np.int64) // 2 for size in (height, width))
        op = Move(rows * x.row_bytes, columns * channels, np.arange(channels, dtype=np.int64))
        return self.node(op, (2 * height, 2 * width, channels), x)

    def graph(self, *outputs: Tensor) -> Graph:
        def ports(tensors: Sequence[Tensor]) -> tuple[Port, ...]:
            return tuple(Port(t.name, t.name, (1, *t.shape), "int8") for t in tensors)

        nodes = tuple(self.nodes)
        return Graph(self.name, "", self.tensors, nodes, ports(self.inputs), ports(outputs))

    @staticmethod
    def _window(x: Tensor, kernel: int, stride: int) -> tuple[Window, tuple[int, int]]:
        pad = kernel // 2
        window = Window((kernel, kernel), (stride, stride), pad=(pad,) * 4)
        return window, (window.out_size(0, x.shape[0]), window.out_size(1, x.shape[1]))
