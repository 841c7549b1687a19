# SPDX-License-Identifier: Apache-2.0
"""The order of a stage's calls against its definition: who wants what is missing calls for it. Of
what these calls do, that nothing is read when it is dead."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from random_builder import Builder
from random_graphs import convolution
from random_networks import AnyNetwork
from vmcu_tools.graph import Window
from vmcu_tools.ops.add import Add
from vmcu_tools.plan.schedule import ONE_COLUMN, READY, STREAMED, Call, Stage
from vmcu_tools.plan.trace import Trace, trace_of
from vmcu_tools.planner.places.layout import Cut
from vmcu_tools.planner.places.order import reordered
from vmcu_tools.planner.stages.partition import UNLIMITED, Partitioner
from vmcu_tools.quant import FixedSum

from scripts import script

SEEDS = range(24)


class Demand:
    """Works a stage from its end, one call at a time."""

    def __init__(self, stage: Stage):
        self.stage, self.calls = stage, []
        # By layer, and of the streamed input: the row and the column that come next.
        self.next = dict.fromkeys((*range(len(stage.layers)), STREAMED), (0, 0))

    def run(self) -> list[Call]:
        for _ in range(self.stage.ahead):
            self.make(0)
        for number in reversed(range(len(self.stage.layers))):
            if self.stage.kept[number]:
                while self.next[number][0] < self.stage.layers[number].height:
                    self.make(number)
        return self.calls

    def make(self, number: int) -> None:
        y, x = self.next[number]
        if number == STREAMED:
            assert self.stage.source is not None
            width, columns = self.stage.source.shape[1], self.stage.taken
        else:
            width, columns = self.stage.layers[number].width, self.stage.columns[number]
            self.feed(number, y, min(x + columns, width) - 1)
        self.calls.append(Call(number, y, x, min(columns, width - x)))
        self.next[number] = (y, x + columns) if x + columns < width else (y + 1, 0)

    def feed(self, number: int, y: int, last: int) -> None:
        """Makes whatever windows up to column `last` of row y see and is not there yet."""
        layer = self.stage.layers[number]
        for index, feed in enumerate(self.stage.feeds[number]):
            height, width, _ = layer.ins[index].shape
            reach = layer.reach(index)
            row = min(y * reach.stride[0] + reach.after[0], height - 1)
            column = min(last * reach.stride[1] + reach.after[1], width - 1)
            # The row above is whole, whatever of this one is seen.
            wanted = (row, column) if column >= 0 else (row - 1, width - 1)
            while feed.producer != READY and self.next[feed.producer] <= wanted:
                self.make(feed.producer)


def stages(partitioner: Partitioner) -> list[tuple[Cut, Stage]]:
    """All stages of two to six layers that a search may try, in some tiles."""
    found = []
    for first, stop in itertools.combinations(range(partitioner.count + 1), 2):
        reads = partitioner.source is not None and partitioner.last[partitioner.source.name]
        possible = partitioner.source is None or (stop > reads and (first == 0 or first > reads))
        if possible and 2 <= stop - first <= 6:
            for tile in (None, 64, 16, ONE_COLUMN):
                cut = Cut(first, stop, tile)
                source = partitioner.source if first == 0 else None
                layers = partitioner.binder.stage(cut)
                found.append((cut, partitioner.binder.scheduled(cut, layers, source)))
    return found


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_calls_are_made_when_they_are_wanted(seed: int, streamed: bool) -> None:
    graph = AnyNetwork(seed).made
    if streamed and len(graph.inputs) > 1:
        return
    for _, stage in stages(Partitioner(graph, streamed)):
        assert list(stage.calls()) == Demand(stage).run()


def test_what_comes_ahead_is_not_made_again() -> None:
    moved = 0
    graphs = (AnyNetwork(seed).made for seed in SEEDS[::4])
    for _, stage in itertools.chain.from_iterable(
        stages(Partitioner(one, False)) for one in graphs
    ):
        count = len(stage.order.at[0])
        for calls in (1, count // 2, count):
            early = replace(stage, ahead=calls)
            assert list(early.calls()) == Demand(early).run()
            moved += early.order.makers.tolist() != stage.order.makers.tolist()
    assert moved > 100


def first_reads(stage: Stage, trace: Trace) -> list[list[int | None]]:
    """By tensor and call: the first pixel that any call from this one on reads, None if none."""
    calls = list(stage.calls())
    found = []
    for tensor in trace.tensors:
        height, width, _ = tensor.shape
        first: list[int | None] = [None] * (len(calls) + 1)
        for time, call in reversed(list(enumerate(calls))):
            first[time] = first[time + 1]
            layer = None if call.layer == STREAMED else stage.layers[call.layer]
            for index, one in enumerate(layer.ins if layer else ()):
                rows = layer.reach(index).span(0, call.y, call.y, height)
                last = call.x + call.columns - 1
                columns = layer.reach(index).span(1, call.x, last, width)
                if one.name == tensor.name and rows and columns:
                    pixel = rows[0] * width + columns[0]
                    first[time] = min(pixel, width * height if first[time] is None else first[time])
        found.append(first)
    return found


def test_what_is_dead_is_not_read_and_rings_hold_what_is() -> None:
    smaller = 0
    every = itertools.chain.from_iterable(
        stages(Partitioner(AnyNetwork(seed).made, False)) for seed in SEEDS
    )
    for number, (_, stage) in enumerate(every):
        if number % 4 == 0:
            stage = replace(stage, ahead=len(stage.order.at[0]) // 2)
        trace = trace_of(stage)
        for number, first in enumerate(first_reads(stage, trace)):
            dead = trace.freed[number].until(np.arange(trace.calls), "right")
            for time, pixels in enumerate(dead.tolist()):
                assert first[time + 1] is None or first[time + 1] >= pixels
            ring, size = trace.rings[number], trace.tensors[number].shape[0]
            smaller += ring < size * trace.tensors[number].shape[1]
            for time, pixels in zip(*trace.made[number], strict=True):
                assert first[time] is None or pixels - ring <= first[time]
    assert smaller > 1000


@pytest.mark.parametrize("streamed", [False, True])
def test_no_stage_is_refused_within_its_peak(streamed: bool) -> None:
    graphs = [AnyNetwork(seed).made for seed in SEEDS]
    partitioners = [
        Partitioner(graph, streamed) for graph in graphs if not streamed or len(graph.inputs) < 2
    ]
    close = count = 0
    every = ((partitioner, cut) for partitioner in partitioners for cut, _ in stages(partitioner))
    for partitioner, cut in every:
        floors, peak = floors_of(partitioner, cut)
        assert floors[0] > 0 and max(floors) <= peak
        close += floors[-1] > peak // 2
        count += 1
    assert close > 0.8 * count


def floors_of(partitioner: Partitioner, cut: Cut) -> tuple[list[int], int]:
    """Bounds that a stage gets where ever more bytes are allowed, and what it needs."""
    shape = partitioner.shape(cut)
    option = partitioner.known(cut, UNLIMITED)
    assert option is not None
    peak, besides = partitioner.held[shape], partitioner.surroundings(cut).besides
    floors = []
    for room in (limit - besides for limit in (0, peak // 2, peak, UNLIMITED)):
        # Those of a stage alone: of no other is anything known.
        least, brief = (
            partitioner.lower_bounds.floor(cut.first, shape.layers, shape.taken, room, short)
            for short in (False, True)
        )
        assert brief <= least and (brief > room) == (least > room)
        floors.append(besides + least)
    return floors, peak


class Shortcuts(Builder):
    """Residual blocks whose sums may take the place of either of what they add: convolutions are on
    both sides."""

    def __init__(self, seed: int):
        super().__init__(np.random.default_rng(seed))
        x = self.input((16, self.pick(8, 12, 16), 4))
        for _ in range(2):
            height, width = -(-x.shape[0] // 2), -(-x.shape[1] // 2)
            step, channels = Window((1, 1), (2, 2)), self.pick(4, 8)
            square = Window((3, 3), (2, 2), pad=(1, 1, 1, 1))
            y = convolution(self, x, square, height, width, channels)
            y = convolution(self, y, Window((3, 3), pad=(1, 1, 1, 1)), height, width, channels)
            z = convolution(self, x, step, height, width, channels)
            factors = self.factor(0.1, 1.0), self.factor(0.1, 1.0), self.factor(2**-21, 2**-17)
            sides = [y, z] if self.rng.random() < 0.5 else [z, y]
            x = self.node(Add(FixedSum(*factors)), sides, y.shape)
        x = convolution(self, x, Window((3, 3), pad=(1, 1, 1, 1)), height, width, 4)
        self.made = self.graph([x.name])


@pytest.mark.parametrize("seed", range(6))
def test_nor_one_with_a_tile_for_each_layer(seed: int) -> None:
    partitioner, dice = Partitioner(Shortcuts(seed).made, False), np.random.default_rng(seed)
    sizes = (None, 64, 16, ONE_COLUMN)
    for _ in range(60):
        tiles = [sizes[int(number)] for number in dice.integers(0, len(sizes), partitioner.count)]
        first = int(dice.integers(0, partitioner.count - 2))
        cut = Cut(first, partitioner.count, None, False, tuple(enumerate(tiles)))
        floors, peak = floors_of(partitioner, cut)
        assert max(floors) <= peak


def test_nor_one_of_cells_with_many_ends() -> None:
    """What is kept is finished when the last layer is done; sums may be in the ring of either side.
    The floor nearly tells what such stages need."""
    graphs = script("graphs", "benchmarks/graphs/run.py")
    partitioner = Partitioner(reordered(graphs.NETWORKS["NASNet, 2 cells"]()).graph, False)
    ends = [((44, 64), 128), ((2, 41), None), ((28, 58), 64), ((25, 61), 32), ((12, 43), 64)]
    close = 0.0
    for nodes, tile in ends:
        floors, peak = floors_of(partitioner, Cut(*nodes, tile))
        assert max(floors) <= peak
        close += floors[-1] / peak
    assert close > 0.95 * len(ends)
