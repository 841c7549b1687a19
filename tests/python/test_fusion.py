# SPDX-License-Identifier: Apache-2.0
"""Stages of several layers: their schedules, rings, plans and bytes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from builders.fused_networks import (
    HOST,
    Network,
    bottleneck,
    expect_every_tensor,
    expect_meaning,
    whole_network,
)
from builders.networks import network_file
from drawn import case, seeds
from joint_program import layers_one_by_one
from random_builder import Builder
from random_graphs import convolution, depthwise_of, random_inputs
from vmcu_bench import oracle
from vmcu_bench.runners import get
from vmcu_tools.compiler import compile_model
from vmcu_tools.errors import PlanError, UserError
from vmcu_tools.graph import Graph, Window
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.ops import bind
from vmcu_tools.ops.add import Add
from vmcu_tools.ops.concat import Concat
from vmcu_tools.ops.move import Move
from vmcu_tools.plan.plan import Plan
from vmcu_tools.plan.schedule import Tile
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.params import ALL_TILES, TILES, SearchParams
from vmcu_tools.planner.places import smallest_pool
from vmcu_tools.planner.places.layout import Cut, Layout, Memory
from vmcu_tools.planner.places.pieces import pieces_of, stage_floor
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.stages import fusion
from vmcu_tools.planner.stages.partition import Partitioner
from vmcu_tools.quant import FixedSum


def narrow_chain() -> Graph:
    """Depthwise layers and a sum two columns wide, whose tensors share a ring: where one begins in
    another's, rows are split."""
    b = Builder(np.random.default_rng(0))
    x = b.input((30, 2, 18))
    square = Window((3, 3), pad=(1, 1, 1, 1))
    y = x
    for _ in range(3):
        y = depthwise_of(b, y, square, 30, 2, 1)
    factors = b.factor(0.1, 1.0), b.factor(0.1, 1.0), b.factor(2**-21, 2**-17)
    y = b.node(Add(FixedSum(*factors)), [y, x], x.shape)
    y = convolution(b, y, Window(), 30, 2, 5)
    return b.graph([y.name])


@pytest.mark.parametrize("tile", TILES)
def test_the_pools_end_is_not_where_a_ring_splits_rows(tile: Tile) -> None:
    graph = narrow_chain()
    layout = Layout(graph, (Cut(0, len(graph.nodes), tile),), True)
    group = layout.groups[0]
    splitting = set()
    for tensor, home in zip(group.tensors, group.homes, strict=True):
        owner = group.tensors[home.owner]
        if home.phase % tensor.shape[1] or layout.ring_bytes(owner.name) % tensor.row_bytes:
            splitting.add(owner.name)
    whole = {piece.name for piece in pieces_of(layout, both_ways=False) if piece.whole}
    assert splitting <= whole
    if tile == TILES[-1]:
        assert any(home.phase % 2 for home in group.homes)


# Each network one way; the other is slow.
@pytest.mark.parametrize(
    ("seed", "streamed"),
    [
        case(seed, streamed, slow=seed % 2 == streamed)
        for seed in range(5, 8)
        for streamed in (False, True)
    ],
)
def test_one_stage_on_the_virtual_mcu(seed: int, streamed: bool) -> None:
    graph = Network(seed).made
    for tile in TILES:
        expect_every_tensor(whole_network(graph, tile, streamed))


def looked_back_at(seed: int) -> Graph:
    """A network of which layers at its end read parts: a row in the middle of what others read
    whole."""
    made = Network(700 + seed)
    outputs = [made.x.name]
    for tensor in made.past[1:]:
        if made.rng.random() < 0.5:
            row = int(made.rng.integers(tensor.shape[0]))
            index = np.arange(tensor.bytes).reshape(tensor.shape)[row : row + 1]
            move = Move.of(index)
            assert move is not None
            outputs.append(made.node(move, [tensor], index.shape).name)
    return made.graph(outputs)


@pytest.mark.parametrize("seed", [pytest.param(3, marks=pytest.mark.slow), 4, 5])
def test_what_stays_for_few_is_there_for_all(seed: int) -> None:
    """A pixel that is read in its stage lives until then, though nobody behind the stage needs it
    while others of its tensor are needed there."""
    graph = looked_back_at(seed)
    rng, count = np.random.default_rng(seed), len(graph.nodes)
    for tile in TILES:
        stops = [*sorted(rng.choice(np.arange(1, count), 2, replace=False).tolist()), count]
        cuts = (Cut(*ends, tile) for ends in itertools.pairwise([0, *stops]))
        plan = smallest_pool.place("vmcu", Layout(graph, tuple(cuts)))
        VirtualMcu(plan).prove()
        expect_every_tensor(plan)


@pytest.mark.parametrize("target", [HOST, "qemu:m4"])
@pytest.mark.parametrize("seed", seeds(5, 2))
def test_one_stage_in_c(seed: int, target: str) -> None:
    graph = Network(100 + seed).made
    for number, tile in enumerate((None, 128, 16)):
        expect_meaning(whole_network(graph, tile, (seed + number) % 2 == 1), target)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_plans(seed: int, streamed: bool) -> None:
    """The default planner's own choice of stages, never larger than without any."""
    graph = Network(200 + seed).made
    plan = make_plan(graph, CompileOptions(stream_input=streamed))
    expect_every_tensor(plan)
    expect_meaning(plan, HOST)
    if not streamed:
        assert plan.pool_bytes <= layers_one_by_one(graph).pool_bytes


def shrunk(plan: Plan) -> list[Plan]:
    """Every ring of tiles or rows with one pixel, or one piece, less; not those that tensors
    share."""
    found = []
    ports = {port.tensor for port in (*plan.graph.inputs, *plan.graph.outputs)}
    bases = [placement.base for placement in plan.placements.values()]
    for name, placement in plan.placements.items():
        tensor = plan.graph.tensors[name]
        if name in ports or placement.ring == tensor.bytes or bases.count(placement.base) > 1:
            continue
        for less in (tensor.shape[2], tensor.row_bytes):
            if less < placement.ring:
                ring = replace(placement, ring=placement.ring - less)
                found.append(replace(plan, placements={**plan.placements, name: ring}))
    return found


def moved(plan: Plan, rng: np.random.Generator) -> list[Plan]:
    """Tensors, progress and scratch somewhere else; calls of other widths."""
    found = []
    for name, placement in plan.placements.items():
        for shift in (-1, 1, *rng.integers(-40, 41, 2)):
            other = replace(placement, base=max(placement.base + int(shift), 0))
            found.append(replace(plan, placements={**plan.placements, name: other}))
    for number, steps in enumerate(plan.stages):
        if len(steps) > 1:
            progress = list(plan.progress)
            progress[number] = int(rng.integers(0, plan.pool_bytes // 4)) * 4
            found.append(replace(plan, progress=tuple(progress)))
            found.append(replace(plan, pool_bytes=plan.pool_bytes - 1))
    return found


def test_corrupt_plans_never_pass() -> None:
    """What the proof lets through computes the right bytes in C; it rejects nearly all mutants."""
    rng = np.random.default_rng(0)
    rejected = passed = 0
    for seed in range(8):
        graph = Network(300 + seed).made
        plan = whole_network(graph, TILES[seed % len(TILES)], seed % 2 == 1)
        for mutant in shrunk(plan) + moved(plan, rng):
            try:
                VirtualMcu(mutant).prove()
            except PlanError:
                rejected += 1
                continue
            passed += 1
            if passed % 4 == 0:
                expect_meaning(mutant, "host")
    assert rejected >= 200 and passed >= 8


def test_rings_are_tight() -> None:
    """Rings of whole rows: one row less loses a row that is still read, except where what would
    read it is itself not wanted."""
    rejected = passed = 0
    for seed in range(12):
        plan = whole_network(Network(400 + seed).made, None, False)
        for mutant in shrunk(plan):
            try:
                VirtualMcu(mutant).prove()
                passed += 1
            except PlanError:
                rejected += 1
    assert rejected >= 20 and passed <= rejected // 10


@pytest.mark.parametrize("seed", range(6))
def test_the_search_finds_the_best_cut(seed: int) -> None:
    """All ways to cut a short chain, one by one."""
    graph = Network(500 + seed, layers=5).made
    partitioner = Partitioner(graph, False)
    count = len(graph.nodes)
    peaks = []
    for mask in range(1 << (count - 1)):
        stops = [n + 1 for n in range(count - 1) if mask >> n & 1] + [count]
        firsts = [0, *stops[:-1]]
        worst = 0
        for first, stop in zip(firsts, stops, strict=True):
            tried = partitioner.stages_of(first, stop)
            options = list(filter(None, (partitioner.option_within(cut, 1 << 40) for cut in tried)))
            # Layers that are called once are no stage.
            worst = max(worst, min((option.peak for option in options), default=1 << 40))
        peaks.append(worst)
    least = partitioner.least_peak(TILES, 1 << 40)
    assert least == min(peaks)
    layout = Layout(graph, partitioner.cheapest(least))
    floors = [
        stage_floor(layout, number)
        for number, group in enumerate(layout.groups)
        if group.trace is not None
    ]
    assert max(floors, default=0) <= least


def test_the_floor_of_a_stage_is_what_is_alive_in_a_call() -> None:
    """Run by run of each tensor's bytes, call by call, also where the last call needs the most."""
    places = set()
    for seed in range(20):
        graph = Network(500 + seed, layers=2).made
        for cut in Partitioner(graph, False).stages_of(0, len(graph.nodes))[:2]:
            layout = Layout(graph, (cut,))
            profiles = [layout.profile(name) for name, born in layout.births.items() if len(born)]
            runs = [run for profile in profiles for run in zip(*profile.runs, strict=True)]
            for number, group in enumerate(layout.groups):
                if group.trace is None:
                    continue
                alive = [
                    sum(end - first for first, end, birth, death in runs if birth <= call <= death)
                    for call in range(group.start, group.start + group.calls)
                ]
                most = max(alive)
                assert stage_floor(layout, number) == Memory.of(group.layers).bytes + most
                places.add(alive.index(most) - len(alive))
    assert -1 in places and len(places) > 3


@pytest.mark.parametrize(
    "make", [lambda: Network(3).made, pytest.param(lambda: bottleneck(), marks=pytest.mark.slow)]
)
def test_each_line_of_the_front_is_a_limit_that_is_met(make: Callable[[], Graph]) -> None:
    graph = make()
    front = fusion.front(graph, CompileOptions())
    pools = [choice.pool_bytes for choice in front]
    costs = [choice.extra_cycles for choice in front]
    assert len(front) >= 2 and pools == sorted(set(pools), reverse=True) and costs == sorted(costs)
    assert front[0].stages == 0 and costs[0] == 0
    for choice in front:
        plan = make_plan(graph, CompileOptions(ram=choice.pool_bytes))
        assert plan.pool_bytes <= choice.pool_bytes and plan.macs_extra == choice.extra_macs


def test_more_ram_is_used_for_fewer_instructions() -> None:
    graph = Network(3).made
    small = make_plan(graph)
    large = make_plan(graph, CompileOptions(ram=100000))
    assert all(len(stage) == 1 for stage in large.stages)
    assert large.pool_bytes >= small.pool_bytes
    with pytest.raises(UserError, match="does not fit"):
        make_plan(graph, CompileOptions(ram=small.pool_bytes - 1))


def test_tiles_are_part_of_the_trade_off() -> None:
    graph = Network(5).made
    free = make_plan(graph, CompileOptions(params=SearchParams(tiles=(None,))))
    for step in free.steps:
        layer = step.bind(graph)
        assert layer.columns == layer.width
    default = make_plan(graph)
    any_price = make_plan(
        graph, CompileOptions(params=SearchParams(trade_off=False, tiles=ALL_TILES))
    )
    assert any_price.pool_bytes <= default.pool_bytes <= free.pool_bytes
    expect_every_tensor(any_price)


def test_only_single_inputs_are_streamed() -> None:
    builder = Builder(np.random.default_rng(0))
    x, y = builder.input((4, 4, 2)), builder.input((4, 4, 2))
    out = builder.node(Concat(2, (None, None)), [x, y], (4, 4, 4))
    with pytest.raises(UserError, match="2 inputs"):
        make_plan(builder.graph([out.name]), CompileOptions(stream_input=True))


def test_reach_covers_what_is_read() -> None:
    """No row that a layer names lies outside its reach."""
    for seed in range(30):
        graph = Network(600 + seed).made
        for node in graph.nodes:
            layer = bind(graph, node)
            for index, tensor in enumerate(layer.ins):
                for y in range(layer.height):
                    rows = layer.input_rows(index, y)
                    span = layer.reach(index).span(0, y, y, tensor.shape[0])
                    assert set(rows) <= set(span), (node.kind, y)


@pytest.mark.slow
def test_a_large_network_in_64_kilobytes() -> None:
    """An ImageNet network with its input streamed: RAM, stack included, that the linker bounds;
    what is said of more, test_runners.py has."""
    path = network_file("mcunet-imagenet-320kb")
    plan = compile_model(path, CompileOptions(stream_input=True))
    inputs = random_inputs(plan.graph, 0)
    judge = oracle.open(str(path)).run(inputs)
    (outputs,) = get("qemu:m4-64k").run(plan, [inputs])
    name = plan.graph.outputs[0].tensor
    assert plan.graph.tensors[name].bytes == 1000
    np.testing.assert_array_equal(outputs[0], judge[name])
    assert plan.pool_bytes < 64 << 10 < compile_model(path).pool_bytes
