# SPDX-License-Identifier: Apache-2.0
"""Placing buffers: against brute force, and from a file."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from vmcu_lab.placement import Buffer, Gap, files
from vmcu_tools.cli import main

Rows = list[tuple[int, int, int]]  # lower, upper, size


def random_rows(seed: int, count: int) -> Rows:
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        lower, length, size = rng.integers(0, 6), rng.integers(1, 5), rng.integers(1, 5)
        rows.append((int(lower), int(lower + length), int(size)))
    return rows


def overlap(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def is_sound(rows: Rows, offsets: list[int]) -> bool:
    pairs = itertools.combinations(zip(rows, offsets, strict=True), 2)
    return all(not overlap(a, b) or x + a[2] <= y or y + b[2] <= x for (a, x), (b, y) in pairs)


def brute_force(rows: Rows) -> int:
    """The smallest height over all orders of dropping buffers onto each other."""
    best = sum(size for _, _, size in rows)
    for order in itertools.permutations(range(len(rows))):
        tops: dict[int, int] = {}
        for number in order:
            below = [tops[n] for n in tops if overlap(rows[n], rows[number])]
            tops[number] = max(below, default=0) + rows[number][2]
        best = min(best, max(tops.values()))
    return best


def write(path: Path, rows: Rows) -> Path:
    lines = [f"b{n},{lower},{upper},{size}" for n, (lower, upper, size) in enumerate(rows)]
    path.write_text("\n".join(["id,lower,upper,size", *lines]) + "\n")
    return path


@pytest.mark.parametrize("seed", range(12))
def test_height_is_that_of_brute_force(seed: int, tmp_path: Path) -> None:
    rows = random_rows(seed, 6)
    problem, outcome = write(tmp_path / "p.csv", rows), tmp_path / "p.json"
    assert main(["place", str(problem), "--seconds", "20", "--json", str(outcome)]) == 0
    found = json.loads(outcome.read_text())
    offsets = [found["offsets"][f"b{n}"] for n in range(len(rows))]
    assert is_sound(rows, offsets)
    assert found["height"] == max(o + r[2] for o, r in zip(offsets, rows, strict=True))
    assert found["height"] == brute_force(rows)
    assert found["optimal"] and found["bound"] <= found["height"]


def test_too_little_capacity_is_said(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    problem = write(tmp_path / "p.csv", [(0, 2, 5), (1, 3, 5)])
    assert main(["place", str(problem), "--seconds", "5", "--ram", "9"]) == 1
    assert "10" in capsys.readouterr().err


@pytest.mark.parametrize("row", [(3, 10**19, 5), (3, 4, 10**19), (-(10**19), 4, 5)])
def test_numbers_above_int64_are_placed(row: tuple[int, int, int], tmp_path: Path) -> None:
    problem, outcome = write(tmp_path / "p.csv", [(0, 4, 5), row]), tmp_path / "p.json"
    assert main(["place", str(problem), "--seconds", "5", "--json", str(outcome)]) == 0
    assert json.loads(outcome.read_text())["height"] == 5 + row[2]


@pytest.mark.parametrize("text", ["", "id,lower\na,0\n", "id,lower,upper,size\na,3,1,4\n"])
def test_bad_files_are_one_message(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "p.csv"
    path.write_text(text)
    assert main(["place", str(path), "--seconds", "5"]) == 1
    message = capsys.readouterr().err
    assert "p.csv" in message and "Traceback" not in message


def test_the_problem_is_written_as_it_was_read(tmp_path: Path) -> None:
    """Moments before 0, and columns that have no bearing on the offsets."""
    path, copy = tmp_path / "problem.csv", tmp_path / "copy.csv"
    path.write_text("id,lower,upper,size,gaps,accesses\na,-3,4,8,-2-1@2:3,70\nb,-3,-1,4,-3--2,\n")
    assert main(["place", str(path), "--output", str(copy), "-q"]) == 0
    first, second = files.read(path), files.read(copy)
    assert first.buffers[0].gaps == (Gap(-2, 1, 2, 3),)
    assert [replace(b, offset=None) for b in second.buffers] == list(first.buffers)


def test_buffers_with_gaps_or_an_offset_are_rigid() -> None:
    plain = Buffer("a", 0, 4, 8)
    assert not plain.is_rigid
    assert replace(plain, offset=0).is_rigid and replace(plain, gaps=(Gap(1, 2),)).is_rigid
