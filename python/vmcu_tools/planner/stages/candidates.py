# SPDX-License-Identifier: Apache-2.0
"""The stages that nodes of a graph can form, each once: tiles in which the layers are the same give
one stage."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

from ...graph import Graph
from ...plan.schedule import Tile, taken_columns
from ...plan.weights import chunk_bytes
from ..params import SearchParams
from ..places.layout import Cut
from .costs import calls_of
from .footprint import Footprints, Option

Ranges = Sequence[range]


class StageClasses:
    """Classes of tiles in which nodes form the same stage. direct: see CandidateStages."""

    def __init__(self, needs: Footprints, direct: tuple[int, ...]):
        self.needs, self.binder, self.direct = needs, needs.binder, direct
        self.prefixes: dict[tuple[int, tuple[Tile, ...]], list[list[int]]] = {}
        self.ids: dict[tuple[int, tuple[Tile, ...], bool], list[int]] = {}

    def of(self, first: int, stop: int, tiles: tuple[Tile, ...]) -> list[object]:
        """Numbers, by tile and scratch, that are equal where nodes [first, stop) are the same
        layers as a stage."""
        fronts = self.prefixes.setdefault((first, tiles), [[0] * len(tiles) * len(self.direct)])
        while len(fronts) < stop - first:
            numbers: dict[object, int] = {}
            pairs = zip(fronts[-1], self._ids(first + len(fronts) - 1, tiles, False), strict=True)
            fronts.append([numbers.setdefault(pair, len(numbers)) for pair in pairs])
        taken = [0] * len(fronts[0])
        if first == 0 and self.needs.source is not None:
            sizes = [taken_columns(self.needs.graph, self.needs.source, tile) for tile in tiles]
            taken = [size for size in sizes for _ in self.direct]
        lasts = self._ids(stop - 1, tiles, True)
        return list(zip(fronts[stop - first - 1], lasts, taken, strict=True))

    def _ids(self, number: int, tiles: tuple[Tile, ...], last: bool) -> list[int]:
        """The numbers of one node; see of()."""
        key = number, tiles, last
        if key not in self.ids:
            choices = itertools.product(tiles, self.direct)
            layers = [self.binder.member(number, tile, direct, last) for tile, direct in choices]
            # The binder keeps them, so that no two of them have one address.
            self.ids[key] = [id(layer) for layer in layers]
        return self.ids[key]


class CandidateStages(Footprints):
    """The stages that the nodes of a graph can form. bands: nodes that are one stage, or each on
    its own. direct: the bytes of scratch that layers do without, 0 for none, in the order that is
    tried."""

    def __init__(
        self, graph: Graph, streamed: bool, params: SearchParams, bands: Ranges, brief: bool
    ):
        super().__init__(graph, streamed, params, brief)
        self.tiles, self.longest = params.tiles, params.longest_stage
        self.direct = (0, 1) if params.scratch_free_kernels else (0,)
        self.bands = {number: band for band in bands for number in band}
        self.classes = StageClasses(self, self.direct)
        self.distinct: dict[tuple[int, int, Sequence[Tile]], list[Cut]] = {}
        self.mixed_tile_stages: dict[tuple[int, int], list[Cut]] = {}
        self.by_cost: dict[tuple[int, int], list[Cut]] = {}

    @functools.cached_property
    def weights_before(self) -> list[int]:
        """The bytes of the weights of all nodes in front of each node."""
        each = (chunk_bytes(self.graph, node) for node in self.graph.nodes)
        return list(itertools.accumulate(each, initial=0))

    def stages_of(self, first: int, stop: int, tiles: Sequence[Tile] | None = None) -> list[Cut]:
        """The stages that nodes [first, stop) can form in different tiles, the large first."""
        streams = self.source is not None and first == 0
        if self.source is not None and streams and stop <= self.last[self.source.name]:
            return []
        if any(
            loop.start < place < loop.stop for loop in self.graph.loops for place in (first, stop)
        ):
            return []
        if stop - first == 1 and not streams:
            return [Cut(first, stop)]
        if self.bands and not self.is_in_one_band(first, stop):
            return []
        most = self.params.stage_weight_bytes
        if most is not None and range(first, stop) in self.graph.loops:
            # Its layers run in turns, whatever their weights.
            most = None
        if most is not None and self.weights_before[stop] - self.weights_before[first] > most:
            return []
        if not streams and not self.has_loop(first, stop) and first >= self.called_once[stop - 1]:
            # They have nothing to do in turns.
            return []
        tried = tuple(self.tiles if tiles is None else tiles)
        key = first, stop, tried
        if key not in self.distinct:
            seen: dict[object, Cut] = {}
            choices = itertools.product(tried, self.direct)
            classes = self.classes.of(first, stop, tried)
            for (tile, direct), same in zip(choices, classes, strict=True):
                if same not in seen:
                    seen[same] = Cut(first, stop, tile, direct)
            self.distinct[key] = [cut for cut in seen.values() if self.shape(cut).possible]
        return [*self.distinct[key], *self.mixed_tile_stages.get((first, stop), ())]

    def stages_by_cost(self, first: int, stop: int) -> list[Cut]:
        """The stages that nodes [first, stop) can form, the cheap ones first."""
        if (first, stop) not in self.by_cost:
            cuts = self.stages_of(first, stop)
            if len(cuts) > 1:
                cuts = sorted(cuts, key=lambda cut: self.shape(cut).cost)
            self.by_cost[first, stop] = cuts
        return self.by_cost[first, stop]

    def add_stages(self, first: int, stop: int, cuts: list[Cut]) -> None:
        """Makes stages with a tile for each layer candidates of nodes [first, stop)."""
        self.mixed_tile_stages[first, stop] = cuts
        self.by_cost.pop((first, stop), None)

    def is_in_one_band(self, first: int, stop: int) -> bool:
        """True if nodes [first, stop) are one band, or of none."""
        if first in self.bands:
            return self.bands[first] == range(first, stop)
        return all(number not in self.bands for number in range(first, stop))

    def is_single_layer(self, cut: Cut) -> bool:
        """True for one layer on its own."""
        return cut.stop - cut.first == 1 and not (self.source is not None and cut.first == 0)

    @functools.cached_property
    def called_once(self) -> list[int]:
        """The first node, by the last node of a stage, from which on all layers are called once
        only; it may be the one behind the last."""
        firsts, start = [], 0
        for number in range(self.count):
            last = self.binder.stage(Cut(number, number + 1, self.tiles[-1]))[0]
            firsts.append(start if calls_of(last) == 1 else number + 1)
            if calls_of(self.binder.layer(number, self.tiles[-1])) > 1:
                start = number + 1
        return firsts

    def exceeds(self, first: int, stop: int, limit: int) -> bool:
        """True if nodes [first, stop) need more than `limit` bytes as a stage in whatever tiles."""
        cut = Cut(first, stop)
        return not self.is_single_layer(cut) and self.least_held(cut) > limit

    def option_within(self, cut: Cut, limit: int) -> Option | None:
        """A stage's needs and cost; None if it needs more than `limit` bytes."""
        if self.is_single_layer(cut):
            single = self.single[cut.first]
            return Option(cut, single, 0) if single <= limit else None
        if self.least_held(cut) > limit:
            return None
        option = self.known(cut, limit)
        return option if option is not None and option.peak <= limit else None

    def likely(self, cut: Cut, limit: int) -> Option | None:
        """A stage's cost, and its needs as far as they are known; None if they are known to be more
        than `limit` bytes."""
        if cut in self.traced or self.is_single_layer(cut):
            return self.option_within(cut, limit)
        shape = self.shape(cut)
        least = max(self.least_held(cut), shape.memory.bytes + self.known_bound(shape))
        return Option(cut, least, shape.cost) if least <= limit else None
