# SPDX-License-Identifier: Apache-2.0
"""What stages take at most: for many that end in the same layers as for each by itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from random_networks import AnyNetwork
from vmcu_tools.planner.places.in_place import traced
from vmcu_tools.planner.places.layout import Cut
from vmcu_tools.planner.stages.footprint import Footprints

TILES = (None, 64, 8)
# The most layers of a stage that is looked at.
LAYERS = 7


def stages(needs: Footprints) -> Iterator[Cut]:
    """In tiles of one size and of several, such that neighbours have most of them in common."""
    for first, stop in itertools.combinations(range(needs.count + 1), 2):
        unread = needs.source is not None and first == 0 and stop <= needs.last[needs.source.name]
        if stop - first > LAYERS or unread:
            continue
        for tile in TILES:
            yield Cut(first, stop, tile)
        yield Cut(first, stop, TILES[-1], larger=((stop - 1, None),))
        yield Cut(first, stop, TILES[-1], larger=((first, TILES[1]),))


@pytest.mark.parametrize("seed", range(40))
def test_a_stage_takes_what_it_takes_by_itself(seed: int) -> None:
    graph = AnyNetwork(seed).made
    for streamed in [False, True] if len(graph.inputs) == 1 else [False]:
        needs = Footprints(graph, streamed)
        for cut in stages(needs):
            layers = needs.binder.stage(cut)
            source = needs.source if cut.first == 0 else None
            stage = needs.binder.scheduled(cut, layers, source)
            trace = traced(stage)
            dying = frozenset(n for n in needs.touched(cut) if needs.last[n] < cut.stop)
            found = needs.peaks.peak(cut.first, layers, stage.taken, dying)
            assert found[:2] == (trace.peak(dying), trace.calls), cut


@pytest.mark.parametrize("seed", range(40))
def test_a_stage_takes_what_a_shorter_one_takes_before_its_output(seed: int) -> None:
    graph = AnyNetwork(seed).made
    for streamed in [False, True] if len(graph.inputs) == 1 else [False]:
        needs = Footprints(graph, streamed)
        peaks = {}
        for cut in stages(needs):
            layers, taken = needs.shape(cut).layers, needs.shape(cut).taken
            dying = needs.surroundings(cut).dying
            peaks[cut] = needs.peaks.peak(cut.first, layers, taken, dying)
        for cut, peak in peaks.items():
            layers, number = needs.binder.stage(cut), cut.stop - cut.first - 1
            for stop in range(cut.stop + 1, needs.count + 1):
                longer = replace(cut, stop=stop)
                if longer not in peaks or not needs.is_prefix(cut):
                    continue
                those = needs.binder.stage(longer)
                sure = needs.lower_bounds.is_called_fully(those, number, cut.first)
                if sure and those[number] is layers[number]:
                    assert peaks[longer].bytes >= peak.before_output, (cut, longer)
