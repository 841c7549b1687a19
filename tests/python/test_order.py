# SPDX-License-Identifier: Apache-2.0
"""Orders of execution: never worse than simple searches, the best where the search says so."""

from __future__ import annotations

import functools
import itertools
import random
from dataclasses import replace

import pytest
from builders.dags import Dag
from random_networks import AnyNetwork
from vmcu_lab.planners import plan_by
from vmcu_tools.graph import Graph
from vmcu_tools.ops import bind
from vmcu_tools.planner.params import SearchParams
from vmcu_tools.planner.places.order import Cost, CostOf, cost_of, reordered, whole_cost

MOST_ORDERS = 2000


def costs_of(graph: Graph, cost: CostOf) -> dict[str, Cost]:
    return {node.name: cost(graph, node) for node in graph.nodes}


def peak_of(graph: Graph, costs: dict[str, Cost]) -> int:
    """Bytes of the worst step of a graph's own order, by lifetimes written down anew."""
    kept = {port.tensor for port in graph.outputs}
    last = {name: n for n, node in enumerate(graph.nodes) for name in node.inputs}
    alive = {port.tensor for port in graph.inputs if port.tensor in kept | last.keys()}
    peak = 0
    for number, node in enumerate(graph.nodes):
        needs = costs[node.name]
        dying = {n for n in node.inputs if last[n] == number and n not in kept}
        before = sum(graph.tensors[name].bytes for name in alive)
        saved = sum(needs.shared[name] for name in dying)
        peak = max(peak, needs.scratch + max(before, before + needs.output - saved))
        alive -= dying
        alive |= {name for name in node.outputs if name in kept or name in last}
    return peak


def orders(graph: Graph, nodes: tuple = ()):
    """All orders of execution."""
    made = {port.tensor for port in graph.inputs} | {n for node in nodes for n in node.outputs}
    left = [node for node in graph.nodes if node not in nodes]
    if not left:
        yield replace(graph, nodes=nodes)
    for node in left:
        if set(node.inputs) <= made:
            yield from orders(graph, (*nodes, node))


def shuffled(graph: Graph, seed: int) -> Graph:
    """The graph in another order of execution."""
    dice, made = random.Random(seed), {port.tensor for port in graph.inputs}
    left, nodes = list(graph.nodes), []
    while left:
        node = dice.choice([node for node in left if set(node.inputs) <= made])
        left.remove(node)
        nodes.append(node)
        made |= set(node.outputs)
    return replace(graph, nodes=tuple(nodes))


def beam(graph: Graph, costs: dict[str, Cost], width: int) -> int:
    """The peak that a plain beam search finds, by sets of names."""
    kept = {port.tensor for port in graph.outputs}
    users = {name: {n.name for n in graph.consumers(name)} for name in graph.tensors}
    size = {name: tensor.bytes for name, tensor in graph.tensors.items()}
    inputs = {port.tensor for port in graph.inputs if users[port.tensor] or port.tensor in kept}
    states = [(0, sum(size[n] for n in inputs), frozenset(), frozenset(inputs))]
    made_by = {name: node.name for node in graph.nodes for name in node.outputs}
    needs = {n.name: {made_by[i] for i in n.inputs if i in made_by} for n in graph.nodes}
    for _ in graph.nodes:
        found = {}
        for peak, alive, done, held in states:
            for node in graph.nodes:
                if node.name in done or not needs[node.name] <= done:
                    continue
                after = done | {node.name}
                dying = {n for n in node.inputs if n not in kept and users[n] <= after}
                worst = max(peak, costs[node.name].bytes(alive, sorted(dying)))
                now = (held - dying) | {n for n in node.outputs if n in kept or users[n]}
                entry = worst, sum(size[n] for n in now), after, now
                if after not in found or entry[:2] < found[after][:2]:
                    found[after] = entry
        states = sorted(found.values(), key=lambda state: (state[0], state[1]))[:width]
    return min(state[0] for state in states)


@functools.lru_cache
def dag(seed: int, count: int, width: int) -> Graph:
    return Dag(seed, count, width).graph()


@pytest.mark.parametrize("cost", [cost_of, whole_cost])
@pytest.mark.parametrize("seed", range(15))
def test_small_graphs_have_the_best_of_all_orders(seed: int, cost: CostOf) -> None:
    for graph in (dag(seed, 9, 4), AnyNetwork(seed, layers=7).made):
        costs = costs_of(graph, cost)
        every = list(itertools.islice(orders(graph), MOST_ORDERS + 1))
        if len(every) > MOST_ORDERS:
            continue
        best = min(peak_of(one, costs) for one in every)
        found = reordered(graph, cost)
        assert found.proven and not found.notes
        assert peak_of(found.graph, costs) == best
        assert found.peak in (0, best)


@pytest.mark.parametrize("seed", range(3))
def test_large_graphs_are_never_worse_than_a_beam(seed: int) -> None:
    graph = shuffled(dag(seed, 40, 8), seed)
    found, costs = reordered(graph), costs_of(graph, cost_of)
    assert found.peak == peak_of(found.graph, costs)
    assert found.peak <= min(beam(graph, costs, 60), peak_of(graph, costs))


def test_what_is_cut_short_is_said() -> None:
    graph = shuffled(dag(5, 60, 8), 1)
    params = SearchParams(order_work=1000)
    found, costs = reordered(graph, whole_cost, params), costs_of(graph, whole_cost)
    assert not found.proven
    assert f"{found.peak:,} bytes" in found.notes[0]
    assert found.notes[0].endswith(f"over all orders is {found.bound:,} bytes.")
    assert found.bound <= reordered(graph, whole_cost).peak
    assert found.peak == peak_of(found.graph, costs) < peak_of(graph, costs)


def test_baselines_do_not_depend_on_the_order_of_the_file() -> None:
    """Twelve branches that widen and narrow again."""
    branches = Dag(0, 2)
    branches.tensors.clear()
    branches.nodes.clear()
    source = branches.tensor((4, 4, 2))
    wide = [branches.pointwise(source, 48) for _ in range(12)]
    for tensor in wide:
        branches.pointwise(tensor, 1)
    while len(ends := branches.unread()) > 1:
        branches.join(ends[0], ends[1])
    graph = branches.graph()
    pools = {plan_by("hmcos", shuffled(graph, seed)).pool_bytes for seed in range(4)}
    assert len(pools) == 1
    # One branch at a time, beside the source and the narrow ends so far.
    widest = max(bind(graph, node).out.bytes for node in graph.nodes)
    assert pools.pop() <= widest + 16 * (2 + 12)
