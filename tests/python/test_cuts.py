# SPDX-License-Identifier: Apache-2.0
"""The search over stages: what a stage needs does not depend on how it was found, and more choices
never give a worse answer."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from builders.networks import network_file
from hypothesis import given, settings
from hypothesis import strategies as st
from random_builder import Builder
from random_graphs import depthwise_of
from random_networks import AnyNetwork
from vmcu_tools.errors import UserError
from vmcu_tools.frontends import load
from vmcu_tools.graph import Graph, Window
from vmcu_tools.ops.fully_connected import FullyConnected
from vmcu_tools.ops.reshape import Reshape
from vmcu_tools.passes import optimize
from vmcu_tools.plan.schedule import ONE_COLUMN
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.params import TILES, SearchParams
from vmcu_tools.planner.places import circular_pool
from vmcu_tools.planner.places.layout import Cut
from vmcu_tools.planner.places.sequential import SequentialPlacement
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.stages.cheapest import EXCESS_COST, Cheapest
from vmcu_tools.planner.stages.footprint import Option
from vmcu_tools.planner.stages.lower_bounds import LowerBounds
from vmcu_tools.planner.stages.partition import UNLIMITED, Partitioner
from vmcu_tools.planner.stages.tiles import Descent, pareto, relaxed

from scripts import script

SEEDS = range(24)


def network(seed: int) -> Graph:
    return AnyNetwork(seed).made


def ways_to_feed(graph: Graph) -> list[bool]:
    """Whether the input is streamed."""
    return [False, True] if len(graph.inputs) == 1 else [False]


@pytest.mark.parametrize("seed", SEEDS[:8])
def test_small_tiles_first_end_in_the_same_peak(seed: int) -> None:
    graph = network(seed)
    for streamed in ways_to_feed(graph):
        least = Partitioner(graph, streamed).least(TILES, UNLIMITED)
        assert least == Partitioner(graph, streamed).least_peak(TILES, UNLIMITED)


@pytest.mark.parametrize("seed", SEEDS)
def test_more_tiles_never_need_more(seed: int) -> None:
    graph = network(seed)
    some = (None, 256, 32)
    for streamed in ways_to_feed(graph):
        peaks = []
        for tiles in ((None,), some, TILES, (*TILES, 8, ONE_COLUMN)):
            partitioner = Partitioner(graph, streamed, SearchParams(tiles=tiles))
            least = partitioner.least_peak(tiles, UNLIMITED)
            peaks.append(least)
            if least != UNLIMITED:
                assert partitioner.peak(partitioner.cheapest(least)) <= least
        assert peaks == sorted(peaks, reverse=True)


def chain(side: int, channels: int, kernel: int) -> Graph:
    """Three layers of which each reads the one before."""
    b = Builder(np.random.default_rng(0))
    b.limits = dict
    x = b.input((side, side, channels))
    for _ in range(3):
        window = Window((kernel, kernel), pad=(kernel // 2,) * 4)
        x = depthwise_of(b, x, window, side, side, 1)
    return b.graph([x.name])


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_stage_needs_does_not_depend_on_what_was_asked_before(seed: int) -> None:
    graph = network(seed)
    used = Partitioner(graph, False)
    used.least_peak(TILES, used.least_peak(TILES[:1], UNLIMITED))
    for cut, option in used.traced.items():
        alone = Partitioner(graph, False).known(cut, UNLIMITED)
        assert alone == option


@pytest.mark.parametrize("seed", range(200, 224))
def test_no_cuts_are_cheaper_than_the_cheapest(seed: int) -> None:
    """Of all that stay within the limit, with as few as can be beyond what is easy, each stage
    traced."""
    graph = AnyNetwork(seed, layers=5).made
    partitioner, other = Partitioner(graph, False), Partitioner(graph, False)
    count = len(graph.nodes)
    least = partitioner.least_peak(TILES, UNLIMITED)
    more = least + least // 8
    for limit, ease in ((least, least), (more, least), (2 * least, 2 * least), (2 * least, least)):
        cheapest = [0] + [UNLIMITED] * count
        for first, stop in itertools.combinations(range(count + 1), 2):
            traced = (other.option_within(cut, UNLIMITED) for cut in other.stages_of(first, stop))
            within = [option for option in traced if option and option.peak <= limit]
            costs = [option.cost + EXCESS_COST * (option.peak > ease) for option in within]
            cheapest[stop] = min([cheapest[stop], *(cheapest[first] + cost for cost in costs)])
        # Where little is known, much turns out to need more than it was taken for.
        for one in (partitioner, Partitioner(graph, False)):
            cuts = Cheapest(one, limit, ease, thorough=True).run()
            assert cuts is not None and one.peak(cuts) <= limit
            uneasy = sum(one.peak([cut]) > ease for cut in cuts)
            assert one.cost(cuts) + EXCESS_COST * uneasy == cheapest[count]


def test_a_stage_that_turns_out_uneasy_is_still_there() -> None:
    """The only one that fits needs 20 bytes, where it was taken for 10 and 15 are easy."""
    traced: list[Cut] = []

    def within(cut: Cut, limit: int) -> Option | None:
        traced.append(cut)
        return Option(cut, 20, 1) if limit >= 20 else None

    def likely(cut: Cut, limit: int) -> Option | None:
        return within(cut, limit) if cut in traced else Option(cut, 10, 1)

    stages: Any = SimpleNamespace(
        count=2,
        longest=96,
        single=[100, 100],
        exceeds=lambda first, stop, limit: False,
        stages_by_cost=lambda first, stop: [Cut(0, 2)] if stop - first == 2 else [],
        option_within=within,
        likely=likely,
    )
    assert Cheapest(stages, 30, 15).run() == (Cut(0, 2),)
    assert Cheapest(stages, 19, 15).run() is None


def speech() -> Graph:
    """One layer and a dense one, whose stage has more to note down than its input has rows to
    spare."""
    b = Builder(np.random.default_rng(0))
    x = b.input((49, 40, 1))
    x = depthwise_of(b, x, Window((10, 8), (2, 2), pad=(4, 3, 5, 3)), 25, 20, 8)
    x = b.node(Reshape(), [x], (1, 1, 4000))
    op = FullyConnected(b.weights(4, 4000), b.bias(4), b.requant(4, 4000))
    return b.graph([b.node(op, [x], (1, 1, 4)).name])


def test_rows_never_need_more_than_a_whole_input() -> None:
    whole = make_plan(speech())
    rows = make_plan(speech(), CompileOptions(stream_input=True))
    assert rows.pool_bytes == whole.pool_bytes and not rows.input_streamed
    assert "Does not stream the input" in " ".join(rows.notes)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tile_for_each_layer_needs_less(streamed: bool) -> None:
    graph = optimize(load(network_file("mlperf-tiny-resnet8")))
    partitioner = Partitioner(graph, streamed)
    one = partitioner.least_peak(TILES, UNLIMITED)
    several = partitioner.least_by_tile_per_layer(one)
    assert several <= 0.95 * one and partitioner.peak(partitioner.cheapest(several)) <= several
    plan = make_plan(graph, CompileOptions(stream_input=streamed))
    assert plan.pool_bytes < one


def test_a_stage_like_one_that_is_known_is_traced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its floor takes as long as its trace, and hardly ever tells that it needs too much."""
    partitioner = Partitioner(chain(16, 8, 3), False)
    start = partitioner.known(Cut(0, partitioner.count, 32), UNLIMITED)
    assert start is not None

    def floor(*_: object) -> int:
        raise AssertionError("a floor is asked for")

    monkeypatch.setattr(LowerBounds, "floor", floor)
    assert len(Descent(partitioner, TILES, UNLIMITED).run(start)) > 1
    assert relaxed(partitioner, start.cut, UNLIMITED, TILES, 0, UNLIMITED) != start.cut
    # With no work left it stays as it is.
    assert relaxed(partitioner, start.cut, UNLIMITED, TILES, 0, partitioner.work) == start.cut


@pytest.mark.parametrize("seed", range(100, 130))
def test_every_network_has_a_plan(seed: int) -> None:
    graph = AnyNetwork(seed, layers=8).made
    for streamed in ways_to_feed(graph):
        try:
            make_plan(graph, CompileOptions(stream_input=streamed))
        except UserError as error:
            assert streamed and "cannot be streamed" in str(error)


def needed(graph: Graph, streamed: bool, first: int, stop: int) -> int:
    """Bytes of the tensors that are there when nodes [first, stop) begin, or when they are over, if
    that is more; counted one by one. Of a streamed input nothing is there before it is read."""
    source = graph.inputs[0].tensor if streamed else ""
    makers = {node.outputs[0]: number for number, node in enumerate(graph.nodes)}
    kept = {port.tensor for port in graph.outputs}
    before = after = 0
    for name, tensor in graph.tensors.items():
        readers = [number for number, node in enumerate(graph.nodes) if name in node.inputs]
        made, last = (
            makers.get(name, -1),
            len(graph.nodes) if name in kept else max(readers, default=-1),
        )
        if name != source and made < first <= last:
            before += tensor.bytes
        here = any(first <= reader < stop for reader in readers)
        if made < stop <= last and (name != source or here):
            after += tensor.bytes
    return max(before, after)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_there_before_and_after_a_stage(seed: int) -> None:
    graph = network(seed)
    for streamed in ways_to_feed(graph):
        partitioner = Partitioner(graph, streamed)
        for first, stop in itertools.combinations(range(len(graph.nodes) + 1), 2):
            held = partitioner.least_held(Cut(first, stop))
            assert held == needed(graph, streamed, first, stop)


# Tells the search for all pieces from that for a stage's.
WHOLE = SearchParams(pool_insertions=101)


def test_no_search_for_all_where_a_part_has_no_placement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within a limit: who looks for the smallest pool spends more on all than on a part."""
    failed: list[tuple[set[tuple[str, int]], int]] = []
    solve = circular_pool.CircularPool.solve

    def watched(self: circular_pool.CircularPool, insertions: int) -> SequentialPlacement | None:
        pieces = {(piece.name, piece.size) for piece in self.pieces}
        if insertions == len(self.pieces) * WHOLE.pool_insertions:
            assert not any(part < pieces and self.size <= size for part, size in failed)
        found = solve(self, insertions)
        if found is None:
            failed.append((pieces, self.size))
        return found

    monkeypatch.setattr(circular_pool.CircularPool, "solve", watched)
    # It says where the other finds what it imports.
    script("graphs", "benchmarks/graphs/run.py")
    networks = script("graph_networks", "benchmarks/graphs/networks.py")
    make_plan(networks.ghostnet(blocks=4, size=32), CompileOptions(params=WHOLE))
    assert failed


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
def test_nothing_on_the_front_is_beaten(pairs: list[tuple[int, int]]) -> None:
    """What is left costs less the more bytes it needs, and is as good as all that there was."""
    found = pareto([Option(Cut(0, 1), peak, cost) for peak, cost in pairs])
    for one, other in itertools.pairwise(found):
        assert one.peak < other.peak and one.cost > other.cost
    left = [(option.peak, option.cost) for option in found]
    assert set(left) <= set(pairs)
    assert all(any(peak <= p and cost <= c for peak, cost in left) for p, c in pairs)
