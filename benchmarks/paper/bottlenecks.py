# SPDX-License-Identifier: Apache-2.0
"""The layers and modules that the vMCU paper evaluates, as graphs with seeded weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rows import listed
from vmcu_tools.graph import Graph, Node, Op, Port, Shape, Tensor, Window
from vmcu_tools.ops.add import Add
from vmcu_tools.ops.conv2d import Conv2D
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.quant import FixedPoint, FixedSum

TABLE_2 = Path(__file__).with_name("table2.csv")
VWW, IMAGENET = "mcunet-vww-5fps", "mcunet-imagenet-320kb"


class Builder:
    """A graph, node by node; tensors by name."""

    def __init__(self, name: str, shape: Shape):
        self.name = name
        self.dice = np.random.default_rng(1)
        self.tensors = {"input": Tensor("input", shape, 0.05, 0)}
        self.nodes: list[Node] = []

    def node(self, name: str, op: Op, shape: Shape, *inputs: str) -> str:
        self.tensors[name] = Tensor(name, shape, 0.05, 0)
        self.nodes.append(Node(name, op, inputs, (name,)))
        return name

    def pointwise(self, name: str, source: str, channels: int, stride: int = 1) -> str:
        height, width, depth = self.tensors[source].shape
        window = Window(stride=(stride, stride))
        weights = self.weights(channels, 1, 1, depth)
        op = Conv2D(weights, np.zeros(channels, np.int32), window, self.scales(channels))
        shape = (window.out_size(0, height), window.out_size(1, width), channels)
        return self.node(name, op, shape, source)

    def depthwise(self, name: str, source: str, k: int, stride: int) -> str:
        height, width, channels = self.tensors[source].shape
        window = Window((k, k), (stride, stride), pad=(k // 2,) * 4)
        weights = self.weights(k, k, channels)
        op = DepthwiseConv2D(weights, np.zeros(channels, np.int32), window, self.scales(channels))
        shape = (window.out_size(0, height), window.out_size(1, width), channels)
        return self.node(name, op, shape, source)

    def add(self, name: str, one: str, other: str) -> str:
        half, out = FixedPoint.of(np.array([0.5])), FixedPoint.of(np.array([2.0**-19]))
        return self.node(name, Add(FixedSum(half, half, out)), self.tensors[one].shape, one, other)

    def weights(self, *shape: int) -> np.ndarray:
        return self.dice.integers(-127, 128, shape).astype(np.int8)

    def scales(self, channels: int) -> FixedPoint:
        return FixedPoint.of(2.0 ** self.dice.uniform(-12, -8, channels))

    def graph(self, output: str) -> Graph:
        ports = [
            Port(name, name, (1, *self.tensors[name].shape), "int8") for name in ("input", output)
        ]
        return Graph(
            self.name, self.name, self.tensors, tuple(self.nodes), (ports[0],), (ports[1],)
        )


@dataclass(frozen=True)
class Pointwise:
    """A 1x1 convolution of a square image: pixels to a side, channels, stride."""

    side: int
    depth: int
    channels: int
    stride: int = 1

    @property
    def name(self) -> str:
        stride = f", stride {self.stride}" if self.stride > 1 else ""
        return f"{self.side}x{self.side}, {self.depth} -> {self.channels}{stride}"

    def graph(self) -> Graph:
        builder = Builder(self.name, (self.side, self.side, self.depth))
        return builder.graph(builder.pointwise("output", "input", self.channels, self.stride))


@dataclass(frozen=True)
class Module:
    """An inverted bottleneck: 1x1 to `mid` channels, depthwise k x k, 1x1 to `out`, and a sum with
    the input where `residual`. Sizes in pixels and channels, `strides` of the three."""

    name: str
    network: str
    side: int
    depth: int
    mid: int
    out: int
    k: int
    strides: tuple[int, int, int]
    residual: bool

    def graph(self) -> Graph:
        builder = Builder(self.name, (self.side, self.side, self.depth))
        expanded = builder.pointwise("expanded", "input", self.mid, self.strides[0])
        filtered = builder.depthwise("filtered", expanded, self.k, self.strides[1])
        projected = builder.pointwise("projected", filtered, self.out, self.strides[2])
        if not self.residual:
            return builder.graph(projected)
        return builder.graph(builder.add("sum", projected, "input"))

    def line_bytes(self) -> int:
        """What k rows between the layers would need, by estimate: the larger of input and output,
        k rows after the first convolution, one pixel after each other one."""
        tensors = self.graph().tensors
        ends = max(tensors["input"].bytes, tensors["projected"].bytes)
        rows = min(self.k, tensors["expanded"].shape[0]) * tensors["expanded"].row_bytes
        return ends + rows + self.mid + self.out


def modules() -> list[Module]:
    """Table 2 of the paper. It gives S3 different channels before and after, so no sum."""
    found = []
    for row in listed(TABLE_2):
        strides = (row["stride_expand"], row["stride_dw"], row["stride_project"])
        found.append(
            Module(
                row["name"],
                row["net"],
                *(int(row[size]) for size in ("hw", "cin", "cmid", "cout", "k")),
                (int(strides[0]), int(strides[1]), int(strides[2])),
                row["residual"] == "1" and row["cin"] == row["cout"],
            )
        )
    return found


def pointwise_layers(graph: Graph) -> list[Pointwise]:
    """The distinct 1x1 convolutions of a network that are not its classifier, largest first."""
    found: dict[Pointwise, None] = {}
    for node in graph.nodes:
        op, tensor = node.op, graph.tensors[node.inputs[0]]
        if isinstance(op, Conv2D) and op.window.kernel == (1, 1) and tensor.shape[0] > 1:
            side, _, depth = tensor.shape
            found[Pointwise(side, depth, len(op.bias), op.window.stride[0])] = None
    return sorted(found, key=lambda p: -p.side * p.side * (p.depth + p.channels))
