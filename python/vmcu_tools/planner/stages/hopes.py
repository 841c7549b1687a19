# SPDX-License-Identifier: Apache-2.0
"""Stages in which a tile for each layer may lower the smallest peak."""

from __future__ import annotations

from ..places.layout import Cut
from .candidates import CandidateStages


class Hopes:
    """The smallest peaks if stages with one tile needed no more than the part of their bytes that
    is hoped for, `least` if they are not below it.

    best: by the node where stages stop. came: the first node of the last stage, and its peak.
    refused: by stage, the highest limit that none of its tiles is within. stale: the stages that
    have a tile for each layer since `best` was computed."""

    def __init__(self, stages: CandidateStages, least: int):
        self.stages, self.hope, self.least = stages, stages.params.tile_hope, least
        self.best = [0] + [least] * stages.count
        self.came: list[tuple[int, int]] = [(0, 0)] * (stages.count + 1)
        self.refused: dict[tuple[int, int], int] = {}
        self.stale = {(0, stop) for stop in range(1, stages.count + 1)}

    def promising_stages(self) -> list[tuple[int, int]]:
        """Stages that would lower the smallest peak, and that the caller gives tiles for each
        layer."""
        self._update()
        stop = self.stages.count
        if self.best[stop] >= self.stages.params.tile_worth * self.least:
            return []
        while stop:
            first, peak = self.came[stop]
            if peak >= self.least:
                self.stale.add((first, stop))
                self.refused.pop((first, stop), None)
            stop = first
        return sorted(self.stale, reverse=True)

    def _update(self) -> None:
        """Computes what depends on stale stages again."""
        stops = {stop for _, stop in self.stale}
        self.stale.clear()
        changed = -1
        for stop in range(min(stops, default=1), self.stages.count + 1):
            front = max(stop - self.stages.longest, 0)
            if stop in stops or changed >= front:
                before = self.best[stop]
                self._extend(stop, front)
                if self.best[stop] != before:
                    changed = stop

    def _extend(self, stop: int, front: int) -> None:
        best, mixed = self.best, self.stages.mixed_tile_stages
        best[stop], self.came[stop] = self.least, (0, 0)
        for first in range(stop - 1, front - 1, -1):
            if best[first] >= best[stop]:
                continue
            fixed = stop - first == 1 or (first, stop) in mixed
            held = 0 if fixed else self.stages.least_held(Cut(first, stop))
            limit = best[stop] - 1 if fixed else int(best[stop] / self.hope) - 1
            if held >= best[stop] or self.refused.get((first, stop), -1) >= limit:
                continue
            is_refused = True
            for cut in reversed(self.stages.stages_of(first, stop)):
                if max(best[first], held) >= best[stop]:
                    break
                limit = best[stop] - 1 if fixed else int(best[stop] / self.hope) - 1
                option = self.stages.option_within(cut, limit)
                if option is None:
                    continue
                is_refused = False
                peak = max(
                    best[first], held, option.peak if fixed else int(self.hope * option.peak)
                )
                if peak < best[stop]:
                    best[stop], self.came[stop] = peak, (first, option.peak)
            if is_refused:
                self.refused[first, stop] = limit
