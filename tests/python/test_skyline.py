# SPDX-License-Identifier: Apache-2.0
"""Placements in one go along the skyline, for more buffers than can be searched."""

from __future__ import annotations

import math
import random
import time
from types import ModuleType

import pytest
from vmcu_lab.placement import Buffer, Instance, check
from vmcu_lab.placement.best_fit import best_fit
from vmcu_lab.placement.portfolio import height_of
from vmcu_lab.placement.skyline import SKYLINE_WEIGHTS, Skyline, Valleys, skyline_fits

from scripts import script

NEVER = float("inf")


def some(seed: int, count: int, alignments: tuple[int, ...] = (1,)) -> list[Buffer]:
    dice = random.Random(seed)
    found = []
    for number in range(count):
        lower = dice.randrange(4 * count)
        upper = lower + dice.randint(1, 60)
        size, alignment = dice.randint(1, 500), dice.choice(alignments)
        found.append(Buffer(str(number), lower, upper, size, alignment))
    return found


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    return script("generate", "benchmarks/placement/generate.py")


@pytest.mark.parametrize("alignments", [(1,), (1, 4, 16)])
@pytest.mark.parametrize("seed", range(4))
def test_every_weight_gives_a_placement(seed: int, alignments: tuple[int, ...]) -> None:
    buffers = some(seed, 300, alignments)
    found = list(skyline_fits(buffers, NEVER))
    assert len(found) == len(SKYLINE_WEIGHTS)
    for offsets in found:
        height = check(Instance(tuple(buffers)), dict(enumerate_ids(offsets)))
        assert height == height_of(buffers, offsets)


def enumerate_ids(offsets: list[int]) -> list[tuple[str, int]]:
    return [(str(number), offset) for number, offset in enumerate(offsets)]


def test_nothing_hangs_in_the_air() -> None:
    """Every buffer lies at the bottom, or on one that is alive with it."""
    buffers = some(7, 200)
    for offsets in skyline_fits(buffers, NEVER):
        for buffer, offset in zip(buffers, offsets, strict=True):
            tops = {
                other_offset + other.size
                for other, other_offset in zip(buffers, offsets, strict=True)
                if other.overlaps(buffer)
            }
            assert offset == 0 or offset in tops


def test_thousands_are_lower_than_best_fit(generate: ModuleType) -> None:
    family = generate.FAMILIES["pinwheel"]
    rows = generate.generate(family, 2000, 0)
    buffers = [Buffer(str(n), *row) for n, row in enumerate(rows)]
    best = min(height_of(buffers, offsets) for offsets in skyline_fits(buffers, NEVER))
    assert generate.CAPACITY <= best <= 1.35 * generate.CAPACITY
    assert best < height_of(buffers, best_fit(buffers))


def test_time_that_is_over_ends_it() -> None:
    buffers = some(1, 3000)
    assert Valleys(buffers).fill(SKYLINE_WEIGHTS[0], time.monotonic() - 1) is None
    assert list(skyline_fits(buffers, time.monotonic() - 1)) == []


def test_numbers_too_large_for_the_arrays_are_left_to_others() -> None:
    assert list(skyline_fits([Buffer("a", 0, 1 << 63, 1)], NEVER)) == []
    assert list(skyline_fits([Buffer("a", 0, 1, 1 << 63)], NEVER)) == []


def test_stretches_that_are_as_high_become_one() -> None:
    skyline = Skyline(0, 10)
    assert skyline.lowest() == (0, 0) and skyline.neighbours(0) == (10, math.inf, math.inf)
    skyline.replace(0, [(0, 0), (4, 5), (7, 0)])
    assert skyline.neighbours(4) == (7, 0, 0) and skyline.lowest() == (0, 0)
    skyline.replace(0, [(0, 5)])
    assert skyline.lowest() == (0, 7) and skyline.neighbours(7) == (10, 5, math.inf)
    skyline.replace(7, [(7, 5)])
    assert skyline.lowest() == (5, 0) and skyline.neighbours(0) == (10, math.inf, math.inf)
