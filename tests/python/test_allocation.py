# SPDX-License-Identifier: Apache-2.0
"""What is tried where a stage's tensors, each in one piece, have no places in the bytes that are
alive."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_builder import Builder
from random_graphs import convolution, depthwise_of, random_inputs
from vmcu_bench.runners import get
from vmcu_tools.graph import Graph, Window
from vmcu_tools.machine import reference
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.params import TILES, SearchParams
from vmcu_tools.planner.places.layout import Binder, Cut
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.stages.allocation import Allocator, Cuts
from vmcu_tools.planner.stages.partition import Partitioner


def bottleneck(side: int, channels: int, wide: int, out: int, kernel: int) -> Graph:
    """A 1x1 convolution, a depthwise layer of stride 2 and a 1x1 convolution."""
    b = Builder(np.random.default_rng(0))
    x = b.input((side, side, channels))
    x = convolution(b, x, Window(), side, side, wide)
    window = Window((kernel, kernel), (2, 2), pad=(kernel // 2,) * 4)
    half = window.out_size(0, side)
    x = depthwise_of(b, x, window, half, half, 1)
    x = convolution(b, x, Window(), half, half, out)
    return b.graph([x.name])


@pytest.mark.parametrize(
    "sizes, least, most", [((12, 6, 18, 8, 5), 1724, 1804), ((20, 16, 48, 24, 7), 11848, 12328)]
)
def test_a_full_ring_lets_the_output_lie_in_the_input(
    sizes: tuple[int, int, int, int, int], least: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = bottleneck(*sizes)
    plan = make_plan(graph, CompileOptions())
    assert plan.pool_bytes <= least
    assert plan.steps[0].ahead and not any(step.ahead for step in plan.steps[1:])
    inputs = random_inputs(graph, 1)
    meaning = reference.run(graph, inputs)
    for outputs in get("host:sanitize").run(plan, [inputs, inputs]):
        np.testing.assert_array_equal(outputs[0], meaning[graph.outputs[0].tensor])
    monkeypatch.setattr(Partitioner, "can_fill_ring_first", lambda *_: False)
    assert make_plan(graph, CompileOptions()).pool_bytes == most


def test_no_ring_is_filled_beyond_what_it_holds_on_demand() -> None:
    graph = bottleneck(12, 6, 18, 8, 5)
    for tile in TILES:
        binder, cut = Binder(graph), Cut(0, 3, tile)
        trace = binder.trace(cut, None)
        made = trace.made[0].pixels
        calls = binder.full_ring_calls(cut, None)
        assert 0 < calls < len(made) and made[calls - 1] <= trace.rings[0] < made[calls]
    assert binder.full_ring_calls(Cut(0, 2), graph.tensors[graph.inputs[0].tensor]) == 0


class Repair(Allocator):
    """Of one stage: by tile the bytes in which it has a placement. The questions are counted."""

    def __init__(self, fewest: Mapping[int, int]):
        partitioner: Any = SimpleNamespace(
            params=SearchParams(),
            stages_within=lambda first, stop, limit: [Cut(0, 2, tile) for tile in fewest],
            can_fill_ring_first=lambda cut: False,
        )
        super().__init__(partitioner)
        self.fewest, self.asked = fewest, 0

    def pieces_of(self, cuts: Cuts, number: int) -> Any:
        return (SimpleNamespace(bound=lambda: 0, tile=cuts[number].tile),)

    def has_placement(self, pieces: Any, size: int) -> bool:
        self.asked += 1
        return size >= self.fewest[pieces[0].tile]


@settings(deadline=None)
@given(st.lists(st.integers(90, 300), min_size=1, max_size=5), st.integers(101, 310))
def test_repair_finds_the_fewest_bytes(fewest: list[int], most: int) -> None:
    """Of all stages of the same layers, by bisection: not byte after byte."""
    repair = Repair(dict(enumerate(fewest)))
    found = repair.repaired((Cut(0, 2, 0),), 100, most)
    least = 100 if fewest[0] <= 100 else max(min(fewest), 100)
    assert repair.asked <= 1 + len(fewest) * 9
    if least >= most:
        assert found is None
    else:
        assert found is not None
        cuts, size = found
        assert size == least and repair.fewest[cuts[0].tile] <= size


def test_repair_changes_no_stage_that_has_a_placement() -> None:
    repair = Repair({0: 100, 1: 90})
    assert repair.repaired((Cut(0, 2, 0), Cut(2, 3)), 100, 101) == ((Cut(0, 2, 0), Cut(2, 3)), 100)
    assert repair.asked == 1
