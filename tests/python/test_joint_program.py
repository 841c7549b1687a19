# SPDX-License-Identifier: Apache-2.0
"""MODeL's integer program of order and offsets: its own unit graphs, and tiny graphs by hand."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders.task_graphs import PINNED, UNITS, graph_of, random_graph, solved
from vmcu_lab.placement import Buffer, Instance, check, checker, dataflow, graphs, program
from vmcu_lab.placement.complaints import InputError
from vmcu_tools.cli import main
from vmcu_tools.ordering.tasks import lifetimes, usage


def callable_solver(name: str) -> str:
    try:
        program.require(name, graphs.parse({"tensors": [], "nodes": []}))
    except InputError as error:
        pytest.skip(str(error))
    return name


@pytest.fixture(params=program.SOLVERS)
def solver(request: pytest.FixtureRequest) -> str:
    return callable_solver(request.param)


def alone(data: dict[str, Any], solver: str, most: int) -> tuple[program.Proof, int]:
    """What the program finds without help, and the height of its offsets, checked."""
    graph = graphs.parse(data)
    written = program.Program(dataflow.dataflow_of(graph), most)
    found = written.solve(solver, 60)
    assert found.order is not None
    lives = lifetimes(graph.tasks, found.order)
    at = {node: step for step, node in enumerate(found.order)}
    buffers, offsets = [], {}
    for edge in written.edges:
        life = lives[edge.number] if edge.number >= 0 else (at[edge.source], at[edge.source] + 1)
        buffers.append(Buffer(str(edge.number), *life, edge.size, edge.alignment))
        offsets[str(edge.number)] = found.offsets[edge.number]
    usage(graph.tasks, found.order)
    return found, check(Instance(tuple(buffers)), offsets)


@pytest.mark.parametrize("name", UNITS)
def test_unit_graphs_of_model_come_out_as_published(name: str, solver: str) -> None:
    edges, peak = UNITS[name]
    data = graph_of(edges)
    found, height = alone(data, solver, sum(t["size"] for t in data["tensors"]))
    assert height == found.bound == peak


def test_the_pathological_graph_needs_a_byte_more_in_its_own_order(solver: str) -> None:
    data = {**graph_of(UNITS["pathological"][0]), "order": PINNED}
    found, height = alone(data, solver, 99)
    assert [data["nodes"][n]["name"] for n in found.order or ()] == PINNED
    assert height == found.bound == 10


def least(data: dict[str, Any]) -> int:
    """The lowest height of all orders, each by dropping buffers in all orders."""
    graph = graphs.parse(data)
    best = 1 << 60
    for order in itertools.permutations(range(len(graph.nodes))):
        try:
            usage(graph.tasks, order)
        except ValueError:
            continue
        buffers = [b for b in graphs.instance_of(graph, order).buffers if b.size]
        for some in itertools.permutations(buffers):
            tops: list[tuple[Buffer, int]] = []
            for b in some:
                floor = max((top for other, top in tops if other.overlaps(b)), default=0)
                tops.append((b, -(-floor // b.alignment) * b.alignment + b.size))
                if tops[-1][1] >= best:
                    break
            else:
                best = min(best, max((top for _, top in tops), default=0))
    return best


def test_tiny_graphs_have_the_least_height_of_all_orders_and_offsets() -> None:
    solver, seen = callable_solver("cbc"), 0
    for seed in range(120):
        data = random_graph(seed)
        if not 2 <= len(data["nodes"]) <= 4 or len(data["tensors"]) > 6:
            continue
        best, graph = least(data), graphs.parse(data)
        if not best:
            continue
        found = program.Program(dataflow.dataflow_of(graph), 2 * best)
        proof = found.solve(solver, 60)
        assert proof.bound == best, seed
        seen += 1
    assert seen > 15


def test_nodes_without_tensors_are_ordered_too(solver: str) -> None:
    data = {
        "tensors": [{"name": "x", "size": 3}, {"name": "y", "size": 4}],
        "nodes": [
            {"name": "last", "inputs": ["y"], "after": ["idle"]},
            {"name": "idle", "inputs": ["x"]},
            {"name": "make", "outputs": ["y"]},
        ],
    }
    found, height = alone(data, solver, 7)
    # x is there until idle has run, y from make on.
    assert found.order == (1, 2, 0) and height == found.bound == 4


def test_the_command_says_what_is_proven(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], solver: str
) -> None:
    graph = graph_of(UNITS["diamond"][0])
    plan = solved(tmp_path, graph, "--solver", solver)
    assert f"{solver}: none takes less than 130 bytes" in capsys.readouterr().out
    assert plan["height"] == plan["bound"] == 130
    assert checker.check(graph, plan) == (130, 130)


def test_solvers_leave_standard_output_to_json(tmp_path: Path, solver: str) -> None:
    """In a process of its own: HiGHS says who it is in C, once."""
    path = tmp_path / "g.json"
    path.write_text(json.dumps(graph_of(UNITS["diamond"][0])))
    command = [sys.executable, "-m", "vmcu_tools", "place", "--graph", str(path)]
    done = subprocess.run(
        [*command, "--solver", solver, "--json", "-"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["height"] == 130
    assert f"{solver}: none takes less" in done.stderr


def test_a_lower_plan_of_the_program_is_taken_over(solver: str) -> None:
    data = random_graph(48)
    graph = graphs.parse(data)
    found = graphs.solve(graph, 5.0, 1)
    before = replace(found, height=found.height + 9)
    after = graphs.prove(graph, before, solver, 30.0)
    assert before.height > after.height >= after.bound >= before.bound
    found = {"order": list(after.order), "offsets": after.offsets}
    checker.check(data, {**found, "peak": after.peak, "height": after.height})


def test_what_the_program_is_not_for_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    callable_solver("cbc")
    path = tmp_path / "g.json"
    path.write_text(json.dumps(graph_of(UNITS["diamond"][0])))
    assert main(["place", "--graph", str(path), "--only", "order", "--solver", "cbc"]) == 1
    assert "--solver requires --graph" in capsys.readouterr().err
    monkeypatch.setattr(program, "MOST_CONDITIONS", 3)
    graph = graphs.read(path)
    with pytest.raises(InputError, match="leave out --solver"):
        program.Program(dataflow.dataflow_of(graph), 1000)


@pytest.mark.parametrize("solver", ["highs", "cbc"])
def test_a_solver_that_finds_nothing_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], solver: str
) -> None:
    """The plan of the search is printed all the same; the clock is kept, whatever CBC does."""
    callable_solver(solver)
    rng = random.Random(3)
    nodes = [
        {"name": f"n{n}", "outputs": [f"t{n}"], "inputs": [f"t{i}" for i in {n // 2, n // 3} - {n}]}
        for n in range(90)
    ]
    graph = {
        "tensors": [{"name": f"t{n}", "size": rng.randint(1, 400)} for n in range(90)],
        "nodes": nodes,
    }
    path, out = tmp_path / "g.json", tmp_path / "plan.json"
    path.write_text(json.dumps(graph))
    begun = time.monotonic()
    words = ["--seconds", "2", "--solver", solver, "--json", str(out)]
    assert main(["place", "--graph", str(path), *words]) == 1
    assert time.monotonic() - begun < 2 * 2 * 1.1 + 2
    assert f"{solver}: found nothing in 2 seconds" in capsys.readouterr().err
    assert json.loads(out.read_text())["height"] > 0


def test_tensors_that_share_have_one_root() -> None:
    """All ways of five tensors to share: the end of each chain, of a circle there its first."""
    for shares in itertools.product(range(5), repeat=5):
        tensors = [graphs.NamedTensor(str(n), 1, 1, None, other) for n, other in enumerate(shares)]
        for number, root in enumerate(graphs.roots_of(tensors)):
            # After five steps every chain is in its circle, which five more go around.
            steps = [number]
            for _ in range(10):
                steps.append(shares[steps[-1]])
            assert root == min(steps[5:])
