# SPDX-License-Identifier: Apache-2.0
"""What a stage keeps in the pool besides tensors is nobody else's, from its first call to its
last."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from random_builder import Builder
from random_graphs import convolution, depthwise_of, disjoint, random_inputs
from vmcu_tools.errors import PlanError
from vmcu_tools.graph import Graph, Window
from vmcu_tools.machine.mcu import POISON, VirtualMcu
from vmcu_tools.plan.plan import PROGRESS_BYTES, Plan
from vmcu_tools.planner.places import smallest_pool
from vmcu_tools.planner.places.layout import Cut, Layout


def network(height: int) -> Graph:
    b = Builder(np.random.default_rng(height))
    x = b.input((height, 4, 2))
    y = convolution(b, x, Window(), height, 4, 3)
    y = depthwise_of(b, y, Window((1, 3), pad=(0, 1, 0, 1)), height, 4, 1)
    return b.graph([y.name])


def passes(plan: Plan) -> bool:
    try:
        VirtualMcu(plan).prove()
    except PlanError:
        return False
    return True


def bytes_of(plan: Plan) -> set[int]:
    """Where tensors are."""
    return {
        (placement.base + n) % plan.pool_bytes
        for placement in plan.placements.values()
        for n in range(placement.ring)
    }


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("height", [1, 2, 5])
def test_progress_is_where_no_tensor_is(height: int, streamed: bool) -> None:
    """In the whole of a stage, and with rows that are all delivered at once."""
    graph = network(height)
    plan = smallest_pool.place("vmcu", Layout(graph, (Cut(0, 2),), streamed))
    plan = replace(plan, pool_bytes=plan.pool_bytes + 16)
    assert passes(plan)
    taken, size = bytes_of(plan), PROGRESS_BYTES * len(plan.steps)
    free = refused = 0
    for at in range(plan.pool_bytes):
        moved = replace(plan, progress=(at,))
        beside = taken.isdisjoint(range(at, at + size)) and at + size <= plan.pool_bytes
        assert passes(moved) == (beside and at % PROGRESS_BYTES == 0), at
        free += passes(moved)
        refused += not passes(moved)
    assert free and refused


def test_what_nobody_needs_any_more_is_poisoned() -> None:
    """A kernel that reads more than it admits computes something else."""
    graph = network(3)
    plan = disjoint(graph)
    machine, inputs = VirtualMcu(plan), random_inputs(graph, 0)
    meaning = machine.run(inputs)
    for name, placement in plan.placements.items():
        there = machine.value[placement.base : placement.base + placement.ring]
        is_output = name == graph.outputs[0].tensor
        assert np.array_equal(there, meaning[name].ravel()) == is_output
        assert is_output or (there == POISON).all()
