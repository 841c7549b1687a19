# SPDX-License-Identifier: Apache-2.0
"""That the search finds the lowest placement, proves it, and never claims one that is none."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seconds import within
from vmcu_lab.placement import (
    Buffer,
    Instance,
    PlacementError,
    PlacementParams,
    check,
    files,
    place,
)
from vmcu_lab.placement.best_fit import best_fit
from vmcu_lab.placement.bounds import lower_bound
from vmcu_lab.placement.geometry import Geometry
from vmcu_lab.placement.portfolio import components_of, luby
from vmcu_lab.placement.search import LimitError, Search
from vmcu_lab.placement.valleys import VALLEYS

from scripts import script

EXAMPLE = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"
NODES = 10**6


@st.composite
def problems(draw: st.DrawFn, most: int = 6) -> Instance:
    alignments = draw(st.sampled_from([(1,), (4,), (1, 2, 4)]))
    buffers = []
    for number in range(draw(st.integers(1, most))):
        lower = draw(st.integers(0, 5))
        upper = draw(st.integers(lower + 1, 6))
        size, alignment = draw(st.integers(1, 7)), draw(st.sampled_from(alignments))
        buffers.append(Buffer(f"b{number}", lower, upper, size, alignment))
    return Instance(tuple(buffers))


def least_height(buffers: tuple[Buffer, ...]) -> int:
    """Some order of dropping buffers on top of each other gives the lowest placement."""
    best = sum(b.size + b.alignment for b in buffers)
    for order in itertools.permutations(buffers):
        tops: list[tuple[Buffer, int]] = []
        for b in order:
            floor = max((top for other, top in tops if other.overlaps(b)), default=0)
            tops.append((b, -(-floor // b.alignment) * b.alignment + b.size))
        best = min(best, max(top for _, top in tops))
    return best


@settings(max_examples=150, deadline=None)
@given(problems())
def test_small_problems_are_solved_and_proven(problem: Instance) -> None:
    placement = place(problem, seconds=20, workers=1)
    assert placement.height == check(problem, placement.offsets) == least_height(problem.buffers)
    assert placement.is_optimal
    assert lower_bound(problem.buffers) <= placement.height


@settings(max_examples=40, deadline=None)
@given(problems(), st.integers(0, 99))
def test_every_valley_rule_is_exhaustive(problem: Instance, seed: int) -> None:
    """None gives up where there is a placement, none finds one where there is not."""
    for part in components_of(problem.buffers):
        geometry, lowest = Geometry(part), least_height(tuple(part))
        order = random.Random(seed).sample(range(len(part)), len(part))
        for valley in VALLEYS:
            offsets = Search(geometry, lowest, order, valley).run(NODES)
            assert offsets, valley
            named = {b.id: o for b, o in zip(part, offsets, strict=True)}
            assert check(Instance(tuple(part)), named) == lowest
            assert Search(geometry, lowest - 1, order, valley).run(NODES) is None, valley


def test_a_search_stops_at_its_limit() -> None:
    geometry = Geometry([Buffer(str(n), 0, 1, 1 + n) for n in range(9)])
    with pytest.raises(LimitError):
        Search(geometry, 45, range(9), "lowest").run(3)


@pytest.mark.parametrize("valley", VALLEYS)
def test_a_search_may_be_deeper_than_the_stack(valley: str) -> None:
    count = 1500
    dice = random.Random(5)
    starts = [dice.randrange(20) for _ in range(count)]
    buffers = [
        Buffer(str(n), t, t + dice.randrange(1, 9), dice.randrange(1, 5000))
        for n, t in enumerate(starts)
    ]
    # Enough room that the search seldom has to go back: one node or more for each buffer.
    height = 2 * lower_bound(buffers)
    before, frames = sys.getrecursionlimit(), len(inspect.stack(0))
    sys.setrecursionlimit(frames + 60)
    try:
        search = Search(Geometry(buffers), height, range(count), valley)
        offsets = search.run(NODES)
    finally:
        sys.setrecursionlimit(before)
    assert offsets and search.nodes >= count
    named = {b.id: o for b, o in zip(buffers, offsets, strict=True)}
    assert check(Instance(tuple(buffers)), named) <= height


def test_check_catches_wrong_offsets() -> None:
    problem = files.parse(EXAMPLE, Path("example.csv"))
    offsets = place(problem).offsets
    for wrong in (
        {name: offset for name, offset in offsets.items() if name != "b1"},
        offsets | {"b6": 0},
        offsets | {"b1": -1},
        *(offsets | {"b5": offset} for offset in range(9) if offset != offsets["b5"]),
    ):
        with pytest.raises(PlacementError):
            check(problem, wrong)
    with pytest.raises(PlacementError):
        check(Instance((Buffer("a", 0, 1, 4, 8),)), {"a": 4})


def test_limits_grow_as_luby_says() -> None:
    assert [luby(n) for n in range(1, 16)] == [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]


def generator() -> ModuleType:
    return script("generate", "benchmarks/placement/generate.py")


def generated(family: str, count: int, seed: int) -> Instance:
    module = generator()
    triples = module.generate(module.FAMILIES[family], count, seed)
    return Instance(tuple(Buffer(str(n), *triple) for n, triple in enumerate(triples)))


@pytest.mark.parametrize("family", ["guillotine", "long", "short", "loose"])
def test_known_optimum_is_found(family: str) -> None:
    placement = place(generated(family, 200, seed=7), seconds=30)
    assert placement.is_optimal
    assert placement.height == generator().CAPACITY


OFF = (
    {"skyline": False},
    {"blocks": False},
    {"block_pairs": False},
    {"valleys": ()},
    {"ejection": False},
)


@pytest.mark.parametrize("off", OFF, ids=str)
@pytest.mark.parametrize("count", [60, 600])
def test_each_technique_can_be_switched_off(off: dict[str, Any], count: int) -> None:
    problem = generated("loose", count, seed=1)
    placement = place(problem, seconds=0.5, workers=1, params=PlacementParams(**off))
    assert check(problem, placement.offsets) == placement.height


def test_hard_problem_ends_in_time_near_the_bound() -> None:
    placement = place(generated("coarse", 250, seed=1), seconds=5)
    assert placement.seconds < 8
    assert placement.gap < 0.25
    assert placement.bound == generator().CAPACITY


def test_parts_are_placed_on_their_own() -> None:
    """Two hard problems one after the other are no harder than both."""
    first = generated("pinwheel", 150, seed=3)
    second = [
        Buffer(f"later {b.id}", b.lower + 5000, b.upper + 5000, b.size) for b in first.buffers
    ]
    both = Instance((*first.buffers, *second))
    assert len(components_of(both.buffers)) == 2 * len(components_of(first.buffers))
    assert place(both, seconds=30).is_optimal


def test_result_depends_on_nothing_but_the_problem(tmp_path: Path) -> None:
    path = tmp_path / "problem.csv"
    problem = generated("pinwheel", 150, seed=2)
    lines = [f"{b.id},{b.lower},{b.upper},{b.size}" for b in problem.buffers]
    path.write_text("\n".join(["id,lower,upper,size", *lines]))
    script = (
        "import sys; from pathlib import Path\n"
        "from vmcu_lab.placement import files, place\n"
        "p = place(files.read(Path(sys.argv[1])), workers=int(sys.argv[2]))\n"
        "assert p.is_optimal; print(sorted(p.offsets.items()))\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", script, str(path), workers],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed, workers in (("0", "1"), ("1", "2"), ("2", "3"))
    }
    assert len(printed) == 1


def test_no_buffers_take_no_bytes() -> None:
    assert place(Instance(())).height == 0
    nothing = place(Instance((Buffer("a", 0, 1, 0), Buffer("b", 0, 1, 3))))
    assert (nothing.height, nothing.is_optimal) == (3, True)


def many(count: int, lifetime: float) -> Instance:
    dice = random.Random(1)
    starts = [dice.randrange(count) for _ in range(count)]
    ends = [start + 1 + int(dice.expovariate(1 / lifetime)) for start in starts]
    lives = enumerate(zip(starts, ends, strict=True))
    return Instance(tuple(Buffer(f"b{n}", *life, dice.randrange(1, 5000)) for n, life in lives))


@pytest.mark.parametrize(
    ("lifetime", "seconds", "most"),
    [(50, 3.0, 1.5), (20_000, 2.0, 1.5), pytest.param(20_000, 7.0, 1.1, marks=pytest.mark.slow)],
)
def test_the_clock_is_kept_however_many_buffers(
    monkeypatch: pytest.MonkeyPatch, lifetime: float, seconds: float, most: float
) -> None:
    """In seconds of this process, so that other load does not count; what a search does before it
    looks at the clock, in those that one placement takes on this computer."""
    monkeypatch.setattr(time, "monotonic", time.process_time)
    problem = many(60_000, lifetime)
    start = time.process_time()
    best_fit(problem.buffers)
    once = time.process_time() - start
    with within(1.1 * seconds + 5 * once):
        placement = place(problem, seconds=seconds, workers=1)
    assert check(problem, placement.offsets) == placement.height < most * placement.bound


@settings(max_examples=100, deadline=None)
@given(problems(most=12))
def test_the_quick_placement_is_one(problem: Instance) -> None:
    offsets = best_fit(problem.buffers)
    named = {b.id: o for b, o in zip(problem.buffers, offsets, strict=True)}
    assert check(problem, named) >= lower_bound(problem.buffers)


@settings(max_examples=100, deadline=None)
@given(problems(most=12), st.data())
def test_check_finds_every_shared_byte(problem: Instance, data: st.DataObject) -> None:
    offsets = {b.id: b.alignment * data.draw(st.integers(0, 6)) for b in problem.buffers}
    pairs = itertools.combinations(problem.buffers, 2)
    clash = any(
        a.overlaps(b)
        and offsets[a.id] < offsets[b.id] + b.size
        and offsets[b.id] < offsets[a.id] + a.size
        for a, b in pairs
    )
    if clash:
        with pytest.raises(PlacementError, match="share bytes"):
            check(problem, offsets)
    else:
        assert check(problem, offsets) == max(offsets[b.id] + b.size for b in problem.buffers)


def test_sizes_beyond_all_machine_words() -> None:
    big = 10**30
    problem = Instance((Buffer("a", 0, 2, big), Buffer("b", 1, 3, big, 7), Buffer("c", 2, 4, 5)))
    placement = place(problem, seconds=1, workers=1)
    assert placement.height == check(problem, placement.offsets) < 2 * big + 7


def test_an_interrupted_search_keeps_its_best(tmp_path: Path) -> None:
    problem = generated("coarse", 250, seed=1)
    path, found, figures = (tmp_path / name for name in ("p.csv", "o.csv", "o.json"))
    lines = [f"{b.id},{b.lower},{b.upper},{b.size}" for b in problem.buffers]
    path.write_text("\n".join(["id,lower,upper,size", *lines]))
    # It says so on a terminal only: what stands for it tells when the search is under way.
    script = (
        "import sys\n"
        "from vmcu_lab.placement import workers\n"
        "solve = workers.Workers.solve\n"
        "def told(*args):\n"
        "    print('searching', flush=True)\n"
        "    return solve(*args)\n"
        "workers.Workers.solve = told\n"
        "from vmcu_tools.cli import main\n"
        "sys.exit(main(['place', *sys.argv[1:]]))\n"
    )
    words = [str(path), "--seconds", "300", "--output", str(found), "--json", str(figures)]
    with subprocess.Popen(
        [sys.executable, "-c", script, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background jobs, of which this may be one, ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        try:
            assert process.stdout and process.stdout.readline() == "searching\n"
            process.send_signal(signal.SIGINT)
            said, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130 and errors == ""
    assert "interrupted: this is the lowest placement found" in said
    written = json.loads(figures.read_text())
    assert written["interrupted"] and written["seconds"] < 300
    assert check(problem, written["offsets"]) == written["height"]
    rows = [line.split(",") for line in found.read_text().splitlines()[1:]]
    assert {row[0]: int(row[-1]) for row in rows} == written["offsets"]
