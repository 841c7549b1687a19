# SPDX-License-Identifier: Apache-2.0
"""The fewest bytes that bands can reach, found by halves, and fewer bytes step by step."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from vmcu_tools.planner.options import CompileOptions
from vmcu_tools.planner.params import ALL_TILES, SearchParams
from vmcu_tools.planner.registry import make_plan
from vmcu_tools.planner.stages import extra_macs
from vmcu_tools.planner.stages.band_search import Bands
from vmcu_tools.planner.stages.extra_macs import BAND_PRECISION, BAND_STEP, fewest_bytes, tighter
from vmcu_tools.planner.stages.variants import Variant

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "paper"))
from bottlenecks import Module

MOST_ASKED = 40
# The smallest pool, whatever tiles cost.
ANY_TILES = SearchParams(trade_off=False, tiles=ALL_TILES)


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
        assert search.least > size - max(BAND_PRECISION * size, 1) - 1
    else:
        assert spent.macs == limit
        assert limit - search.least <= max(BAND_PRECISION * limit, 1)


@pytest.mark.parametrize("least", [1, 700, 950, 989, 999])
def test_bands_are_looked_for_in_ever_fewer_bytes(least: int) -> None:
    """Down to near the least, farther each time there are some."""
    search = Threshold(least)
    limit, step = 1000, BAND_STEP
    limits: list[int] = []
    while len(limits) < MOST_ASKED:
        limit, step, spent = tighter(search, limit, step)  # type: ignore[arg-type]
        if spent is None:
            break
        assert spent.macs == limit >= least
        limits.append(limit)
    assert sorted(limits, reverse=True) == limits
    # As many whole bytes less as the smallest step has are one too many, or there was none left.
    assert int(limit * (1 - BAND_STEP / 2)) <= least + 1 or limit < 1 / BAND_STEP
    if least == 700:
        assert limits[:3] == [985, 962, 929]


@dataclass
class Searched(Threshold):
    """Such a search in place of the one of a graph."""

    most: int = 1

    def within(self, limit: int) -> Bands | None:
        found = super().within(limit)
        return found and replace(found, bandings=("a band",))  # type: ignore[arg-type]


@pytest.mark.parametrize("ram", [None, 500, 800, 950])
@pytest.mark.parametrize("room", [0, 1, 200])
def test_bands_are_for_the_limit_or_for_the_fewest_bytes(
    monkeypatch: pytest.MonkeyPatch, ram: int | None, room: int
) -> None:
    """Bands need 700 of 1000 bytes, and `room` more for what joins them."""
    asked: list[int] = []

    def with_bands(graph: object, spent: Bands, limit: int, options: CompileOptions) -> int | None:
        asked.append(limit)
        return spent.macs + room if spent.macs + room <= (ram or 1000) else None

    monkeypatch.setattr(
        extra_macs, "BandSearch", lambda partitioner, most: Searched(700, most=most)
    )
    monkeypatch.setattr(extra_macs, "with_bands", with_bands)
    monkeypatch.setattr(extra_macs.bands, "macs", lambda graph: 100)
    base: Any = Variant(None, 1000, 0)  # type: ignore[arg-type]
    assert not list(extra_macs.many_bands(base, base, CompileOptions(ram=ram), 0.0)) and not asked
    found = list(extra_macs.many_bands(base, base, CompileOptions(ram=ram), 0.5))
    # The limit itself where bands are within it, else as few bytes as there are.
    assert asked[0] == ram if ram in (800, 950) else 700 <= asked[0] <= 710
    assert sorted(asked, reverse=True) == asked and min(asked) >= 700
    assert found == [limit + room for limit in asked if limit + room <= (ram or 1000)]
    # Without a limit the first will do.
    if ram is None:
        assert len(asked) == len(found) == 1
    elif ram > 700:
        assert len(asked) > 1


@pytest.mark.slow
def test_more_extra_macs_never_take_more_bytes() -> None:
    """Module S3 of the vMCU paper, whose smallest bound with 20 % leaves a gap."""
    graph = Module("S3", "vww", 10, 24, 144, 16, 3, (1, 1, 1), False).graph()
    pools = []
    for percent in (0, 10, 20, 50):
        options = CompileOptions(params=ANY_TILES, extra_macs=percent)
        pools.append(make_plan(graph, options).pool_bytes)
    assert pools == sorted(pools, reverse=True)
