# SPDX-License-Identifier: Apache-2.0
"""Which distances between two tensors are safe, and what they cover together, byte by byte."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from random_graphs import LAYERS, random_layers
from random_networks import AnyNetwork, wide
from vmcu_tools.ops import Form, ProgramLayer, bind
from vmcu_tools.plan.plan import PROGRESS_BYTES, SCRATCH_ALIGN, pool_scratch
from vmcu_tools.planner.places import layout
from vmcu_tools.planner.places.layout import Binder, Cut, Layout, Memory, Profile
from vmcu_tools.planner.places.overlap import Clearance, clearance, of_bytes, of_rows


@pytest.mark.parametrize("kind", LAYERS)
def test_a_footprint_is_the_least_that_two_tensors_cover(kind: str) -> None:
    for seed in range(12):
        graph = random_layers(kind, 1, seed=2000 + seed)
        layer = bind(graph, graph.nodes[0])
        for index, tensor in enumerate(layer.ins):
            found, (read, written) = clearance(layer, index), (tensor.bytes, layer.out.bytes)
            covered = [
                max(distance + read, written) - min(distance, 0)
                for distance in range(-read, written + 1)
                if found.allows(distance)
            ]
            assert found.footprint(read, written) == min(covered)
            side_by_side = Clearance.apart(read, written)
            assert side_by_side.footprint(read, written) == read + written
            overlapping = range(1 - read, written)
            assert not any(side_by_side.allows(distance) for distance in overlapping)


@pytest.mark.parametrize("kind", LAYERS)
def test_what_one_row_says_of_all_is_what_all_rows_say(kind: str) -> None:
    for seed in range(12):
        graph = random_layers(kind, 1, seed=4000 + seed)
        for descending in (False, True):
            node = graph.nodes[0]
            if descending and not bind(graph, node).can_descend:
                continue
            layer = bind(graph, node, descending)
            if isinstance(layer, ProgramLayer):
                for index in range(len(layer.ins)):
                    assert of_rows(layer, index) == of_bytes(layer, index)


def test_what_a_clearance_allows() -> None:
    found = Clearance(3, -2)
    assert [d for d in range(-5, 6) if found.allows(d)] == [-5, -4, -3, -2, 3, 4, 5]
    assert (found.footprint(4, 4), found.footprint(4, 9)) == (6, 9)
    assert Clearance(-7, 9).footprint(4, 6) == 6


def profile(dice: np.random.Generator) -> Profile:
    """Lives of one to eight pixels; some are never written, or kept for good."""
    count = int(dice.integers(1, 9))
    birth = dice.integers(-1, 9, count)
    death = birth + dice.integers(0, 6, count)
    death[dice.random(count) < 0.1] = layout.OUTLIVES
    if dice.random() < 0.5:
        birth, death = np.sort(birth), np.sort(death)
    return Profile(birth, np.maximum(birth, death), int(dice.integers(1, 4)))


def lives(one: Profile) -> list[tuple[int, int]]:
    """Of each byte."""
    pairs = zip(one.birth.tolist(), one.death.tolist(), strict=True)
    return [pair for pair in pairs for _ in range(one.size)]


def brute_force(new: Profile, old: Profile, both: bool = True) -> Clearance:
    """both: a byte of one tensor is alive while the other's is; else the old one's after the new
    one's birth."""
    unsafe = [
        i - j
        for i, (birth, death) in enumerate(lives(new))
        for j, (first, last) in enumerate(lives(old))
        if birth <= last and (first <= death or not both)
    ]
    if not unsafe:
        return Clearance(-old.bytes, new.bytes)
    return Clearance(max(unsafe) + 1, min(unsafe) - 1)


def test_tensors_are_apart_where_no_byte_is_needed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = np.random.default_rng(1)
    for _ in range(400):
        new, old = profile(dice), profile(dice)
        assert (new.bytes, old.bytes) == (len(lives(new)), len(lives(old)))
        assert layout.apart(new, old) == brute_force(new, old)
    # Of many runs only half is asked, which is safe.
    monkeypatch.setattr(layout, "MAX_PAIRS", 0)
    for _ in range(100):
        new, old = profile(dice), profile(dice)
        assert layout.apart(new, old) == brute_force(new, old, both=False)


def test_runs_are_pixels_with_the_same_life() -> None:
    dice = np.random.default_rng(2)
    for _ in range(100):
        one = profile(dice)
        starts, stops, births, deaths = one.runs
        again: list[tuple[int, int]] = []
        for start, stop, birth, death in zip(starts, stops, births, deaths, strict=True):
            again += [(int(birth), int(death))] * int(stop - start)
        assert again == lives(one)
        assert len(starts) == 1 + sum(a != b for a, b in itertools.pairwise(again))


@pytest.mark.parametrize("summing", [False, True])
def test_what_a_stage_keeps_besides_tensors(summing: bool) -> None:
    """Progress, scratch that layers share, and sums of their own, side by side and aligned."""
    graph = wide(3)
    nodes = graph.nodes[: 5 if summing else 4]
    forms = [Form.USUAL] * 4 + [Form.SUMMING]
    layers = [bind(graph, node, form=form) for node, form in zip(nodes, forms, strict=False)]
    memory = Memory.of(layers)
    assert memory.progress % SCRATCH_ALIGN == 0
    assert 0 <= memory.progress - PROGRESS_BYTES * len(layers) < SCRATCH_ALIGN
    needs = [pool_scratch(layer) for layer in layers]
    assert any(needs[:4]) and (not summing or needs[4])
    ends = [memory.progress]
    for layer, needed in zip(layers, needs, strict=True):
        offset, size = memory.scratch(layer)
        assert size >= needed and offset >= memory.progress
        ends.append(offset + size)
        shared = memory.scratch(layers[0])
        if layer.sums:
            assert (offset, size) == (sum(shared), needed)
        else:
            assert (offset, size) == shared == (memory.progress, max(needs[:4]))
    assert memory.bytes == max(ends)


@pytest.mark.parametrize("seed", range(30))
def test_single_layers_live_as_long_as_they_are_read(seed: int) -> None:
    """Of layers one by one: pixel by pixel, the first call that writes it and the last that reads
    it, the graph's inputs before all calls and its outputs for good."""
    graph = AnyNetwork(600 + seed, layers=8).made
    found = Layout.singles(graph)
    births = {name: np.full(t.shape[:2], -1) for name, t in graph.tensors.items()}
    deaths = {name: np.full(t.shape[:2], -1) for name, t in graph.tensors.items()}
    time = 0
    for node in graph.nodes:
        layer = bind(graph, node)
        rows = layer.out.shape[0] // layer.height
        for y in range(layer.height):
            births[layer.out.name][y * rows : (y + 1) * rows] = time
            deaths[layer.out.name][y * rows : (y + 1) * rows] = time
            for index, tensor in enumerate(layer.ins):
                for row in layer.input_rows(index, y):
                    deaths[tensor.name][row] = time
            time += 1
    for port in graph.outputs:
        deaths[port.tensor][:] = layout.OUTLIVES
    used = {port.tensor for port in graph.inputs} | {n.outputs[0] for n in graph.nodes}
    for name in used:
        one = found.profile(name)
        np.testing.assert_array_equal(one.birth, births[name].ravel())
        np.testing.assert_array_equal(one.death, deaths[name].ravel())
        assert one.bytes == graph.tensors[name].bytes == found.ring_bytes(name)
        assert not found.splits_rows(name)


def test_a_cut_has_the_tiles_that_it_names() -> None:
    cut = Cut(2, 5, 64, larger=((3, 256), (4, None)))
    assert [cut.tile_of(number) for number in (2, 3, 4)] == [64, 256, None]


def test_the_last_layer_of_a_stage_sums_if_it_can() -> None:
    graph = wide(4)
    binder = Binder(graph)
    for first, stop in ((0, 5), (3, 5), (0, 4), (2, 6)):
        layers = binder.stage(Cut(first, stop, 64))
        assert [layer.node for layer in layers] == list(graph.nodes[first:stop])
        wanted = [number == 4 and stop == 5 for number in range(first, stop)]
        assert [layer.sums for layer in layers] == wanted
        assert binder.serves(4, Form.SUMMING) and not binder.serves(3, Form.SUMMING)


def test_a_direct_stage_has_no_scratch_in_the_pool() -> None:
    graph = wide(4)
    binder = Binder(graph)
    usual, direct = (binder.stage(Cut(0, 4, 64, direct)) for direct in (False, True))
    able = [binder.serves(number, Form.DIRECT) for number in range(4)]
    needs = [pool_scratch(layer) > 0 for layer in usual]
    assert any(both for both in zip(able, needs, strict=True) if all(both))
    for number, layer in enumerate(direct):
        if able[number] and needs[number]:
            assert pool_scratch(layer) == 0
        else:
            assert layer is usual[number]


def test_layers_are_bound_once_for_each_tile() -> None:
    graph = wide(4)
    binder = Binder(graph)
    whole = binder.layer(0)
    assert binder.layer(0) is whole and binder.layer(0, 10**6) is whole
    assert whole.columns == whole.width
    narrow = binder.layer(0, 64)
    assert narrow is binder.layer(0, 64) is not whole and narrow.columns < narrow.width
    turned = binder.descending(whole)
    assert turned.descending and not whole.descending and binder.descending(whole) is turned
    cut = Cut(0, 3, 64, larger=((1, None),))
    assert binder.stage(cut)[1] is binder.layer(1) and binder.stage(cut)[0] is narrow
