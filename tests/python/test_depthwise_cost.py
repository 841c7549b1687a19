# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions whose window has no kernel of its own cost about as much as others do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from vmcu_bench.cycles import kernels
from vmcu_bench.cycles.model import bench
from vmcu_tools.graph import Graph, Window
from vmcu_tools.ops.depthwise import DepthwiseConv2D
from vmcu_tools.planner.registry import make_plan

M4 = "qemu:m4"


def layer(shape: tuple[int, int, int], window: Window, multiplier: int = 1) -> Graph:
    """A layer like those of `vmcu bench`, of another window."""
    channels = shape[2] * multiplier
    made = kernels.case_graph(kernels.Case("dw", "depthwise", 1, channels, channels), 0)
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (*window.kernel, channels)).astype(np.int8)
    (node,) = made.nodes
    assert isinstance(node.op, DepthwiseConv2D)
    node = replace(node, op=replace(node.op, weights=weights, window=window, multiplier=multiplier))
    size = tuple(window.out_size(axis, shape[axis]) for axis in (0, 1))
    tensors = {
        "in": replace(made.tensors["in"], shape=shape),
        "out": replace(made.tensors["out"], shape=(*size, channels)),
    }
    inputs = (kernels.port("in", shape),)
    outputs = (kernels.port("out", (*size, channels)),)
    return replace(made, nodes=(node,), tensors=tensors, inputs=inputs, outputs=outputs)


@pytest.mark.parametrize(
    ("shape", "window", "limit"),
    [
        pytest.param((30, 1, 40), Window((3, 1)), 10.5, id="3 x 1, few channels"),
        pytest.param((28, 1, 128), Window((5, 1)), 6.0, id="5 x 1"),
        pytest.param((24, 1, 128), Window((10, 1)), 4.5, id="10 x 1"),
        pytest.param((15, 1, 128), Window((15, 1)), 4.0, id="15 x 1"),
        pytest.param((1, 24, 128), Window((1, 10)), 4.5, id="1 x 10"),
        pytest.param((24, 1, 128), Window((10, 1), dilation=(2, 1)), 4.7, id="10 x 1, dilated"),
        pytest.param((6, 6, 128), Window((4, 4)), 4.5, id="4 x 4"),
        pytest.param((24, 1, 128), Window((10, 1), pad=(5, 0, 4, 0)), 7.5, id="10 x 1, padded"),
    ],
)
def test_any_window_is_fast(shape: tuple[int, int, int], window: Window, limit: float) -> None:
    plan = make_plan(layer(shape, window))
    (found,) = bench(plan, "dw", M4).layers
    assert found.instructions_per_mac is not None
    assert found.instructions_per_mac <= limit


@pytest.mark.parametrize(("multiplier", "limit"), [(2, 7.2), (8, 3.4)])
def test_several_outputs_of_a_channel_are_fast(multiplier: int, limit: float) -> None:
    plan = make_plan(layer((20, 20, 4), Window((3, 3), pad=(1, 1, 1, 1)), multiplier))
    (found,) = bench(plan, "dw", M4).layers
    assert found.instructions_per_mac is not None
    assert found.instructions_per_mac <= limit


GOALS = [case for case in kernels.CASES if case.kind == "depthwise" and case.goal is not None]


@pytest.mark.parametrize("case", GOALS, ids=lambda case: case.name)
def test_square_windows_reach_their_goals(case: kernels.Case) -> None:
    (found,) = kernels.bench_kernels(M4, cases=(case,))
    assert case.goal is not None
    assert found.report.cycles_per_mac is not None
    assert found.report.cycles_per_mac <= case.goal
