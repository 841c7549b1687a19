# SPDX-License-Identifier: Apache-2.0
"""The search over stages: what a stage needs does not depend on how it was found, and more choices
never give a worse answer."""

from __future__ import annotations

import pytest
from random_networks import AnyNetwork
from vmcu_tools.errors import UserError
from vmcu_tools.graph import Graph
from vmcu_tools.plan.schedule import ONE_COLUMN
from vmcu_tools.planner.options import Options
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.stages.cuts import TILES, UNLIMITED, Cutter

SEEDS = range(24)


def network(seed: int) -> Graph:
    return AnyNetwork(seed).made


def ways_to_feed(graph: Graph) -> list[bool]:
    """Whether the input is streamed."""
    return [False, True] if len(graph.inputs) == 1 else [False]


@pytest.mark.parametrize("seed", SEEDS)
def test_more_tiles_never_need_more(seed: int) -> None:
    graph = network(seed)
    some = (None, 256, 32)
    for streamed in ways_to_feed(graph):
        peaks = []
        for tiles in ((None,), some, TILES, (*TILES, 8, ONE_COLUMN)):
            cutter = Cutter(graph, streamed, tiles)
            least = cutter.least_peak(tiles, UNLIMITED)
            peaks.append(least)
            if least != UNLIMITED:
                assert cutter.peak(cutter.cheapest(least)) <= least
        assert peaks == sorted(peaks, reverse=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_stage_needs_does_not_depend_on_what_was_asked_before(seed: int) -> None:
    graph = network(seed)
    used = Cutter(graph, False)
    used.least_peak(TILES, used.least_peak(TILES[:1], UNLIMITED))
    for cut, option in used.traced.items():
        alone = Cutter(graph, False).known(cut, UNLIMITED)
        assert alone == option


@pytest.mark.parametrize("seed", range(100, 130))
def test_every_network_has_a_plan(seed: int) -> None:
    graph = AnyNetwork(seed, layers=8).made
    for streamed in ways_to_feed(graph):
        try:
            make_plan("vmcu", graph, Options(seconds=1.0, stream_input=streamed))
        except UserError as error:
            assert streamed and "cannot be streamed" in str(error)
