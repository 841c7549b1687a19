# SPDX-License-Identifier: Apache-2.0
"""`vmcu place --graph`: MODeL's unit graphs, the format, and plans that a checker confirms."""

from __future__ import annotations

import copy
import json
import math
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from builders.dags import long_graph
from builders.task_graphs import PINNED, UNITS, graph_of, random_graph, solved
from test_ordering import best_of_all
from vmcu_lab.placement import Buffer, Gap, Instance, check, checker, files, graphs, place
from vmcu_lab.placement import __file__ as package
from vmcu_lab.placement.portfolio import height_of
from vmcu_lab.placement.skyline import skyline_fits
from vmcu_tools.cli import main


@pytest.mark.parametrize("name", UNITS)
def test_graphs_of_model_have_the_published_peaks(name: str, tmp_path: Path) -> None:
    edges, peak = UNITS[name]
    graph = graph_of(edges)
    plan = solved(tmp_path, graph)
    assert plan["height"] == plan["bound"] == peak and plan["optimal"]
    assert checker.check(graph, plan) == (peak, peak)


def test_the_pathological_graph_with_its_order_pinned(tmp_path: Path) -> None:
    graph = {**graph_of(UNITS["pathological"][0]), "order": PINNED}
    plan = solved(tmp_path, graph)
    assert plan["order"] == PINNED
    assert plan["height"] == plan["bound"] == 10 and plan["optimal"]


def test_the_format_is_the_one_that_is_documented(tmp_path: Path) -> None:
    plan = solved(tmp_path, graph_of(UNITS["diamond"][0]))
    assert plan.keys() >= {"order", "offsets", "height", "bound", "optimal", "seconds"}
    ordered = solved(tmp_path, graph_of(UNITS["diamond"][0]), "--only", "order")
    assert ordered["offsets"] is None and ordered["height"] == 130
    placed = solved(tmp_path, graph_of(UNITS["diamond"][0]), "--only", "placement")
    assert placed["order"] == list("ABCDEFG") and placed["height"] == placed["bound"] == 150


def test_random_graphs_pass_the_checker() -> None:
    for seed in range(150):
        graph = random_graph(seed)
        named = graphs.parse(graph)
        plan = graphs.solve(named, 5.0, 1)
        found = {
            **{"order": list(plan.order), "offsets": plan.offsets},
            **{"peak": plan.peak, "height": plan.height},
        }
        peak, height = checker.check(graph, found)
        assert plan.bound <= peak <= height <= plan.height, seed


@pytest.mark.parametrize("seed", [7, pytest.param(8, marks=pytest.mark.slow)])
def test_a_clock_is_kept_and_no_plan_is_above_the_files_own_order(seed: int) -> None:
    """Orders of many nodes leave no time for offsets, unless they get a share."""
    named = long_graph(seed, 700)
    begun = time.monotonic()
    plan = graphs.solve(named, 6.0)
    # Graphs are read, and results checked, besides; the computer may be busy.
    assert time.monotonic() - begun < 6.0 * 1.1 + 1.5
    own = graphs.instance_of(named, named.tasks.topological()).buffers
    for offsets in skyline_fits(own, math.inf):
        assert plan.height <= height_of(own, offsets)


def first_fit_height(instance: Instance) -> int:
    """The lowest gap for each buffer, in the order in which they come to life."""
    found: list[tuple[int, int, int]] = []
    height = 0
    for one in sorted(instance.buffers, key=lambda buffer: buffer.lower):
        at = 0
        for upper, low, high in sorted(found, key=lambda part: part[1]):
            if upper > one.lower and low - at < one.size:
                at = max(at, high)
            elif upper > one.lower:
                break
        found.append((one.upper, at, at + one.size))
        height = max(height, at + one.size)
    return height


@pytest.mark.parametrize(("seed", "count"), [(11, 300), (6, 500), (10, 500)])
def test_without_time_no_plan_is_above_first_fit_in_the_files_order(seed: int, count: int) -> None:
    named = long_graph(seed, count)
    filed = graphs.instance_of(named, named.tasks.topological())
    assert graphs.solve(named, 0.0).height <= first_fit_height(filed)


@pytest.mark.parametrize("seed", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_offsets_are_searched_where_the_order_is_not_proven(seed: int) -> None:
    """They are about as low as those of the order alone."""
    named = long_graph(seed, 100)
    found = graphs.solve(named, 5.0, 1)
    assert found.bound < found.peak < found.height
    order = [named.nodes.index(name) for name in found.order]
    alone = place(graphs.instance_of(named, order), None, 2.0, 1)
    assert found.height <= 1.03 * alone.height


def test_the_checker_finds_what_is_wrong(tmp_path: Path) -> None:
    graph = graph_of(UNITS["diamond"][0])
    plan = solved(tmp_path, graph)
    swapped = [*plan["order"][1::-1], *plan["order"][2:]]
    for wrong in (
        {"order": swapped},
        {"order": plan["order"][1:]},
        {"height": plan["height"] - 1},
        {"peak": plan["peak"] - 1},
        {"offsets": dict.fromkeys(plan["offsets"], 0)},
        {"offsets": {**plan["offsets"], "e0": -1}},
    ):
        with pytest.raises(checker.WrongPlanError):
            checker.check(graph, {**plan, **wrong})
    (tmp_path / "wrong.json").write_text(json.dumps({**plan, "height": 1}))
    words = [str(tmp_path / "g.json"), str(tmp_path / "wrong.json")]
    assert checker.main(words) == 1 and checker.main([words[0], str(tmp_path / "plan.json")]) == 0


def test_the_checker_proves_the_bound_of_all_orders_again() -> None:
    """Held against a search of all orders without any rule, one byte above which it must fail."""
    told = set()
    for seed in range(150):
        graph = random_graph(seed)
        tasks = graphs.parse(graph).tasks
        least = best_of_all(tasks)
        told.add(checker.proof(graph, least).split()[0])
        run = checker.AllOrders(graph)
        assert run.alone() <= least, seed
        with pytest.raises(checker.WrongPlanError, match="an order below"):
            run.sets(least + 1)
    assert told == {"a", "none"}


def test_the_checker_says_where_it_leaves_a_bound_open(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(UNITS["pathological"][0])
    assert "a node needs" in checker.proof(graph, 9)
    monkeypatch.setattr(checker, "MOST_SETS", 3)
    wide = {
        "tensors": [{"name": f"t{n}", "size": 9 + n} for n in range(8)],
        "nodes": [{"name": f"n{n}", "outputs": [f"t{n}"]} for n in range(8)]
        + [{"name": f"r{n}", "inputs": [f"t{n}", f"t{(n + 3) % 8}"]} for n in range(8)],
    }
    peak = graphs.solve(graphs.parse(wide), only="order").peak
    assert "left open" in checker.proof(wide, peak)


def test_tensors_keep_and_share_addresses(tmp_path: Path) -> None:
    graph = graph_of(UNITS["diamond"][0])
    graph["tensors"][1]["offset"] = 64
    graph["tensors"][2]["shares"] = "e0"
    plan = solved(tmp_path, graph)
    assert plan["offsets"]["e1"] == 64 and plan["offsets"]["e2"] == plan["offsets"]["e0"]
    checker.check(graph, plan)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda g: g["nodes"][1]["inputs"].append("e6"), "wait for each other: "),
        (lambda g: g["nodes"][0]["inputs"].append("x"), "node 'A': inputs: there is no tensor 'x'"),
        (lambda g: g["nodes"][0]["outputs"].append("e1"), "two nodes make tensor 'e1'"),
        (lambda g: g["nodes"].append({"name": "A"}), "node 7 'A' is there twice"),
        (lambda g: g["tensors"][0].pop("size"), "size None of 'e0' is not an integer from 0 on"),
        (lambda g: g["tensors"][0].update(bytes=1), "tensor 'e0' has a field 'bytes'"),
        (lambda g: g["tensors"][0].update(keep="no"), "keep of 'e0' is no truth value"),
        (lambda g: g.update(order=["A"]), "'order' leaves nodes out"),
        (lambda g: g.update(tensors=3), "no list of tensors"),
        (lambda g: g["tensors"][0].update(offset=3, alignment=2), "offset 3 of 'e0' is not a mult"),
    ],
)
def test_what_is_wrong_is_said(
    change: Any, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = copy.deepcopy(graph_of(UNITS["diamond"][0]))
    change(graph)
    (tmp_path / "g.json").write_text(json.dumps(graph))
    assert main(["place", "--graph", str(tmp_path / "g.json")]) == 1
    error = capsys.readouterr().err
    assert words in error and "hint: " in error and "g.json" in error


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"nodes": [], "tensors": []}'.encode("utf-16"), "it is no text in UTF-8"),
        (b'{"tensors": [{"name": "a", "size": ' + b"9" * 5000 + b"}]}", "thousands of digits"),
        (b"[" * 100_000, "nested too deep"),
        (b"[", "not JSON: Expecting value: line 1 column 2"),
    ],
)
def test_what_is_no_graph(
    content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "g.json").write_bytes(content)
    assert main(["place", "--graph", str(tmp_path / "g.json")]) == 1
    assert words in capsys.readouterr().err


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    text = json.dumps(graph_of(UNITS["simple"][0]))
    (tmp_path / "g.json").write_text(text, encoding="utf-8-sig")
    assert main(["place", "--graph", str(tmp_path / "g.json"), "-q"]) == 0


def test_what_does_not_fit_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "g.json").write_text(json.dumps(graph_of(UNITS["diamond"][0])))
    assert main(["place", "--graph", str(tmp_path / "g.json"), "--ram", "129"]) == 1
    assert "does not fit in 129 bytes: the lowest placement needs 130" in capsys.readouterr().err


def test_gaps_leave_room_for_others() -> None:
    """A buffer of 10 that is away while another one is there, but for two bytes."""
    away = Buffer("a", 0, 9, 10, gaps=(Gap(3, 6, 4, 6),))
    small = Buffer("b", 3, 6, 4)
    problem = Instance((away, small))
    assert place(problem).height == 10
    assert place(Instance((Buffer("a", 0, 9, 10), small))).height == 14


def test_given_offsets_are_kept() -> None:
    problem = Instance((Buffer("a", 0, 4, 8, offset=4), Buffer("b", 0, 4, 4), Buffer("c", 2, 9, 5)))
    found = place(problem)
    assert found.offsets["a"] == 4 and found.offsets["b"] == 0 and found.height == 17


def test_rigid_placements_are_as_low_as_any_order_of_dropping() -> None:
    for seed in range(25):
        dice = random.Random(seed)
        buffers = []
        for number in range(5):
            lower = dice.randrange(6)
            upper = lower + dice.randint(3, 6)
            gap = Gap(lower + 1, upper - 1, 0, dice.randint(0, 1))
            size, gaps = dice.randint(1, 6), ((gap,) if dice.random() < 0.6 else ())
            buffers.append(Buffer(str(number), lower, upper, size, 1, gaps))
        found = place(Instance(tuple(buffers)))
        assert found.bound <= lowest(buffers) and found.height == lowest(buffers), seed


def lowest(buffers: list[Buffer]) -> int:
    """Over all offsets, which is slow and cannot be wrong."""

    def bytes_of(buffer: Buffer, offset: int) -> set[tuple[int, int]]:
        return {
            (moment, offset + byte)
            for part in buffer.parts()
            for moment in range(part.lower, part.upper)
            for byte in range(part.low, part.high)
        }

    most = sum(buffer.size for buffer in buffers)
    for height in range(max(buffer.size for buffer in buffers), most + 1):
        todo = [(0, frozenset())]
        while todo:
            number, taken = todo.pop()
            if number == len(buffers):
                return height
            for offset in range(height - buffers[number].size + 1):
                own = bytes_of(buffers[number], offset)
                if not own & taken:
                    todo.append((number + 1, taken | own))
    return most


def test_the_package_works_alone(tmp_path: Path) -> None:
    """Copied to where nothing of the rest is."""
    shutil.copytree(Path(package).parent, tmp_path / "alone")
    asked = (
        "import alone, alone.graphs, alone.files, sys\n"
        "p = alone.Instance(tuple(alone.Buffer(str(n), n % 7, n % 7 + 5, 7 * n + 1) "
        "for n in range(40)))\n"
        "print(alone.place(p, seconds=5).is_optimal)\n"
        "assert not [m for m in sys.modules if m.startswith('vmcu_tools')]\n"
    )
    command = [sys.executable, "-c", asked]
    done = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


def test_csv_with_gaps_and_offsets(tmp_path: Path) -> None:
    text = "id,lower,upper,size,gaps,offset\na,0,9,10,3-6@4:6,\nb,3,6,4,,6\nc,0,3,2,,-1\n"
    (tmp_path / "p.csv").write_text(text)
    out = tmp_path / "out.csv"
    assert main(["place", str(tmp_path / "p.csv"), "--output", str(out)]) == 0
    rows = [line.split(",") for line in out.read_text().splitlines()]
    assert rows[0] == ["id", "lower", "upper", "size", "gaps", "offset"]
    assert rows[1][4] == "3-6@4:6" and rows[2][5] == "6"
    assert check(files.read(out), {row[0]: int(row[-1]) for row in rows[1:]}) == 12


@pytest.mark.parametrize("kind", ["buffers", "memories", "graph"])
def test_no_seconds_are_no_seconds(kind: str, tmp_path: Path) -> None:
    """0 is a time and no missing one: what is found at once is the plan."""
    csv, graph = tmp_path / "p.csv", tmp_path / "g.json"
    rows = [f"b{n},{n % 97},{n % 97 + 40 + n % 31},{1 + n * 37 % 211}" for n in range(600)]
    csv.write_text("\n".join(["id,lower,upper,size", *rows]) + "\n")
    tensors = [{"name": f"t{n}", "size": 1 + n * 37 % 211} for n in range(121)]
    nodes = [
        {"name": f"n{n}", "inputs": [f"t{n}", f"t{n // 2}"], "outputs": [f"t{n + 1}"]}
        for n in range(120)
    ]
    graph.write_text(json.dumps({"tensors": tensors, "nodes": nodes}))
    words = {
        "buffers": [str(csv)],
        "memories": [str(csv), "--memory", "a=1M,b=1M:2"],
        "graph": ["--graph", str(graph), "--solver", "cbc"],
    }[kind]
    start = time.monotonic()
    assert main(["place", *words, "--seconds", "0"]) in (0, 1)
    assert time.monotonic() - start < 20
