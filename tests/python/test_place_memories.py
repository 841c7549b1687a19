# SPDX-License-Identifier: Apache-2.0
"""Buffers in several memories: against all distributions there are, and a checker of their own."""

from __future__ import annotations

import csv
import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_placement import brute_force
from vmcu_lab.placement import Buffer, Instance
from vmcu_lab.placement.checker import WrongPlanError, rows_of
from vmcu_lab.placement.checker import check_memories as check
from vmcu_lab.placement.memories import MemoryBank, bound_of, place_in
from vmcu_tools.cli import main

CHECKER = Path(sys.modules[check.__module__].__file__ or "")


def drawn(seed: int) -> tuple[Instance, tuple[MemoryBank, ...]]:
    dice = np.random.default_rng(seed)
    buffers = []
    for number in range(int(dice.integers(2, 7))):
        lower, length, size, accesses = (int(dice.integers(0, most)) for most in (7, 5, 6, 40))
        buffers.append(Buffer(f"b{number}", lower, lower + length + 1, size, accesses=accesses))
    count = int(dice.integers(2, 4))
    costs = sorted(float(cost) for cost in dice.integers(0, 9, count))
    memories = tuple(MemoryBank(f"m{n}", int(dice.integers(1, 9)), c) for n, c in enumerate(costs))
    return Instance(tuple(buffers)), memories


def cheapest_of_all(problem: Instance, memories: tuple[MemoryBank, ...]) -> float | None:
    best = None
    for choice in itertools.product(range(len(memories)), repeat=len(problem.buffers)):
        pairs = list(zip(problem.buffers, choice, strict=True))
        cost = sum(buffer.accesses * memories[there].cost for buffer, there in pairs)
        if best is not None and cost >= best:
            continue
        rows = [
            [(b.lower, b.upper, b.size) for b, there in pairs if there == number]
            for number in range(len(memories))
        ]
        sizes = zip(rows, memories, strict=True)
        if all(not own or brute_force(own) <= memory.capacity for own, memory in sizes):
            best = cost
    return best


def test_bound_and_cost_are_either_side_of_the_best() -> None:
    there = hit = 0
    for seed in range(300):
        problem, memories = drawn(seed)
        best = cheapest_of_all(problem, memories)
        found = place_in(problem, memories, 1.0, 1)
        bound, _ = bound_of(problem.buffers, memories)
        if best is None:
            assert found is None
            continue
        there += 1
        assert bound <= best * (1 + 1e-9)
        assert found is not None
        assert found.bound == bound
        assert found.cost >= best * (1 - 1e-9)
        hit += found.cost <= best * (1 + 1e-9)
    assert there > 90
    assert hit >= 0.98 * there


def write(problem: Instance, path: Path) -> Path:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "lower", "upper", "size", "accesses"])
        rows.writerows([b.id, b.lower, b.upper, b.size, b.accesses] for b in problem.buffers)
    return path


def larger(seed: int) -> Instance:
    dice = np.random.default_rng(seed)
    buffers = []
    for number in range(60):
        lower, length = int(dice.integers(0, 100)), int(dice.integers(1, 20))
        size, accesses = int(dice.integers(1, 3000)), int(dice.integers(0, 90_000))
        buffers.append(Buffer(f"b{number}", lower, lower + length, size, accesses=accesses))
    return Instance(tuple(buffers))


@pytest.fixture
def planned(tmp_path: Path) -> tuple[Path, Path]:
    problem, plan = write(larger(1), tmp_path / "p.csv"), tmp_path / "p.json"
    words = ["place", str(problem), "--memory", "fast=4K,mid=8K:2,slow=1M:10", "--json", str(plan)]
    assert main(words) == 0
    return problem, plan


def test_the_checker_confirms_a_plan(planned: tuple[Path, Path]) -> None:
    done = subprocess.run(
        [sys.executable, str(CHECKER), *map(str, planned)], env={}, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout.startswith("right: costs "), done.stdout


def test_the_checker_finds_what_is_wrong(planned: tuple[Path, Path]) -> None:
    rows, plan = rows_of(planned[0]), json.loads(planned[1].read_text())
    check(rows, plan)
    name = next(iter(plan["buffers"]))
    one = plan["buffers"][name]
    other = {**one, "memory": (one["memory"] + 1) % 3}
    less = {**plan["memories"][0], "capacity": 16}
    alive = max(row["upper"] for row in rows) - 1
    for reason, change in {
        "cost is": {"cost": plan["cost"] - 1},
        "prove": {"bound": plan["bound"] + 1},
        "in common": {"moments": [*plan["moments"], plan["moments"][0]]},
        "'optimal'": {"optimal": not plan["optimal"]},
        "other buffers": {"buffers": {}},
        "beyond its memory": {"memories": [less, *plan["memories"][1:]]},
        "cost is|share bytes|beyond": {"buffers": {**plan["buffers"], name: other}},
        "prove ": {"moments": [alive]},
    }.items():
        with pytest.raises(WrongPlanError, match=reason):
            check(rows, {**plan, **change})


def test_two_buffers_in_one_place_are_found(planned: tuple[Path, Path]) -> None:
    rows, plan = rows_of(planned[0]), json.loads(planned[1].read_text())
    places = plan["buffers"]
    one, two = next(
        (a["id"], b["id"])
        for a, b in itertools.combinations(rows, 2)
        if a["lower"] < b["upper"]
        and b["lower"] < a["upper"]
        and a["size"] == max(a["size"], b["size"])
        and places[a["id"]]["memory"] == places[b["id"]]["memory"]
    )
    with pytest.raises(WrongPlanError, match="share bytes"):
        check(rows, {**plan, "buffers": {**places, two: places[one]}})


def test_the_same_outcome_each_time() -> None:
    memories = (MemoryBank("fast", 4096, 0.0), MemoryBank("slow", 1 << 20, 3.0))
    first, second = (place_in(larger(2), memories, 20.0) for _ in range(2))
    assert first is not None and second is not None
    assert (first.memory, first.offsets, first.cost) == (second.memory, second.offsets, second.cost)


@pytest.mark.parametrize("words", [["--ram", "4K"], ["--output", "x.csv"]])
def test_what_does_not_go_with_memories(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = write(larger(1), tmp_path / "p.csv")
    assert main(["place", str(problem), "--memory", "a=1M,b=1M", *words]) == 1
    assert f"{words[0]} cannot be combined with --memory" in capsys.readouterr().err


def test_what_does_not_fit_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = write(larger(1), tmp_path / "p.csv")
    assert main(["place", str(problem), "--memory", "a=1K,b=1K"]) == 1
    assert "no placement was found in a (1,024 bytes), b (1,024 bytes)" in capsys.readouterr().err
