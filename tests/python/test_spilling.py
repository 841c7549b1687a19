# SPDX-License-Identifier: Apache-2.0
"""Spilling and recomputation: MODeL's figures, all plans of small graphs, and the checker."""

from __future__ import annotations

import contextlib
import copy
import heapq
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders.task_graphs import UNITS, graph_of, random_graph
from vmcu_lab.placement import Allocation, InputError, Instance, checker, graphs, spilling
from vmcu_lab.placement.graph_files import NamedGraph
from vmcu_lab.placement.params import PlacementParams
from vmcu_lab.placement.spilling import Prices, exact, need_of, solve_within
from vmcu_lab.placement.spilling.actions import peak, price, stays
from vmcu_lab.report.limited_plans import limited_figures
from vmcu_tools.cli import main
from vmcu_tools.plan.pools import Region

Content = tuple[int, ...]
Memory = frozenset[tuple[int, Content]]


def planned(tmp_path: Path, graph: dict[str, Any], *words: str) -> dict[str, Any]:
    """The plan that `vmcu place` writes, which the checker has confirmed."""
    source, target = tmp_path / "graph.json", tmp_path / "plan.json"
    source.write_text(json.dumps(graph), encoding="utf-8")
    assert main(["place", "--graph", str(source), "--json", str(target), *words]) == 0
    plan: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
    checker.graph_verdict(graph, plan)
    return plan


@pytest.mark.parametrize(
    ("name", "limit", "height", "copied"),
    [("control_dep", 120, 120, 120), ("control_dep", 150, 150, 0), ("two_weights", 500, 484, 246)],
)
def test_copies_are_those_of_model(
    name: str, limit: int, height: int, copied: int, tmp_path: Path
) -> None:
    """What MODeL's own tests expect under a limit."""
    memories = f"fast={limit},slow=1M:1"
    plan = planned(tmp_path, graph_of(UNITS[name][0]), "--memory", memories)
    assert plan["copied"] == copied and plan["height"] <= height and plan["optimal"]


def drawn(seed: int) -> dict[str, Any]:
    """A small graph, with costs; some nodes can be repeated, some change an input."""
    dice = random.Random(seed)
    tensors: list[dict[str, Any]] = [
        {"name": f"x{n}", "size": dice.randint(1, 9), "keep": dice.random() < 0.5} for n in (0, 1)
    ]
    nodes: list[dict[str, Any]] = []
    readers: dict[str, list[str]] = {}
    for number in range(dice.randint(3, 5)):
        inputs = dice.sample([t["name"] for t in tensors], dice.randint(1, 2))
        name, outputs = f"n{number}", [f"t{number}"]
        entry: dict[str, Any] = {"name": name, "inputs": inputs, "outputs": outputs}
        entry["cost"] = dice.randint(0, 7)
        entry["repeatable"] = dice.random() < 0.8
        if dice.random() < 0.2:
            entry["scratch"] = dice.randint(1, 5)
        if dice.random() < 0.2 and inputs[0].startswith("x"):
            # Whoever changes a tensor runs after those that have read it.
            entry["writes"] = inputs[:1]
            entry["after"] = list(readers.get(inputs[0], []))
        for tensor in inputs:
            readers.setdefault(tensor, []).append(name)
        tensors.append({"name": outputs[0], "size": dice.randint(1, 9)})
        nodes.append(entry)
    for one, entry in enumerate(nodes):
        for tensor in entry.get("writes", []):
            for later in nodes[one + 1 :]:
                if tensor in later["inputs"]:
                    later["after"] = [*later.get("after", []), entry["name"]]
    tensors[-1]["keep"] = True
    return {"tensors": tensors, "nodes": nodes}


class AllPlans:
    """Every plan of a graph, by contents of memories: who has written what is there."""

    def __init__(self, graph: NamedGraph, room: int, prices: Prices):
        self.tasks, self.room, self.prices = graph.tasks, room, prices

    def held(self, memory: Memory) -> int:
        return sum(self.tasks.sizes[place] for place, _ in memory)

    def moves(self, state: Any) -> Any:
        """States that follow, with what they cost."""
        run, fast, slow = state
        there, away = dict(fast), dict(slow)
        true: dict[int, Content] = {}
        for node in run:
            for place in {*self.tasks.tasks[node].outputs, *self.tasks.tasks[node].writes}:
                true[place] = (*true.get(place, ()), node)
        for number, task in enumerate(self.tasks.tasks):
            before = set(self.tasks.predecessors[number])
            found = {place: there.get(place) for place in task.inputs}
            again = number in run
            if not before <= set(run) or None in found.values():
                continue
            if again:
                at = run.index(number)
                saw = {
                    place: tuple(
                        n
                        for n in run[:at]
                        if place in (*self.tasks.tasks[n].outputs, *self.tasks.tasks[n].writes)
                    )
                    for place in task.inputs
                }
                if not task.is_repeatable or task.writes or found != saw:
                    continue
            elif any(found[place] != true.get(place, ()) for place in task.inputs):
                continue
            made = {place for place in task.outputs if not again or place not in there}
            if again and not made:
                continue
            need = self.held(fast) + sum(self.tasks.sizes[place] for place in made) + task.scratch
            if need > self.room:
                continue
            after = dict(there)
            for place in made:
                after[place] = (number,)
            for place in task.writes:
                after[place] = (*after[place], number)
            cost = task.cost if again else 0.0
            yield (run if again else (*run, number), frozenset(after.items()), slow), cost
        for place, content in there.items():
            yield (run, fast - {(place, content)}, slow), 0.0
            if self.prices.per_byte is not None and away.get(place) != content:
                rest = {p: c for p, c in away.items() if p != place}
                both = frozenset({**rest, place: content}.items())
                if self.held(both) <= self.prices.capacity:
                    yield (run, fast, both), self.tasks.sizes[place] * self.prices.per_byte
        for place, content in away.items():
            yield (run, fast, slow - {(place, content)}), 0.0
            if place not in there and self.held(fast) + self.tasks.sizes[place] <= self.room:
                back = fast | {(place, content)}
                yield (run, back, slow), self.tasks.sizes[place] * (self.prices.per_byte or 0)

    def is_end(self, state: Any) -> bool:
        run, fast, _ = state
        there = dict(fast)
        for place in self.tasks.kept:
            written = [
                n
                for n in run
                if place in (*self.tasks.tasks[n].outputs, *self.tasks.tasks[n].writes)
            ]
            if there.get(place) != tuple(written):
                return False
        return len(run) == len(self.tasks.tasks)

    def least(self) -> float | None:
        """The least cost of all plans; None if there is none."""
        given = [p for p, _ in enumerate(self.tasks.sizes) if p not in self.tasks.maker]
        needed = frozenset((p, ()) for p in given if self.tasks.is_needed(p))
        first: Any = ((), needed, frozenset())
        if self.held(needed) > self.room:
            return None
        best, todo, count = {first: 0.0}, [(0.0, 0, first)], 0
        while todo:
            cost, _, state = heapq.heappop(todo)
            if cost > best[state]:
                continue
            if self.is_end(state):
                return cost
            for after, more in self.moves(state):
                if cost + more < best.get(after, float("inf")):
                    best[after] = cost + more
                    count += 1
                    heapq.heappush(todo, (cost + more, count, after))
        return None


def crowded(graph: NamedGraph, dice: random.Random) -> int:
    """Bytes between those of the hungriest node and those of the best order."""
    tasks = graph.tasks
    need = max(
        task.scratch + sum(tasks.sizes[t] for t in {*task.inputs, *task.outputs})
        for task in tasks.tasks
    )
    least = max(need, tasks.at_start)
    return dice.randint(least, max(least, graphs.solve(graph, only="order").peak - 1))


@pytest.mark.parametrize("seed", range(40))
def test_small_graphs_cost_the_least_of_all_plans(seed: int) -> None:
    """The cheapest of all plans, with other code, on contents."""
    dice = random.Random(seed)
    graph = graphs.parse(drawn(seed))
    room = crowded(graph, dice)
    slow = Prices(dice.choice((0.5, 1.0)), dice.choice((8, 1000)))
    prices = dice.choice((slow, Prices()))
    found = exact.cheapest(graph.tasks, room, prices)
    least = AllPlans(graph, room, prices).least()
    if found.actions is None:
        assert least is None or not found.is_proven
        return
    cost = price(graph.tasks, found.actions, prices)
    assert least is not None and cost >= least
    assert peak(stays(graph.tasks, found.actions), len(found.actions)) <= room
    assert cost == least or not found.is_proven


def test_the_search_is_near_the_cheapest_plan() -> None:
    """By how much the search for large graphs is dearer on small ones, on average."""
    sums = [0.0, 0.0]
    for seed in range(150):
        graph = graphs.parse(drawn(1000 + seed))
        room, prices = crowded(graph, random.Random(seed)), Prices(1.0, 1000)
        ways = [PlacementParams(spilling_exact=way) for way in (True, False)]
        try:
            found = [solve_within(graph, room, prices, params=params).cost for params in ways]
        except InputError:
            continue
        assert found[1] >= found[0] or not found[0]
        sums = [total + cost for total, cost in zip(sums, found, strict=True)]
    assert 0 < sums[0] <= sums[1] < 1.15 * sums[0]


def chain(count: int, seed: int) -> dict[str, Any]:
    """Layers there and back, as in training: each on the way back reads what the same one made.
    Some change what they read, some make two tensors, some have scratch."""
    dice = random.Random(seed)
    tensors = [{"name": "w", "size": 40, "keep": True}, {"name": "f0", "size": 20}]
    nodes: list[dict[str, Any]] = []
    for n in range(1, count + 1):
        outputs = [f"f{n}"] + ([f"mask{n}"] if n % 3 == 0 else [])
        tensors += [{"name": t, "size": 4 * dice.randint(2, 8), "alignment": 4} for t in outputs]
        entry = {"name": f"forward{n}", "inputs": [f"f{n - 1}", "w"], "outputs": outputs}
        if n > 1 and n % 4 == 1:
            entry["after"] = [f"relu{n - 1}"]
        nodes.append(entry | {"cost": dice.randint(1, 20), "repeatable": n % 5 > 0})
        if n % 4 == 0:
            relu = {"name": f"relu{n}", "inputs": [f"f{n}"], "writes": [f"f{n}"]}
            nodes.append(relu | {"cost": 1, "repeatable": True, "scratch": 4})
    gradient = f"f{count}"
    for n in range(count, 0, -1):
        tensors.append({"name": f"g{n}", "size": 4 * dice.randint(2, 8)})
        inputs = [gradient, f"f{n}", f"f{n - 1}", *([f"mask{n}"] if n % 3 == 0 else [])]
        entry = {"name": f"backward{n}", "inputs": inputs, "outputs": [f"g{n}"]}
        waits = [f"relu{n}"] * (n % 4 == 0) + [f"relu{n - 1}"] * (n % 4 == 1 and n > 1)
        nodes.append(entry | {"cost": 10, "after": waits})
        gradient = f"g{n}"
    update = {"name": "update", "inputs": ["w", gradient], "writes": ["w"], "outputs": []}
    return {"tensors": tensors, "nodes": [*nodes, update]}


@pytest.mark.parametrize("count", [5, 12, 60])
@pytest.mark.parametrize("memories", ["fast=1M,slow=1M:0.05", "fast=1M,slow=1M:3", "fast=1M"])
def test_plans_of_training_pass_the_checker(count: int, memories: str, tmp_path: Path) -> None:
    """From few layers, where all plans are searched, to many; copies that are cheap, dear, and
    impossible."""
    plan = planned(tmp_path, chain(count, count), "--memory", memories, "--ram", "80%")
    assert plan["cost"] > 0
    kinds = {action["do"] for action in plan["actions"]}
    assert kinds >= ({"run", "fetch"} if memories.endswith("0.05") else {"run", "repeat"})
    assert count <= 5 or not plan["optimal"]
    again = planned(tmp_path, chain(count, count), "--memory", memories, "--ram", "80%")
    assert {**again, "seconds": 0} == {**plan, "seconds": 0}


@pytest.mark.parametrize("count", [0, 1, 100])
def test_what_has_no_offsets_at_once_is_not_called_optimal(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if so many placements ended above the limit: then there is less room for actions, or the
    offsets of the first ones are searched for."""
    graph, todo, real = graphs.parse(graph_of(UNITS["diamond"][0])), [count], spilling._at_once

    def above(problem: Instance, capacity: int, params: PlacementParams) -> Allocation:
        found = real(problem, capacity, params)
        todo[0] -= 1
        return replace(found, height=capacity + 1) if todo[0] >= 0 else found

    monkeypatch.setattr(spilling, "_at_once", above)
    plan = solve_within(graph, 125, Prices(1.0, 1000), 5.0)
    assert plan.cost > 0 and plan.fast.height <= 125
    assert plan.is_optimal == (count == 0)


@pytest.mark.parametrize("seed", range(40))
def test_plans_of_any_graph_pass_the_checker(seed: int) -> None:
    """With tensors in one place, and nodes that wait, need scratch or change their inputs."""
    data, dice = random_graph(seed), random.Random(seed)
    for node in data["nodes"]:
        node |= {"cost": dice.randint(0, 9), "repeatable": dice.random() < 0.7}
        if node["inputs"] and dice.random() < 0.1:
            node["writes"] = node["inputs"][:1]
    graph = graphs.parse(data)
    need = need_of(graph)[0]
    limit = max(1, (need + graphs.solve(graph, only="order").peak) // 2)
    prices = dice.choice((Prices(1.0, 1 << 30), Prices(0.2, 1 << 30), Prices()))
    params = PlacementParams(spilling_exact=seed % 2 == 0)
    try:
        plan = solve_within(graph, limit, prices, 1.0, params=params)
    except InputError as error:
        assert "no plan was found" in error.complaints[0].reason
        return
    memories = [Region("fast", limit, 0.0), Region("slow", prices.capacity, prices.per_byte or 0)]
    used = memories[: 1 if prices.per_byte is None else 2]
    figures = json.loads(json.dumps(limited_figures(graph, used, plan)))
    checker.check_limited(data, figures)


def damaged(plan: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """A plan with one thing wrong that matters."""
    bad: dict[str, Any] = copy.deepcopy(plan)
    needed = [n for n, action in enumerate(bad["actions"])]
    what = dice.choice(("leave out", "earlier", "offset", "stay", "cost", "peak", "memory"))
    if what == "leave out":
        del bad["actions"][dice.choice(needed)]
    elif what == "earlier":
        at = dice.randrange(1, len(needed))
        bad["actions"].insert(0, bad["actions"].pop(at))
    elif what == "offset":
        stay = dice.choice([s for s in bad["stays"] if "tensor" in s])
        stay["offset"] += 4096
    elif what == "stay":
        stay = dice.choice([s for s in bad["stays"] if s["until"] - s["first"] > 1])
        stay["until"] -= 1
    elif what == "memory":
        bad["memories"][0]["capacity"] = bad["height"] - 1
    else:
        bad[what] += 1
    return bad


def test_the_checker_finds_what_is_wrong_with_a_plan(tmp_path: Path) -> None:
    """Actions, stays, offsets and figures; a plan whose stays no longer match its actions."""
    for seed in range(3):
        graph = chain(5, seed)
        plan = planned(tmp_path, graph, "--memory", "fast=1M,slow=1M:1", "--ram", "80%")
        for turn in range(20):
            with pytest.raises((checker.WrongPlanError, KeyError)):
                checker.graph_verdict(graph, damaged(plan, random.Random(turn)))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--memory", "fast=30"], "at once"),
        (["--memory", "fast=1M", "--ram", "0%"], "nothing runs in 0%"),
        (["--memory", "fast=1M,slow=1M:1,more=1M:2"], "3 memories"),
        (["--ram", "70%"], "--ram in percent requires --graph and --memory"),
        (["--memory", "fast=1K", "--only", "order"], "--only cannot be combined"),
    ],
)
def test_what_cannot_be_planned_is_said(
    words: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One message, and no plan is written."""
    source, target = tmp_path / "graph.json", tmp_path / "plan.json"
    source.write_text(json.dumps(chain(6, 1)), encoding="utf-8")
    with contextlib.suppress(SystemExit):
        assert main(["place", "--graph", str(source), "--json", str(target), *words]) != 0
    assert reason in capsys.readouterr().err
    assert not target.exists()


def test_a_slow_memory_that_is_too_small_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what the copies would need."""
    source = tmp_path / "graph.json"
    source.write_text(json.dumps(chain(60, 60)), encoding="utf-8")
    words = ["--memory", "fast=1M,slow=32:0.1", "--ram", "75%"]
    assert main(["place", "--graph", str(source), *words]) == 1
    assert "bytes of slow memory" in capsys.readouterr().err


def test_fields_of_nodes_are_read_with_care() -> None:
    """`writes`, `cost` and `repeatable`."""
    graph = chain(3, 1)
    wrong = {"writes": ["f3"], "cost": -1, "repeatable": "yes"}
    for key, value in wrong.items():
        bad = copy.deepcopy(graph)
        bad["nodes"][0][key] = value
        with pytest.raises(InputError):
            graphs.parse(bad)
