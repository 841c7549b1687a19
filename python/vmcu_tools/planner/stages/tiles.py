# SPDX-License-Identifier: Apache-2.0
"""A tile for each layer of a stage, by changing one at a time.

Layers with the same tile are where the search begins. What a ring holds depends on the tiles of its
writer and its readers, so that now a smaller tile, now a larger one needs fewer bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...plan.schedule import Tile
from ..places.layout import Cut
from .costs import extra_cost
from .footprint import Footprints, Option


def with_tile(cut: Cut, number: int, tile: Tile) -> Cut:
    """The stage with another tile for node `number`."""
    others = {one: its for one, its in cut.larger if one != number}
    if tile != cut.tile:
        others[number] = tile
    return replace(cut, larger=tuple(sorted(others.items())))


@dataclass
class Descent:
    """A search for ever fewer bytes, or as many and fewer cycles, by another tile in one layer at a
    time. most: `work` of the needs at which it ends."""

    needs: Footprints
    tiles: Sequence[Tile]
    most: int

    @property
    def over(self) -> bool:
        """Whether no more may be tried."""
        return self.needs.work >= self.most

    def run(self, start: Option) -> list[Option]:
        """The options on the way down, `start` first, until no change of one layer helps."""
        options, numbers = [start], range(start.cut.first, start.cut.stop)
        unchanged = 0
        for number in itertools.cycle(numbers):
            better = self._better(options[-1], number)
            unchanged = unchanged + 1 if better is None else 1
            options += [] if better is None else [better]
            if unchanged > len(numbers) or self.over:
                return options
        raise AssertionError("a stage has layers")

    def _better(self, option: Option, number: int) -> Option | None:
        best = option
        for cut in others(self.needs, option.cut, number, self.tiles):
            other = self.needs.known(cut, best.peak, near=True)
            if other is not None and (other.peak, other.cost) < (best.peak, best.cost):
                best = other
        return None if best is option else best


def others(needs: Footprints, cut: Cut, number: int, tiles: Sequence[Tile]) -> Iterator[Cut]:
    """The stage with other tiles in one layer, as far as its calls differ."""
    seen = {needs.binder.in_stage(cut, number)}
    for tile in tiles:
        layer = needs.binder.member(number, tile, cut.direct, number == cut.stop - 1)
        other = cut if layer in seen else with_tile(cut, number, tile)
        if other is not cut and needs.shape(other).possible:
            seen.add(layer)
            yield other


def relaxed(
    needs: Footprints, cut: Cut, limit: int, tiles: Sequence[Tile], little: float, most: int
) -> Cut:
    """A stage with tiles that cost less in the layers that need no small ones to keep it within
    `limit` bytes, the dearest layers first. little: cycles that are not worth a trace; most: `work`
    of the needs at which it ends."""
    layers = needs.binder.stage(cut)
    for layer in sorted(layers, key=extra_cost, reverse=True):
        number = cut.first + layers.index(layer)
        cost = needs.shape(cut).cost
        cheaper = list(others(needs, cut, number, tiles))
        cheaper.sort(key=lambda other: needs.shape(other).cost)
        for other in cheaper:
            if needs.work >= most:
                return cut
            if needs.shape(other).cost > cost - little:
                break
            option = needs.known(other, limit, near=True)
            if option is not None and option.peak <= limit:
                cut = other
                break
    return cut


def pareto(options: Sequence[Option]) -> list[Option]:
    """Those that none of the others beats in bytes without costing more."""
    best: list[Option] = []
    for option in sorted(options, key=lambda option: (option.peak, option.cost)):
        if not best or option.cost < best[-1].cost:
            best.append(option)
    return best
