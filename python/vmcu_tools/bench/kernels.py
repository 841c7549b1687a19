# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of single kernels: layers that other libraries have been measured on.

The figures beside them are CMSIS-NN's, its own choice of kernel, compiled at -O3 and counted on
the same emulated boards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ..graph import Graph, Node, Op, Port, Shape, Tensor, Window
from ..ops.conv2d import Conv2D
from ..ops.depthwise import DepthwiseConv2D
from ..ops.fully_connected import FullyConnected
from ..planner.options import DEFAULT
from ..planner.registry import make_plan
from ..progress import bar
from ..quant import INT8_MAX, FixedPoint
from .model import BenchReport, bench, board

M3, M4 = "qemu:m3", "qemu:m4"
SCALE_LOG2 = (-12.0, -2.0)
BIAS_LIMIT = 2000


@dataclass(frozen=True)
class Case:
    """A layer of `kind` ("conv", "depthwise", "dense") with a square window and same padding.

    `peer` and `goal` are instructions per MAC by target: CMSIS-NN's, and what vmcu is to reach.
    """

    name: str
    kind: str
    size: int
    inputs: int
    outputs: int
    kernel: int = 1
    peer: Mapping[str, float] = field(default_factory=dict)
    goal: Mapping[str, float] = field(default_factory=dict)


CASES = (
    Case("1x1 16->48, 20x20", "conv", 20, 16, 48, 1, {M4: 3.97}, {M3: 3.4, M4: 1.75}),
    Case("1x1 16->16, 40x40", "conv", 40, 16, 16, 1, {M4: 3.96}, {M3: 3.4, M4: 1.75}),
    Case("1x1 16->96, 20x20", "conv", 20, 16, 96, 1, {M4: 3.97}, {M3: 3.4, M4: 1.75}),
    Case("1x1 48->48, 20x20", "conv", 20, 48, 48, 1, {M3: 3.27, M4: 2.28}, {M3: 2.4, M4: 1.35}),
    Case("1x1 96->96, 10x10", "conv", 10, 96, 96, 1, {M3: 2.92, M4: 1.88}, {M3: 2.4, M4: 1.35}),
    Case("3x3 16->32, 20x20", "conv", 20, 16, 32, 3, {M3: 3.06, M4: 2.14}, {M4: 1.6}),
    Case("dw 3x3 48, 20x20", "depthwise", 20, 48, 48, 3, {M3: 9.84, M4: 8.72}, {M3: 5.0, M4: 3.0}),
    Case("dw 5x5 48, 20x20", "depthwise", 20, 48, 48, 5, {M3: 18.2, M4: 9.66}, {M3: 5.0, M4: 3.0}),
    Case("fc 640->128", "dense", 1, 640, 128, 1, {M3: 3.44, M4: 1.95}, {M4: 1.6}),
)


@dataclass(frozen=True)
class KernelBench:
    """`cmsis_nn` and `goal`, instructions per MAC, are None where there is no figure."""

    name: str
    cmsis_nn: float | None
    goal: float | None
    report: BenchReport


def bench_kernels(
    on: str, planner: str = DEFAULT, target: str | None = None, cases: tuple[Case, ...] = CASES
) -> list[KernelBench]:
    """Each case as a model of one layer, with seeded weights and inputs, laid out for a target."""
    board(on)
    results = []
    for number, case in enumerate(bar(cases, f"kernels on {on}")):
        plan = make_plan(planner, replace(case_graph(case, seed=number), target=target))
        result = bench(plan, case.name, on)
        results.append(KernelBench(case.name, case.peer.get(on), case.goal.get(on), result))
    return results


def case_graph(case: Case, seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    shape = (case.size, case.size, case.inputs)
    out_shape = (case.size, case.size, case.outputs)
    node = Node(case.name, case_op(case, rng), ("in",), ("out",))
    tensors = {"in": Tensor("in", shape, 0.05, -3), "out": Tensor("out", out_shape, 0.05, 5)}
    return Graph(
        case.name,
        case.name,
        tensors,
        (node,),
        (port("in", shape),),
        (port("out", out_shape),),
    )


def case_op(case: Case, rng: np.random.Generator) -> Op:
    def weights(*size: int) -> np.ndarray:
        return rng.integers(-INT8_MAX, INT8_MAX + 1, size).astype(np.int8)

    bias = rng.integers(-BIAS_LIMIT, BIAS_LIMIT + 1, case.outputs).astype(np.int32)
    requant = FixedPoint.of(2.0 ** rng.uniform(*SCALE_LOG2, case.outputs))
    if case.kind == "dense":
        return FullyConnected(weights(case.outputs, case.inputs), bias, requant)
    k = case.kernel
    window = Window((k, k), pad=(k // 2,) * 4)
    if case.kind == "depthwise":
        return DepthwiseConv2D(weights(k, k, case.outputs), bias, window, requant)
    return Conv2D(weights(case.outputs, k, k, case.inputs), bias, window, requant)


def port(tensor: str, shape: Shape) -> Port:
    return Port(tensor, tensor, (1, *shape), "int8")
