# SPDX-License-Identifier: Apache-2.0
"""What is tried where a stage's tensors, each in one piece, have no places in the bytes that are
alive."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from random_builder import Builder
from random_graphs import convolution, depthwise_of, random_inputs
from vmcu_tools.graph import Graph, Window
from vmcu_tools.machine import reference
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.places.layout import Binder, Cut
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.stages import closing, placing
from vmcu_tools.planner.stages.cheapest import Cheapest
from vmcu_tools.planner.stages.cuts import TILES, UNLIMITED, Cutter
from vmcu_tools.runners import get


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
    plan = make_plan(graph)
    assert plan.pool_bytes <= least and plan.gap == 0
    assert plan.steps[0].ahead and not any(step.ahead for step in plan.steps[1:])
    inputs = random_inputs(graph, 1)
    meaning = reference.run(graph, inputs)
    for outputs in get("host:sanitize").run(plan, [inputs, inputs]):
        np.testing.assert_array_equal(outputs[0], meaning[graph.outputs[0].tensor])
    monkeypatch.setattr(closing, "closer", lambda *_: False)
    assert make_plan(graph).pool_bytes == most


def test_no_ring_is_filled_beyond_what_it_holds_on_demand() -> None:
    graph = bottleneck(12, 6, 18, 8, 5)
    for tile in TILES:
        binder, cut = Binder(graph), Cut(0, 3, tile)
        trace = binder.trace(cut, None)
        made = trace.made[0].pixels
        calls = binder.ahead(cut, None)
        assert 0 < calls < len(made) and made[calls - 1] <= trace.rings[0] < made[calls]
    assert binder.ahead(Cut(0, 2), graph.tensors[graph.inputs[0].tensor]) == 0


def test_cuts_without_a_stage_are_the_cheapest_of_the_others() -> None:
    cutter = Cutter(bottleneck(12, 6, 18, 8, 5), False)
    limit = cutter.least_peak(TILES, UNLIMITED)
    cuts = cutter.cheapest(limit)
    assert [(cut.first, cut.stop) for cut in cuts] == [(0, 3)]
    assert cutter.cheapest_without(limit, ()) == cuts
    assert cutter.cheapest_without(limit, {(0, 3)}) is None
    found = cutter.cheapest_without(UNLIMITED, {(0, 1)})
    assert found is not None and found[0].stop > 1
    assert Cheapest(cutter, UNLIMITED, UNLIMITED, False, {(0, 1)}).run() == found


class Fake(SimpleNamespace):
    """Cuts of one stage at a time: by its nodes what it costs, and what its tensors have places
    in."""

    cycles = 100

    def cheapest(self, limit: int) -> tuple[Cut, ...] | None:
        return self.cheapest_without(limit, ())

    def cheapest_without(self, limit: int, without: Any) -> tuple[Cut, ...] | None:
        spans = [span for span in self.costs if span not in without]
        return (Cut(*min(spans, key=self.costs.__getitem__)),) if spans else None

    def cost(self, cuts: tuple[Cut, ...]) -> int:
        return sum(self.costs[cut.first, cut.stop] for cut in cuts)

    def alone(self, cuts: tuple[Cut, ...]) -> dict[int, tuple[Cut, ...]]:
        return dict(enumerate((cut,) for cut in cuts))

    def places(self, pieces: tuple[Cut, ...], limit: int, part: float = 1.0) -> bool:
        needed: int = self.needs[pieces[0].first, pieces[0].stop]
        return needed <= limit


@pytest.mark.parametrize(
    "costs, wanted",
    [((0, 1, 2), [(0, 3)]), ((0, 1, 3), []), ((0, 2, 1), [(0, 3)]), ((1, 1, 0), [(0, 3)])],
)
def test_cuts_without_homeless_stages_cost_little_more(
    costs: tuple[int, int, int], wanted: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = [(0, 1), (0, 2), (0, 3)]
    monkeypatch.setattr(closing, "fitting", lambda *_: None)
    cutter: Any = Fake(
        costs=dict(zip(spans, costs, strict=True)),
        needs=dict(zip(spans, (110, 105, 100), strict=True)),
    )
    found = [(cut.first, cut.stop) for cuts in closing.lodged_cuts(cutter, 100) for cut in cuts]
    assert found == wanted


@pytest.mark.parametrize("known, wanted", [(110, 104), (105, 104), (104, None)])
def test_first_layers_ahead_take_as_few_bytes_as_have_places(
    known: int, wanted: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = SimpleNamespace(first=0, stop=2, bound=lambda: 101)
    monkeypatch.setattr(closing, "fitting", lambda *_: None)
    monkeypatch.setattr(closing, "ahead", lambda *_: (early,))
    cutter: Any = Fake(costs={(0, 3): 0}, needs={(0, 3): 110, (0, 2): 104})
    cutter.ahead = lambda cut: replace(cut, ahead=True)
    found = closing.closest(cutter, 100, known)
    assert found == (None if wanted is None else ((Cut(0, 3, ahead=True),), wanted))
    assert closing.closest(cutter, 110, 120) == ((Cut(0, 3),), 110)


@pytest.mark.parametrize("lodged, close, wanted", [(1, 102, 100), (0, 102, 102), (0, 0, 104)])
def test_gaps_are_closed_where_they_can_be(
    lodged: int, close: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 100 bytes in which the cheapest cuts have no places, and 104 in which they have."""
    plan = {
        "placed_within": lambda *_: None,
        "lodged_cuts": lambda *_: [()] * lodged,
        "packed_or_stretched": lambda *_: SimpleNamespace(pool_bytes=104),
        "closest": lambda *_: ((), close) if close else None,
        "plan_in": lambda _cutter, _cuts, size, *_: SimpleNamespace(pool_bytes=size),
    }
    for name, stand_in in plan.items():
        monkeypatch.setattr(placing, name, stand_in)
    cutter: Any = SimpleNamespace(bands={})
    assert placing.placed(cutter, 100, CompileOptions()).pool_bytes == wanted
