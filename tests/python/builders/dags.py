# SPDX-License-Identifier: Apache-2.0
"""Random networks with branches: layers of convolutions and sums, with skips. Random graphs for
`vmcu place --graph`."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from vmcu_lab.placement import graphs
from vmcu_tools.graph import Graph, Node, Op, Port, Shape, Tensor, Window
from vmcu_tools.ops.add import Add
from vmcu_tools.ops.conv2d import Conv2D
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.quant import FixedPoint, FixedSum

SIDE = 4


class Dag:
    """`count` tensors of SIDE x SIDE pixels, in layers of at most `width` nodes, breadth first.

    Mostly a node reads what the layer before made and nobody has read yet; sometimes, a tensor of
    any layer. In the end everything unread is added up, through convolutions where channels differ.
    """

    def __init__(self, seed: int, count: int, width: int = 4, channels: int = 24):
        self.dice = np.random.default_rng(seed)
        self.channels = channels
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        layers = [[self.tensor((SIDE, SIDE, self.some_channels()))]]
        # Joining two tensors takes up to two nodes.
        while len(self.tensors) + 2 * (len(self.unread()) - 1) < count:
            nodes = int(self.dice.integers(1, width + 1))
            layers.append([self.grow(layers) for _ in range(nodes)])
        while len(ends := self.unread()) > 1:
            self.join(ends[0], ends[1])

    def unread(self) -> list[Tensor]:
        read = {name for node in self.nodes for name in node.inputs}
        return [tensor for name, tensor in self.tensors.items() if name not in read]

    def some_channels(self) -> int:
        return int(self.dice.integers(1, self.channels + 1))

    def tensor(self, shape: Shape) -> Tensor:
        tensor = Tensor(f"t{len(self.tensors)}", shape, 0.1, 0)
        self.tensors[tensor.name] = tensor
        return tensor

    def pick(self, layers: list[list[Tensor]]) -> Tensor:
        near = (
            layers[-1]
            if self.dice.random() < 0.8
            else [tensor for layer in layers for tensor in layer]
        )
        unread = [tensor for tensor in self.unread() if tensor in near]
        some = unread if unread and self.dice.random() < 0.8 else near
        return some[self.dice.integers(len(some))]

    def grow(self, layers: list[list[Tensor]]) -> Tensor:
        source, other = self.pick(layers), self.pick(layers)
        kind = self.dice.random()
        if other is not source and kind < 0.4:
            return self.join(source, other)
        if kind < 0.55:
            window = Window((3, 3), pad=(1, 1, 1, 1))
            weights, bias, scales = self.constants(3, 3, source.shape[2])
            op = DepthwiseConv2D(weights, bias, window, scales)
            return self.node(op, source.shape, source)
        return self.pointwise(source, self.some_channels())

    def join(self, one: Tensor, other: Tensor) -> Tensor:
        if one.shape != other.shape:
            one = self.pointwise(one, other.shape[2])
        half, out = FixedPoint.of(np.array([0.5])), FixedPoint.of(np.array([2.0**-19]))
        return self.node(Add(FixedSum(half, half, out)), other.shape, one, other)

    def pointwise(self, source: Tensor, channels: int) -> Tensor:
        weights, bias, scales = self.constants(1, 1, source.shape[2], channels)
        op = Conv2D(np.moveaxis(weights, -1, 0), bias, Window(), scales)
        return self.node(op, (SIDE, SIDE, channels), source)

    def constants(self, *shape: int) -> tuple[np.ndarray, np.ndarray, FixedPoint]:
        """Weights with the output's channels last, bias and scales."""
        weights = self.dice.integers(-128, 128, shape).astype(np.int8)
        scales = FixedPoint.of(2.0 ** self.dice.uniform(-12, -8, shape[-1]))
        return weights, np.zeros(shape[-1], np.int32), scales

    def node(self, op: Op, shape: Shape, *inputs: Tensor) -> Tensor:
        out = self.tensor(shape)
        names = tuple(tensor.name for tensor in inputs)
        self.nodes.append(Node(f"n{len(self.nodes)}", op, names, (out.name,)))
        return out

    def graph(self) -> Graph:
        def port(name: str) -> Port:
            return Port(name, name, (1, *self.tensors[name].shape), "int8")

        outputs = tuple(port(tensor.name) for tensor in self.unread())
        return Graph("dag", "", self.tensors, tuple(self.nodes), (port("t0"),), outputs)

    def sample(self) -> list[np.ndarray]:
        return [self.dice.integers(-128, 128, self.tensors["t0"].shape).astype(np.int8)]


def long_graph(seed: int, count: int) -> graphs.NamedGraph:
    """Nodes that read two of the last 60 results; its best order is not proven."""
    dice = random.Random(seed)
    tensors = [{"name": f"t{n}", "size": dice.randint(1, 400)} for n in range(count)]
    nodes: list[dict[str, Any]] = []
    for n in range(count):
        reads = sorted({dice.randrange(max(n - 60, 0), n) for _ in range(2)}) if n else []
        nodes.append({"name": f"n{n}", "outputs": [f"t{n}"], "inputs": [f"t{r}" for r in reads]})
    return graphs.parse({"tensors": tensors, "nodes": nodes})
