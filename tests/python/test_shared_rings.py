# SPDX-License-Identifier: Apache-2.0
"""Outputs in their inputs' rings: which share one, and how large it is, pixel by pixel."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from random_builder import Builder
from random_graphs import convolution, depthwise_of
from vmcu_tools.graph import Graph, Tensor, Window
from vmcu_tools.ops.add import Add
from vmcu_tools.ops.requantize import Requantize
from vmcu_tools.plan.schedule import ONE_COLUMN, Tile
from vmcu_tools.plan.trace import Steps, Trace
from vmcu_tools.planner.places.in_place import Guest, Ring, in_place, traced
from vmcu_tools.planner.places.layout import Binder, Cut
from vmcu_tools.quant import FixedSum

SQUARE = Window((3, 3), pad=(1, 1, 1, 1))


def counts(steps: Steps, calls: int) -> list[int]:
    """By call, pixels once it is over."""
    found, latest = [0] * calls, 0
    by_call = dict(zip(*steps, strict=True))
    for time in range(calls):
        latest = max(latest, by_call.get(time, 0))
        found[time] = latest
    return found


def shift_of(trace: Trace, number: int, owner: int) -> int:
    """Pixels by which a tensor trails behind the owner of its ring."""
    if number == owner:
        return 0
    home = trace.homes[number]
    for feed in trace.stage.feeds[number]:
        host = feed.producer
        if host >= 0 and trace.homes[host].owner == owner:
            behind = feed.before[0] * trace.tensors[number].shape[1] + feed.before[1]
            shift = shift_of(trace, host, owner) + behind
            if home.phase == -shift % trace.rings[owner]:
                return shift
    raise AssertionError("it trails behind nothing that it reads")


def expect_rings(trace: Trace) -> int:
    """Rings that are shared are as large as from the oldest pixel to the newest, and no two
    tensors need the same place at once. Returns how many outputs share one."""
    shared: dict[int, list[int]] = {}
    for number, home in enumerate(trace.homes):
        shared.setdefault(home.owner, []).append(number)
    for owner, guests in shared.items():
        if len(guests) == 1:
            continue
        span = 1
        shifts = {number: shift_of(trace, number, owner) for number in guests}
        made = {number: counts(trace.made[number], trace.calls) for number in guests}
        freed = {number: counts(trace.freed[number], trace.calls) for number in guests}
        for time in range(trace.calls):
            places = []
            for number in guests:
                low = freed[number][time - 1] if time else 0
                pixels = range(low, made[number][time])
                places += [pixel - shifts[number] for pixel in pixels]
            # What a call reads for the last time may lie under what it writes.
            over = [
                pixel - shifts[number]
                for number in guests
                for pixel in range(freed[number][time], made[number][time])
            ]
            assert len(set(over)) == len(over)
            span = max(span, max(places) - min(places) + 1 if places else 0)
        assert trace.rings[owner] == span
        for number in guests:
            assert trace.rings[number] == span
    return sum(len(guests) - 1 for guests in shared.values())


def stages(graph: Graph) -> Iterator[Trace]:
    """Every stage of up to six layers, in some tiles."""
    binder = Binder(graph)
    for first, stop in itertools.combinations(range(len(graph.nodes) + 1), 2):
        for tile in (None, 64, 8):
            if stop - first <= 6:
                cut = Cut(first, stop, tile)
                yield traced(binder.scheduled(cut, binder.stage(cut), None))


def test_guests_are_apart_where_they_never_need_the_same_place() -> None:
    """Of guests that need a few places or none in each of some calls."""
    dice = np.random.default_rng(5)
    together = 0
    for _ in range(600):
        calls, guests = int(dice.integers(1, 4)), []
        for number in range(2):
            low = dice.integers(-4, 5, calls)
            guests.append(Guest(number, 0, low, low + np.maximum(dice.integers(-2, 4, calls), -1)))
        one, other = guests
        needed = [
            [set(range(low, high)) for low, high in zip(guest.low, guest.high, strict=True)]
            for guest in guests
        ]
        apart = not any(a & b for a, b in zip(*needed, strict=True))
        assert one.apart(other) == other.apart(one) == apart
        together += not apart
        both = [a | b for a, b in zip(*needed, strict=True)]
        spans = [max(places) - min(places) + 1 for places in both if places]
        assert Ring.of(one).with_also(other).span == max(spans, default=1)
    assert 50 < together < 550


Layer = Callable[[Builder, Tensor], Tensor]


def depthwise(b: Builder, x: Tensor) -> Tensor:
    return depthwise_of(b, x, SQUARE, *x.shape[:2], 1)


def upright(b: Builder, x: Tensor) -> Tensor:
    return depthwise_of(b, x, Window((3, 1), pad=(1, 0, 1, 0)), *x.shape[:2], 1)


def lying(b: Builder, x: Tensor) -> Tensor:
    return depthwise_of(b, x, Window((1, 3), pad=(0, 1, 0, 1)), *x.shape[:2], 1)


def copied(b: Builder, x: Tensor) -> Tensor:
    return b.node(Requantize(b.factor(0.2, 5.0)), [x], x.shape)


def halved(b: Builder, x: Tensor) -> Tensor:
    size = x.shape[0] // 2, x.shape[1] // 2
    return depthwise_of(b, x, Window((2, 2), (2, 2)), *size, 1)


def as_many(b: Builder, x: Tensor) -> Tensor:
    return convolution(b, x, Window(), *x.shape)


LAYERS = (depthwise, copied, upright, lying, as_many)


def same_sizes(seed: int) -> Graph:
    """A chain of layers with sums over short branches, whose images are all of one size."""
    b = Builder(np.random.default_rng(seed))
    past = [b.input((b.pick(3, 6, 9), b.pick(2, 5, 8), b.pick(1, 3, 4)))]
    for _ in range(7):
        x, branch = past[-1], past[-min(b.pick(2, 3), len(past))]
        if b.rng.random() < 0.3 and branch is not x:
            factors = b.factor(0.1, 1.0), b.factor(0.1, 1.0), b.factor(2**-21, 2**-17)
            past.append(b.node(Add(FixedSum(*factors)), [branch, x], x.shape))
        else:
            layer = LAYERS[int(b.rng.integers(len(LAYERS)))]
            past.append(layer(b, x))
    return b.graph([past[-1].name])


@pytest.mark.parametrize("seed", range(12))
def test_rings_are_as_large_as_their_tensors_are_apart(seed: int) -> None:
    assert sum(map(expect_rings, stages(same_sizes(seed)))) > 0


def stage_of(*layers: Layer, tile: Tile = 4) -> Trace:
    """A stage of these layers on an image of 8 x 6 pixels."""
    b = Builder(np.random.default_rng(0))
    x = b.input((8, 6, 4))
    for layer in layers:
        x = layer(b, x)
    graph = b.graph([x.name])
    binder, cut = Binder(graph), Cut(0, len(layers), tile)
    return traced(binder.scheduled(cut, binder.stage(cut), None))


def owners(trace: Trace) -> list[int]:
    return [home.owner for home in trace.homes[: len(trace.stage.layers)]]


def test_what_is_computed_pixel_by_pixel_takes_its_inputs_place() -> None:
    trace = stage_of(depthwise, copied, depthwise, as_many)
    assert owners(trace)[:2] == [0, 0] and trace.homes[1].phase == 0
    assert expect_rings(trace)


def test_a_ring_of_one_pixel_is_enough_for_copies() -> None:
    trace = stage_of(copied, copied, copied, as_many, tile=ONE_COLUMN)
    assert owners(trace)[:3] == [0, 0, 0]
    assert trace.rings[:3] == (1, 1, 1) and expect_rings(trace)


def test_a_window_of_the_same_size_trails_behind_its_input() -> None:
    # A row and a pixel behind, a row, or a pixel: what its window has not yet read.
    for layer, behind in ((depthwise, 7), (upright, 6), (lying, 1)):
        trace = stage_of(copied, layer, as_many)
        assert owners(trace)[:2] == [0, 0]
        assert -trace.homes[1].phase % trace.rings[0] == behind % trace.rings[0]
        assert expect_rings(trace)


def test_other_shapes_and_outputs_have_rings_of_their_own() -> None:
    assert owners(stage_of(copied, halved, as_many))[:2] == [0, 1]
    # The last one's output stays, and no ring is smaller than it.
    assert owners(stage_of(depthwise, copied)) == [0, 1]
    kept = stage_of(depthwise, copied, depthwise, as_many)
    stage = replace(kept.stage, kept=(True, *kept.stage.kept[1:]))
    assert owners(traced(stage))[1] == 1
    assert owners(in_place(replace(kept, stage=stage)))[1] == 1
