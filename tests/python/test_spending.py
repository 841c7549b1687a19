# SPDX-License-Identifier: Apache-2.0
"""The fewest bytes that bands can reach, found by halves, and fewer bytes step by step."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from vmcu_tools.planner.options import Options
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.stages.fusion import EXACT, ROOM, fewest_bytes, tighter
from vmcu_tools.planner.stages.spending import Bands

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "paper"))
from bottlenecks import Module

MOST_ASKED = 40


@dataclass
class Threshold:
    """A search that finds bands from `least` bytes on; it refuses to be asked for ever."""

    least: int
    asked: list[int] = field(default_factory=list)

    def within(self, limit: int) -> Bands | None:
        assert len(self.asked) < MOST_ASKED
        self.asked.append(limit)
        return Bands(limit, ()) if limit >= self.least else None


@pytest.mark.parametrize("size", [1, 2, 3, 19, 49, 50, 51, 1000, 100_003])
@pytest.mark.parametrize("part", [0.01, 0.4, 0.9, 1.0, 2.0])
def test_it_ends_near_the_least(size: int, part: float) -> None:
    search = Threshold(max(int(size * part), 1))
    limit, spent = fewest_bytes(search, size)  # type: ignore[arg-type]
    assert (spent is None) == all(asked < search.least for asked in search.asked)
    if spent is None:
        assert limit == size
        assert search.least > size - max(EXACT * size, 1) - 1
    else:
        assert spent.macs == limit
        assert limit - search.least <= max(EXACT * limit, 1)


@pytest.mark.parametrize("least", [1, 700, 950, 989, 999])
def test_bands_are_looked_for_in_ever_fewer_bytes(least: int) -> None:
    """Down to near the least, farther each time there are some."""
    search = Threshold(least)
    limit, step = 1000, ROOM
    limits: list[int] = []
    while len(limits) < MOST_ASKED:
        limit, step, spent = tighter(search, limit, step)  # type: ignore[arg-type]
        if spent is None:
            break
        assert spent.macs == limit >= least
        limits.append(limit)
    assert sorted(limits, reverse=True) == limits
    # As many whole bytes less as the smallest step has are one too many, or there was none left.
    assert int(limit * (1 - ROOM / 2)) <= least + 1 or limit < 1 / ROOM
    if least == 700:
        assert limits[:3] == [985, 962, 929]


def test_more_extra_macs_never_take_more_bytes() -> None:
    """Module S3 of the vMCU paper, whose smallest bound with 20 % leaves a gap."""
    graph = Module("S3", "vww", 10, 24, 144, 16, 3, (1, 1, 1), False).graph()
    pools = []
    for percent in (0, 10, 20, 50):
        options = Options(tile_cost=9.0, extra_macs=percent / 100)
        pools.append(make_plan("vmcu", graph, options).pool_bytes)
    assert pools == sorted(pools, reverse=True)
