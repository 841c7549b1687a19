# SPDX-License-Identifier: Apache-2.0
"""Partition of the execution order into fused stages.

Input: a graph in its order of nodes. Output: its stages with their tiles. A dynamic program over
the places where a stage may end (vMCU paper, section 5.2, generalised): first the smallest peak
over all partitions, then, among those that stay within it, the one with the fewest cycles. It
looks at nodes times the longest stage times the tiles; footprint.py says what a stage needs.
Limits on the peak rise until a partition is within one (iterative deepening).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...graph import Graph
from ...plan.choice import Choice
from ...plan.schedule import Tile
from ..params import DEFAULT_PARAMS, SearchParams
from ..places.layout import Cut
from .candidates import CandidateStages
from .cheapest import Cheapest
from .costs import bytes_of_trade_off, most_bytes, trade_off
from .hopes import Hopes
from .tiles import Descent, pareto, relaxed

# More than any stage needs.
UNLIMITED = 1 << 62
# Limits on the smallest peak that are tried, as shares of what layers need one by one: the first,
# and by how many times each is above the one before.
LOWEST_LIMIT, LIMIT_GROWTH = 0.25, 1.1


class Partitioner(CandidateStages):
    """The search over partitions of one graph in its order of nodes. cut_short: whether a search
    for tiles ended before its time."""

    def __init__(
        self,
        graph: Graph,
        streamed: bool,
        params: SearchParams = DEFAULT_PARAMS,
        bands: Sequence[range] = (),
        brief: bool = False,
    ):
        super().__init__(graph, streamed, params, bands, brief)
        self.relaxed_cuts: dict[tuple[Cut, int], Cut] = {}
        self.relaxation_work = 0
        self.cut_short = False

    def least(self, tiles: Sequence[Tile], known: int) -> int:
        """The result of least_peak(), within ever higher limits: stages that only a high one allows
        are not traced if there is a partition within a low one."""
        for limit in self._limits(known):
            peak = self.least_peak(tiles, limit)
            if peak < limit:
                return peak
        return known

    def _limits(self, known: int) -> Iterator[int]:
        """Limits on the peak, `known` last."""
        most = max(self.single, default=0)
        limit = most * LOWEST_LIMIT if self.params.low_limits_first else known
        while limit < min(most * LIMIT_GROWTH, known):
            yield int(limit)
            limit *= LIMIT_GROWTH
        yield known

    def least_peak(self, tiles: Sequence[Tile], known: int) -> int:
        """The smallest peak over all ways to cut into stages; `known`: one that is reached."""
        best = [0] + [known] * self.count
        for stop in range(1, self.count + 1):
            for first in range(stop - 1, max(stop - self.longest, 0) - 1, -1):
                if best[first] >= best[stop] or self.exceeds(first, stop, best[stop] - 1):
                    continue
                # The small tiles first: what they need is hard to beat.
                for cut in reversed(self.stages_of(first, stop, tiles)):
                    if best[first] >= best[stop]:
                        break
                    option = self.option_within(cut, best[stop] - 1)
                    if option is not None:
                        best[stop] = max(best[first], option.peak)
        return best[self.count]

    def cheapest(self, limit: int, relaxed_limit: int | None = None) -> tuple[Cut, ...]:
        """The cuts within `limit` bytes that cost least. relaxed_limit: bytes that stages should
        stay within where they can."""
        relaxed_limit = limit if relaxed_limit is None else relaxed_limit
        thorough = (False, True) if self.params.skip_placeable else (True,)
        searches = (Cheapest(self, limit, relaxed_limit, full) for full in thorough)
        cuts = next(filter(None, (search.run() for search in searches)), None)
        assert cuts is not None, "the peak was reached by some cut"
        return tuple(self.with_larger_tiles(cut, relaxed_limit) for cut in cuts)

    def can_fill_ring_first(self, cut: Cut) -> bool:
        """Whether a stage's first layer can fill its ring before any other layer is called."""
        source = self.source if cut.first == 0 else None
        return not cut.ahead and self.binder.full_ring_calls(cut, source) > 0

    def with_full_ring(self, cut: Cut) -> Cut:
        """The stage with its first layer ahead. It needs no more bytes: where the first ring is
        full, there is less of the output than there would be on demand."""
        full_ring = replace(cut, ahead=True)
        if cut in self.traced:
            self.traced[full_ring] = replace(self.traced[cut], cut=full_ring)
        return full_ring

    def with_larger_tiles(self, cut: Cut, relaxed_limit: int) -> Cut:
        """A stage with larger tiles in the layers that need no small ones to keep it within
        `relaxed_limit` bytes, or, if it is above, where it is."""
        if cut not in self.traced or not self.params.larger_tiles:
            return cut
        limit = max(self.traced[cut].peak, relaxed_limit)
        if (cut, limit) not in self.relaxed_cuts:
            before, little = self.work, self.params.larger_tile_gain * self.cycles
            most = before + self.params.larger_tile_work - self.relaxation_work
            self.relaxed_cuts[cut, limit] = relaxed(self, cut, limit, self.tiles, little, most)
            self.relaxation_work += self.work - before
            self.cut_short |= self.work >= most
        return self.relaxed_cuts[cut, limit]

    def least_by_tile_per_layer(self, least: int) -> int:
        """The smallest peak with a tile for each layer in the stages that may lower it; `least`:
        that with one a stage."""
        if not self.params.tile_per_layer:
            return least
        search = Descent(self, self.tiles, self.work + self.params.tile_work)
        hopes = Hopes(self, least)
        while not search.over and (promising_stages := hopes.promising_stages()):
            made = [(*stage, self.best_tiles(*stage, search)) for stage in promising_stages]
            for first, stop, cuts in made:
                self.add_stages(first, stop, cuts)
            # Others are known to need no less.
            if any(self.traced[cut].peak < least for *_, cuts in made for cut in cuts):
                least = self.least_peak(self.tiles, least)
                hopes = Hopes(self, least) if least < hopes.least else hopes
        self.cut_short |= search.over
        return least

    def best_tiles(self, first: int, stop: int, search: Descent) -> list[Cut]:
        """The stages of nodes [first, stop) with tiles of several sizes that need little."""
        options = [self.known(cut, UNLIMITED) for cut in self.stages_of(first, stop)]
        starts = sorted(filter(None, options), key=lambda option: option.peak)
        limit = self.params.tile_start * starts[0].peak
        tried = [one for start in starts if start.peak <= limit for one in search.run(start)]
        return [option.cut for option in pareto(tried) if option.cut.larger]

    def stages_within(self, first: int, stop: int, limit: int) -> list[Cut]:
        """The stages that nodes [first, stop) can form within `limit` bytes, the cheap ones
        first."""
        within = filter(
            None, (self.option_within(cut, limit) for cut in self.stages_of(first, stop))
        )
        return [option.cut for option in sorted(within, key=lambda option: option.cost)]

    def cost(self, cuts: Sequence[Cut]) -> int:
        """The cycles that cuts cost."""
        return sum(self.traced[cut].cost for cut in cuts if cut in self.traced)

    @functools.cached_property
    def cycles(self) -> float:
        """The estimated cycles of the model without stages."""
        layers = [self.binder.layer(number) for number in range(self.count)]
        return sum(layer.target.costs.mac * layer.macs + layer.out.bytes for layer in layers)

    def peak(self, cuts: Sequence[Cut]) -> int:
        """The bytes that the worst of a list of cuts needs."""
        return max(
            self.traced[cut].peak if cut in self.traced else self.single[cut.first] for cut in cuts
        )

    def front(self, least: int) -> list[Choice]:
        """Ever smaller peaks at ever higher cost, each a step below the one before, down to
        the smallest."""
        choices: list[Choice] = []
        limit = UNLIMITED
        while True:
            cuts = self.cheapest(limit)
            peak, extra = self.peak(cuts), self.cost(cuts) / self.cycles
            choices.append(Choice(peak, extra, 0, count_of(cuts)))
            if peak <= least:
                return choices
            limit = max(least, int(peak * (1 - self.params.pareto_step)))

    def best_trade_off(self, least: int) -> int:
        """The peak from `least` on with the best bargain of bytes and cycles."""
        if not self.params.trade_off:
            return least
        alike = self.params.trade_off_equal
        best, product = least, trade_off(least, 1 + self.cost(self.cheapest(least)) / self.cycles)
        # Beyond, fewer bytes at whatever cost are the better bargain.
        limit = min(int(bytes_of_trade_off(product, 1)), most_bytes(least, None))
        product /= 1 + alike
        while limit > least:
            cuts = self.cheapest(limit)
            peak = max(self.peak(cuts), least)
            reached = trade_off(peak, 1 + self.cost(cuts) / self.cycles)
            # Of those that are alike the smaller.
            if reached <= product * (1 + alike if best > least else 1):
                best, product = peak, min(reached, product)
            limit = int(peak / (1 + self.params.trade_off_step))
        return best


def count_of(cuts: Sequence[Cut]) -> int:
    """The number of stages that have several layers."""
    return sum(cut.stop - cut.first > 1 for cut in cuts)
