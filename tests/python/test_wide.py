# SPDX-License-Identifier: Apache-2.0
"""Layers that work on four pixels at once in scratch that takes no bytes of its own."""

from __future__ import annotations

import itertools
from dataclasses import replace
from unittest import mock

import numpy as np
from random_graphs import disjoint, random_layers
from vmcu_tools.graph import Graph, Node, Port, Tensor, Window
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.ops import Form, bind, serves
from vmcu_tools.ops.conv2d import Conv2D
from vmcu_tools.plan.plan import Plan, pool_scratch
from vmcu_tools.planner import registry
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.places.widen import narrowed, widened
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.rotate import rotate
from vmcu_tools.quant import FixedPoint

# Of the pixels of a tensor: where the pool is largest, and behind that.
CHANNELS = (32, 128, 40, 48)


def chain(size: int = 8, widths: tuple[int, ...] = CHANNELS) -> Graph:
    """1 x 1 convolutions, the first of which needs the most bytes."""
    rng = np.random.default_rng(0)
    shapes = [(size, size, channels) for channels in widths]
    tensors = {f"t{i}": Tensor(f"t{i}", shape, 0.05, -3) for i, shape in enumerate(shapes)}
    nodes = []
    for i, (depth, channels) in enumerate(itertools.pairwise(widths)):
        weights = rng.integers(-127, 128, (channels, 1, 1, depth)).astype(np.int8)
        requant = FixedPoint.of(np.full(channels, 0.002))
        op = Conv2D(weights, np.zeros(channels, np.int32), Window(), requant)
        nodes.append(Node(f"n{i}", op, (f"t{i}",), (f"t{i + 1}",)))
    first, last = (Port(name, name, (1, *tensors[name].shape), "int8") for name in ("t0", "t3"))
    return Graph("chain", "chain", tensors, tuple(nodes), (first,), (last,))


def narrow_plan(graph: Graph) -> Plan:
    with mock.patch.object(registry, "widened", lambda plan: plan):
        return make_plan(graph, CompileOptions(planner="single"))


def test_wide_layers_take_no_bytes() -> None:
    narrow, wide = narrow_plan(chain()), make_plan(chain(), CompileOptions(planner="single"))
    assert wide.pool_bytes == narrow.pool_bytes
    assert wide.placements == narrow.placements
    forms = [step.form for step in wide.steps]
    assert Form.WIDE in forms and Form.WIDE not in [step.form for step in narrow.steps]
    for step in wide.steps:
        if step.form is Form.WIDE:
            assert step.scratch_bytes == pool_scratch(step.bind(wide.graph))
            assert step.scratch + step.scratch_bytes <= wide.pool_bytes
    VirtualMcu(wide).prove()


def test_without_room_nothing_changes() -> None:
    """A tensor as large as the pool leaves none."""
    plan = narrow_plan(chain())
    whole = {
        name: replace(one, first=-1, last=len(plan.steps)) for name, one in plan.placements.items()
    }
    full = replace(plan, pool_bytes=max(one.base + one.ring for one in whole.values()))
    kept = [step.form for step in widened(replace(full, placements=whole)).steps]
    assert kept == [Form.USUAL] * len(plan.steps)


def test_narrowed_gives_the_plan_back() -> None:
    narrow, wide = narrow_plan(chain()), make_plan(chain(), CompileOptions(planner="single"))
    back = narrowed(wide, lambda step: False)
    for one, other in zip(back.steps, narrow.steps, strict=True):
        assert (one.form, one.scratch_bytes) == (other.form, other.scratch_bytes)
    VirtualMcu(back).prove()


def test_pools_that_rotate_keep_their_overhang() -> None:
    """Rows of 640 bytes, and scratch of 768 in the last layer."""
    graph = chain(4, (16, 160, 96, 16))
    narrow, wide = narrow_plan(graph), make_plan(graph, CompileOptions(planner="single"))
    assert [step.form for step in wide.steps][-1] is Form.WIDE
    assert rotate(wide).ram_bytes == rotate(narrow).ram_bytes


def test_a_wide_layer_may_overlap_what_a_narrow_one_may() -> None:
    """When it writes a pixel, it has read all that the narrow one has."""
    graph = random_layers("conv2d", 200, seed=5)
    found = 0
    for node in graph.nodes:
        if not serves(graph, node, Form.WIDE):
            continue
        found += 1
        narrow, wide = (bind(graph, node, form=form) for form in (Form.USUAL, Form.WIDE))
        assert wide.scratch_bytes > narrow.scratch_bytes
        first, second = narrow.ticks, wide.ticks
        for x in range(narrow.out.shape[1]):
            # Input bytes that are still to be read when pixel x is written.
            before = first.reads[0] > first.writes[x].min()
            after = second.reads[0] > second.writes[x].min()
            assert not (after & ~before).any()
    assert found > 5


def test_forms_without_a_wide_one() -> None:
    plan = disjoint(random_layers("depthwise_square", 4, seed=1), Form.WIDE)
    assert all(step.form is Form.USUAL for step in plan.steps)
