# SPDX-License-Identifier: Apache-2.0
"""Ejection search in a circular pool: what it finds is right, it finds what there is, and nothing
but the pieces decides."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from builders.dags import Dag
from vmcu_tools import paths
from vmcu_tools.machine.mcu import VirtualMcu
from vmcu_tools.planner.places import circular_pool, smallest_pool
from vmcu_tools.planner.places.layout import Layout
from vmcu_tools.planner.places.overlap import Clearance
from vmcu_tools.planner.places.pieces import (
    Live,
    Piece,
    Way,
    pieces_of,
    scratch_of,
    with_scratch_apart,
)
from vmcu_tools.planner.places.sequential import plan_of

TESTS = Path(__file__).parent
DIGITS = paths.root() / "samples" / "digits" / "digits.onnx"
TINY = range(100)


def is_right(piece: Piece, way: Way, at: int, bases: dict[str, int], size: int) -> bool:
    """Whether a piece may be at a base, beside those before it."""
    around = at + piece.size > size
    if at % piece.align or (around and (piece.whole or (size - at) % piece.stride)):
        return False
    return all(
        live.clearance.allows(bases[live.name] - at + turn)
        for live in way.live
        for turn in (-size, 0, size)
    )


def tiny(seed: int) -> tuple[list[Piece], int]:
    """Three or four pieces of every kind, and a pool into which they just fit, or do not."""
    rng = np.random.default_rng(seed)
    pieces: list[Piece] = []
    for number in range(int(rng.integers(3, 5))):
        stride = int(rng.integers(1, 4))
        size = stride * int(rng.integers(1, 4))
        ways = []
        for descending in (False, True)[: int(rng.integers(1, 3))]:
            live = []
            for other in pieces:
                clearance = Clearance.apart(other.size, size)
                if rng.random() < 0.4:
                    # An output may trail its input by some bytes.
                    near = int(rng.integers(0, size + 1))
                    clearance = Clearance(near, -other.size)
                    if descending:
                        clearance = Clearance(size, -int(rng.integers(0, other.size + 1)))
                live.append(Live(other.name, other.size, clearance))
            ways.append(Way(descending, tuple(live)))
        scratch = int(rng.integers(1, 4)) if rng.random() < 0.2 else 0
        align = int(rng.choice([1, 1, 2]))
        whole = bool(rng.random() < 0.5)
        pieces.append(Piece(str(number), size, stride, tuple(ways), whole, scratch, align))
    largest = max(max(piece.size, piece.scratch) for piece in pieces)
    total = sum(piece.size + piece.scratch for piece in pieces)
    return pieces, int(rng.integers(largest, max(min(total, 14), largest + 1)))


def has_placement(items: Sequence[Piece], size: int, bases: dict[str, int]) -> bool:
    """Whether there are bases and directions for all further pieces, by trying all of them."""
    if len(bases) == len(items):
        return True
    item = items[len(bases)]
    return any(
        is_right(item, way, at, bases, size) and has_placement(items, size, bases | {item.name: at})
        for at in range(size)
        for way in item.ways
    )


def test_it_finds_exactly_what_there_is() -> None:
    found = missed = 0
    for seed in TINY:
        pieces, size = tiny(seed)
        items = with_scratch_apart(pieces)
        search = circular_pool.fits(pieces, size, 400)
        if search is None:
            assert not has_placement(items, size, {}), seed
            missed += 1
            continue
        found += 1
        bases = search.bases | {scratch_of(name): at for name, at in search.scratch.items()}
        for number, item in enumerate(items):
            turned = search.descending.get(item.name, False)
            way = next(way for way in item.ways if way.descending == turned)
            assert bases[item.name] < size
            assert is_right(item, way, bases[item.name], bases, size), (seed, number)
    assert found > 20 and missed > 20, (found, missed)


@pytest.mark.parametrize("seed", (1, 7, 12, 15))
def test_it_finds_what_sequential_placement_does_not(seed: int) -> None:
    layout = Layout.singles(Dag(seed, 40).graph())
    free = pieces_of(layout, both_ways=True)
    bound = max(piece.bound() for piece in free)
    walked = smallest_pool.smallest_sequential(free, bound)
    if walked.pool == bound:
        pytest.skip("sequential placement reaches the bound")
    found = circular_pool.smallest(free, bound, walked.pool, 4_000)
    assert found is not None and bound <= found.pool < walked.pool
    VirtualMcu(plan_of("vmcu", layout, found, bound)).prove()


def test_a_search_ends() -> None:
    """After as many insertions as it was given, in several rounds."""
    pieces, _ = tiny(0)
    search = circular_pool.CircularPool(pieces, max(piece.size for piece in pieces))
    inserted = []
    insert = search.insert

    def logged(number: int) -> list[int]:
        inserted.append(number)
        return insert(number)

    search.insert = logged  # type: ignore[method-assign]
    assert search.solve(1_000) is None
    assert len(inserted) == 1_000
    most = circular_pool.ROUND_INSERTIONS + circular_pool.ROUND_PIECE_INSERTIONS * len(search.items)
    assert most < 1_000, "one round only"


BUILD = """
import hashlib, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[2:]:
            raise ImportError(name)

sys.meta_path.insert(0, Finder())
from builders.dags import Dag
from vmcu_tools.compiler import compile_model
from vmcu_tools.emit import emit
from vmcu_tools.plan.pools import Region
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.places import circular_pool
from vmcu_tools.planner.registry import make_plan

searches = []
solve = circular_pool.CircularPool.solve
circular_pool.CircularPool.solve = lambda self, n: searches.append(n) or solve(self, n)
plans = [make_plan(Dag(seed, 16).graph(), prove=False) for seed in (1, 4, 7)]
for text in ("2048 1024", "1400 1800"):
    sizes = map(int, text.split())
    memory = tuple(Region(f"m{n}", size, float(n)) for n, size in enumerate(sizes))
    plans.append(compile_model(sys.argv[1], CompileOptions(memory=memory)))
for plan in plans:
    files = emit(plan, "m").files
    print(plan.pool_bytes, *(hashlib.sha256(text.encode()).hexdigest() for text in files.values()))
assert len(searches) > 5, "the plans need no search"
"""


def built(*blocked: str, seed: str = "0") -> str:
    """Hashes of some tables, made in a process that cannot import some packages."""
    variables = os.environ | {"PYTHONHASHSEED": seed}
    variables["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    command = [sys.executable, "-c", BUILD, str(DIGITS), *blocked]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_tables_do_not_depend_on_what_is_installed() -> None:
    wanted = built()
    assert len(wanted.splitlines()) == 5
    optional = ("ortools", "highspy", "pulp", "onnxruntime", "pandas", "tflite_micro", "torch")
    assert built(*optional, seed="1") == wanted
