# SPDX-License-Identifier: Apache-2.0
"""Layers at the corners of what kernels must take, one row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from random_graphs import Builder
from vmcu_tools.graph import Graph, Shape, Tensor, Window
from vmcu_tools.ops.add import Add
from vmcu_tools.ops.average_pooling import AveragePool2D
from vmcu_tools.ops.conv2d import Conv2D
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.ops.fully_connected import FullyConnected
from vmcu_tools.ops.matmul import MatMul
from vmcu_tools.ops.max_pooling import MaxPool2D
from vmcu_tools.quant import INT32_MAX, FixedPoint, FixedSum, FloatScale, Requant

SAME = Window((3, 3), pad=(1, 1, 1, 1))
# Shape, window, output channels per group, groups.
CONVOLUTIONS: dict[str, tuple[Shape, Window, int, int]] = {
    "one channel": ((4, 5, 1), SAME, 1, 1),
    "three channels": ((4, 5, 3), SAME, 3, 1),
    "five channels": ((4, 5, 5), SAME, 5, 1),
    "1x1 of one channel": ((2, 3, 1), Window(), 1, 1),
    "1x1 of five channels": ((2, 3, 5), Window(), 5, 1),
    "one pixel": ((1, 1, 3), SAME, 2, 1),
    "narrower than the window": ((4, 1, 3), SAME, 4, 1),
    "lower than the window": ((1, 4, 3), Window((5, 3), pad=(2, 1, 2, 1)), 4, 1),
    "stride beyond the window": ((7, 9, 3), Window((1, 2), stride=(3, 4)), 4, 1),
    "strided 1x1": ((5, 6, 3), Window(stride=(2, 3)), 4, 1),
    "padding above": ((4, 5, 3), Window((3, 3), pad=(2, 0, 0, 1)), 4, 1),
    "padding below": ((4, 5, 3), Window((3, 3), pad=(0, 1, 2, 0)), 4, 1),
    "dilation": ((7, 8, 3), Window((3, 2), dilation=(2, 3), pad=(2, 3, 2, 0)), 4, 1),
    "dilation beyond the image": ((3, 3, 2), Window((3, 3), dilation=(3, 3), pad=(3,) * 4), 2, 1),
    "groups of one": ((4, 5, 4), SAME, 1, 4),
    "groups of three": ((4, 5, 9), SAME, 3, 3),
    "groups of 1x1": ((4, 5, 6), Window(), 3, 2),
    "one column": ((6, 3, 5), Window((2, 3), stride=(2, 1)), 5, 1),
    "one padded column": ((6, 1, 5), Window((3, 1), pad=(1, 0, 1, 0)), 5, 1),
    "many taps": ((1, 2, 300), Window(), 3, 1),
    # Rows that lie in memory as in the tensor, and windows at their ends that no copy is made of.
    "wide groups": ((5, 9, 8), SAME, 3, 2),
    "wide rows of many channels": ((5, 7, 12), SAME, 3, 1),
    "wide and dilated": ((5, 9, 4), Window((3, 3), dilation=(1, 2), pad=(1, 2, 1, 2)), 3, 1),
}


def fixed(*real: float) -> Callable[[int], Requant]:
    return lambda channels: FixedPoint.of(np.resize(np.array(real), channels))


def shifted(multiplier: int, *shifts: int) -> Callable[[int], Requant]:
    return lambda channels: FixedPoint(
        np.full(channels, multiplier, np.int32), np.resize(np.array(shifts, np.int32), channels)
    )


REQUANTS: dict[str, Callable[[int], Requant]] = {
    "fast": fixed(0.002),
    "negative": fixed(-0.002, 0.002, -0.001),
    "zero": fixed(0.0, 0.002),
    "left shifts": shifted(2**30, 3, 0, -1),
    "long shifts": shifted(INT32_MAX, -22, -23, -31),
    "most negative": shifted(-(2**31), -8),
    "float": lambda n: FloatScale(np.resize(np.array([0.002, -0.003], np.float32), n)),
    "float zero": lambda n: FloatScale(np.resize(np.array([0.0, 1e-40, 1e28], np.float32), n)),
}
BIASES = {"no bias": 0, "huge bias": INT32_MAX - 5, "hugely negative bias": 5 - 2**31}
LIMITS = {"relu": (0, 127), "one value": (7, 7), "narrow": (-3, 5)}


def conv(
    b: Builder,
    case: tuple[Shape, Window, int, int],
    requant: Callable[[int], Requant] = REQUANTS["fast"],
    bias: int = 100,
    limits: tuple[int, int] = (-128, 127),
) -> Tensor:
    shape, window, per_group, groups = case
    channels = per_group * groups
    op = Conv2D(
        b.weights(channels, *window.kernel, shape[2] // groups),
        np.full(channels, bias, np.int32),
        window,
        requant(channels),
        groups,
        act_min=limits[0],
        act_max=limits[1],
    )
    size = window.out_size(0, shape[0]), window.out_size(1, shape[1])
    return b.node(op, [b.input(shape)], (*size, channels))


def depthwise(
    b: Builder, shape: Shape, window: Window, multiplier: int, requant: str = "fast"
) -> Tensor:
    channels = shape[2] * multiplier
    weights, bias = b.weights(*window.kernel, channels), b.bias(channels)
    op = DepthwiseConv2D(weights, bias, window, REQUANTS[requant](channels), multiplier)
    size = window.out_size(0, shape[0]), window.out_size(1, shape[1])
    return b.node(op, [b.input(shape)], (*size, channels))


def dense(b: Builder, requant: str, bias: int = 100) -> Tensor:
    op = FullyConnected(b.weights(7, 13), np.full(7, bias, np.int32), REQUANTS[requant](7))
    return b.node(op, [b.input((1, 1, 13))], (1, 1, 7))


def add(b: Builder, *real: float) -> Tensor:
    one, other, out = (FixedPoint.of(np.array([value])) for value in real)
    inputs = [b.input((2, 3, 5)), b.input((2, 3, 5))]
    return b.node(Add(FixedSum(one, other, out)), inputs, (2, 3, 5))


def pool(b: Builder, window: Window, shape: Shape, average: bool) -> Tensor:
    op = AveragePool2D(window) if average else MaxPool2D(window)
    size = window.out_size(0, shape[0]), window.out_size(1, shape[1])
    return b.node(op, [b.input(shape)], (*size, shape[2]))


def matmul(b: Builder, m: int, k: int, n: int, transposed: bool) -> Tensor:
    inputs = [b.input((1, m, k)), b.input((1, n, k) if transposed else (1, k, n))]
    return b.node(MatMul(REQUANTS["fast"](1), transposed), inputs, (1, m, n))


def _edges() -> dict[str, Callable[[Builder], Tensor]]:
    edges: dict[str, Callable[[Builder], Tensor]] = {}
    plain = {name: CONVOLUTIONS[name] for name in ("five channels", "1x1 of five channels")}
    for name, case in CONVOLUTIONS.items():
        edges[f"conv {name}"] = lambda b, c=case: conv(b, c)
        edges[f"conv {name}, float"] = lambda b, c=case: conv(b, c, REQUANTS["float"])
        shape, window, _, groups = case
        if groups == 1 and shape[2] < 10:
            for m in (1, 2, 3):
                edges[f"depthwise {name} x {m}"] = lambda b, s=shape, w=window, m=m: depthwise(
                    b, s, w, m
                )
            for average in (True, False):
                edges[f"{'average' if average else 'maximum'} {name}"] = (
                    lambda b, s=shape, w=window, a=average: pool(b, w, s, a)
                )
    for name, requant in REQUANTS.items():
        edges[f"dense {name}"] = lambda b, n=name: dense(b, n)
        edges[f"depthwise {name}"] = lambda b, n=name: depthwise(b, (4, 5, 3), SAME, 1, n)
        for where, case in plain.items():
            edges[f"conv {where} {name}"] = lambda b, c=case, r=requant: conv(b, c, r)
    for where, case in plain.items():
        for name, bias in BIASES.items():
            edges[f"conv {where} {name}"] = lambda b, c=case, v=bias: conv(b, c, bias=v)
        for name, limits in LIMITS.items():
            edges[f"conv {where} {name}"] = lambda b, c=case, v=limits: conv(b, c, limits=v)
    for m, k, n in ((1, 1, 1), (1, 3, 5), (3, 300, 4), (2, 5, 1)):
        edges[f"matmul {m} {k} {n}"] = lambda b, s=(m, k, n): matmul(b, *s, False)
        edges[f"matmul {m} {k} {n} transposed"] = lambda b, s=(m, k, n): matmul(b, *s, True)
    edges["dense huge bias"] = lambda b: dense(b, "fast", INT32_MAX - 5)
    edges["add of one scale"] = lambda b: add(b, 0.5, 0.5, 2.0**-19)
    edges["add of far scales"] = lambda b: add(b, 0.5, 0.0001, 2.0**-17)
    return edges


EDGES = _edges()


def edge_layer(name: str) -> Graph:
    """One edge in a graph of its own."""
    builder = Builder(np.random.default_rng(0))
    return builder.graph([EDGES[name](builder).name])


def edge_layers(first: int, count: int) -> Graph:
    """Some edges in one graph. Their zero points are as extreme as the edges."""
    builder = Builder(np.random.default_rng(first))
    outputs = [make(builder).name for make in list(EDGES.values())[first : first + count]]
    for number, (name, tensor) in enumerate(builder.tensors.items()):
        builder.tensors[name] = replace(tensor, zero_point=(-128, 127, 0)[number % 3])
    return builder.graph(outputs)
