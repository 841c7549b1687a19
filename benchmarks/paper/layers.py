# SPDX-License-Identifier: Apache-2.0
"""Networks of one layer with seeded weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from vmcu_bench.cycles.kernels import BIAS_LIMIT, SCALE_LOG2, port
from vmcu_tools.graph import Graph, Node, Op, Tensor, Window
from vmcu_tools.ops.average_pooling import AveragePool2D
from vmcu_tools.ops.conv2d import Conv2D
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.ops.fully_connected import FullyConnected
from vmcu_tools.ops.max_pooling import MaxPool2D
from vmcu_tools.quant import FixedPoint

NAME = "layer"


def convolution(size: tuple[int, int], channels: int, outputs: int, window: Window) -> Graph:
    """Returns a convolution of an input of (height, width) with same padding."""
    shape = (outputs, *window.kernel, channels)
    bias, requant, weights = constants(shape, outputs)
    return layer(Conv2D(weights, bias, padded(size, window), requant), size, channels, outputs)


def depthwise(size: tuple[int, int], channels: int, outputs: int, window: Window) -> Graph:
    """Returns a depthwise convolution, likewise."""
    bias, requant, weights = constants((*window.kernel, outputs), outputs)
    times = outputs // channels
    op = DepthwiseConv2D(weights, bias, padded(size, window), requant, multiplier=times)
    return layer(op, size, channels, outputs)


def dense(depth: int, outputs: int) -> Graph:
    """Returns a fully connected layer with one scale for all channels."""
    bias, requant, weights = constants((outputs, depth), outputs)
    requant = requant.pick(np.zeros(outputs, np.intp))
    return layer(FullyConnected(weights, bias, requant), (1, 1), depth, outputs)


def pooling(kind: type[AveragePool2D | MaxPool2D], size: tuple[int, int], channels: int) -> Graph:
    """Returns the mean of the whole input, or its maxima of 2x2 pixels."""
    kernel = size if kind is AveragePool2D else (2, 2)
    graph = layer(kind(Window(kernel, kernel)), size, channels, channels)
    same = replace(graph.tensors["out"], zero_point=graph.tensors["in"].zero_point)
    return replace(graph, tensors={**graph.tensors, "out": same})


def pair(op: Op, size: tuple[int, int], channels: int) -> Graph:
    """Returns an op on two inputs of the size of its output."""
    shape = (*size, channels)
    names = ("a", "b", "out")
    tensors = {name: Tensor(name, shape, 0.05, -zero) for zero, name in enumerate(names, 3)}
    node = Node(NAME, op, names[:2], names[2:])
    ports = tuple(port(name, shape) for name in names)
    return Graph(NAME, NAME, tensors, (node,), ports[:2], ports[2:])


def constants(shape: tuple[int, ...], outputs: int) -> tuple[np.ndarray, FixedPoint, np.ndarray]:
    """Bias, requantiser and weights."""
    rng = np.random.default_rng(1)
    weights = rng.integers(-127, 128, shape).astype(np.int8)
    bias = rng.integers(-BIAS_LIMIT, BIAS_LIMIT + 1, outputs).astype(np.int32)
    requant = FixedPoint.of(2.0 ** rng.uniform(*SCALE_LOG2, outputs))
    return bias, requant, weights


def padded(size: tuple[int, int], window: Window) -> Window:
    """The window with same padding."""
    pads = []
    sides = zip(size, window.kernel, window.stride, window.dilation, strict=True)
    for length, taps, stride, dilation in sides:
        extent = (taps - 1) * dilation + 1
        pads.append(max((-(-length // stride) - 1) * stride + extent - length, 0))
    top, left = (pad // 2 for pad in pads)
    return replace(window, pad=(top, left, pads[0] - top, pads[1] - left))


def layer(op: Op, size: tuple[int, int], channels: int, outputs: int) -> Graph:
    """A network of one op, which may have a window."""
    window = getattr(op, "window", None)
    steps = (1, 1) if window is None else window.stride
    source = (*size, channels)
    height, width = (-(-length // stride) for length, stride in zip(size, steps, strict=True))
    result = (height, width, outputs)
    tensors = {"in": Tensor("in", source, 0.05, -3), "out": Tensor("out", result, 0.05, 5)}
    node = Node(NAME, op, ("in",), ("out",))
    ports = (port("in", source),), (port("out", result),)
    return Graph(NAME, NAME, tensors, (node,), *ports)
