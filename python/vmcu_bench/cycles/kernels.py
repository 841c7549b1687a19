# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of single kernels: layers that other libraries have been measured on.

The figures beside them are CMSIS-NN's, its own choice of kernel, compiled at -O3 and counted on
the same emulated boards; its cycles by the same rules as ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from vmcu_tools.graph import Graph, Node, Op, Port, Shape, Tensor, Window
from vmcu_tools.ops.conv2d import Conv2D
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.ops.fully_connected import FullyConnected
from vmcu_tools.ops.grouped import COARSE, GroupedDense
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.progress import bar
from vmcu_tools.quant import INT8_MAX, FixedPoint, FloatScale

from .model import BenchReport, bench, board

M3, M4 = "qemu:m3", "qemu:m4"
SCALE_LOG2 = (-12.0, -2.0)
BIAS_LIMIT = 2000


@dataclass(frozen=True)
class Case:
    """A layer of `kind` ("conv", "depthwise", "dense") with a square window and same padding.

    `limit`: the largest size of a weight; `weight_bits`: 8 or 4; `group`: weights of 4 bits that
    share a scale, 0 if all of a channel do. `peer`: CMSIS-NN's instructions
    per MAC by target. `peer_cycles` and `goal`: its cycles per MAC, and those that vmcu is to
    reach, on a Cortex-M4.
    """

    name: str
    kind: str
    size: int
    inputs: int
    outputs: int
    kernel: int = 1
    stride: int = 1
    limit: int = INT8_MAX
    weight_bits: int = 8
    group: int = 0
    peer: Mapping[str, float] = field(default_factory=dict)
    peer_cycles: float | None = None
    goal: float | None = None

    @property
    def out_size(self) -> int:
        return -(-self.size // self.stride)


CASES = (
    Case("1x1 16->48, 20x20", "conv", 20, 16, 48, peer={M4: 3.97}, peer_cycles=4.72, goal=1.80),
    Case("1x1 16->16, 40x40", "conv", 40, 16, 16, peer={M4: 3.96}, peer_cycles=4.71, goal=1.90),
    Case("1x1 16->96, 20x20", "conv", 20, 16, 96, peer={M4: 3.97}),
    Case(
        *("1x1 48->48, 20x20", "conv", 20, 48, 48),
        peer={M3: 3.27, M4: 2.28},
        peer_cycles=2.68,
        goal=1.36,
    ),
    Case(
        *("1x1 96->96, 10x10", "conv", 10, 96, 96),
        peer={M3: 2.92, M4: 1.88},
        peer_cycles=2.21,
        goal=1.23,
    ),
    Case("1x1 128->128, 6x6", "conv", 6, 128, 128, goal=1.20),
    Case("3x3 16->32, 20x20", "conv", 20, 16, 32, 3, peer={M3: 3.06, M4: 2.14}, peer_cycles=2.56),
    Case("3x3 3->8, 96x96, stride 2", "conv", 96, 3, 8, 3, 2, goal=2.15),
    Case("3x3 3->16, 32x32", "conv", 32, 3, 16, 3, peer_cycles=6.06, goal=2.10),
    Case(
        *("dw 3x3 48, 20x20", "depthwise", 20, 48, 48, 3),
        peer={M3: 9.84, M4: 8.72},
        peer_cycles=10.5,
        goal=3.30,
    ),
    Case("dw 3x3 128, 6x6", "depthwise", 6, 128, 128, 3, goal=4.00),
    Case(
        *("dw 5x5 48, 20x20", "depthwise", 20, 48, 48, 5),
        peer={M3: 18.2, M4: 9.66},
        peer_cycles=11.8,
    ),
    Case(
        *("fc 640->128", "dense", 1, 640, 128),
        peer={M3: 3.44, M4: 1.95},
        peer_cycles=2.40,
        goal=1.55,
    ),
)


@dataclass(frozen=True)
class KernelBench:
    """`cmsis_nn` in instructions, `cmsis_nn_cycles` and `goal` in cycles per MAC; None where there
    is no figure for the board's core."""

    name: str
    cmsis_nn: float | None
    cmsis_nn_cycles: float | None
    goal: float | None
    report: BenchReport


def bench_kernels(
    on: str,
    target: str | None = None,
    cases: tuple[Case, ...] = CASES,
) -> list[KernelBench]:
    """Each case as a model of one layer, with seeded weights and inputs, laid out for a target, the
    machine's own by default."""
    is_m4 = board(on).core == board(M4).core
    target = target or board(on).family
    results = []
    for number, case in enumerate(bar(cases, f"kernels on {on}")):
        plan = make_plan(replace(case_graph(case, seed=number), target=target), CompileOptions())
        result = bench(plan, case.name, on)
        cycles = (case.peer_cycles, case.goal) if is_m4 else (None, None)
        results.append(KernelBench(case.name, case.peer.get(on), *cycles, result))
    return results


def case_graph(case: Case, seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    shape = (case.size, case.size, case.inputs)
    out_shape = (case.out_size, case.out_size, case.outputs)
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
    limit, bits = min(case.limit, (1 << case.weight_bits - 1) - 1), case.weight_bits

    def weights(*size: int) -> np.ndarray:
        return rng.integers(-limit, limit + 1, size).astype(np.int8)

    bias = rng.integers(-BIAS_LIMIT, BIAS_LIMIT + 1, case.outputs).astype(np.int32)
    requant = FixedPoint.of(2.0 ** rng.uniform(*SCALE_LOG2, case.outputs))
    if case.group:
        groups = case.inputs // case.group
        multipliers = rng.integers(1, COARSE + 1, (case.outputs, groups))
        scale = FloatScale((2.0 ** rng.uniform(*SCALE_LOG2, case.outputs)).astype(np.float32))
        return GroupedDense(weights(case.outputs, case.inputs), multipliers, bias, scale, False)
    if case.kind == "dense":
        return FullyConnected(weights(case.outputs, case.inputs), bias, requant, bits)
    k = case.kernel
    padded = max((case.out_size - 1) * case.stride + k - case.size, 0)
    before, behind = padded // 2, padded - padded // 2
    stride = (case.stride, case.stride)
    window = Window((k, k), stride, pad=(before, behind, before, behind))
    if case.kind == "depthwise":
        kernel = weights(k, k, case.outputs)
        return DepthwiseConv2D(kernel, bias, window, requant, weight_bits=bits)
    kernel = weights(case.outputs, k, k, case.inputs)
    return Conv2D(kernel, bias, window, requant, weight_bits=bits)


def port(tensor: str, shape: Shape) -> Port:
    return Port(tensor, tensor, (1, *shape), "int8")
