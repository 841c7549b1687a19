# SPDX-License-Identifier: Apache-2.0
"""Which layers to work in bands so that a model fits into given bytes, for the fewest
multiply-accumulates done twice.

The order of nodes is gone through from its start, by ever more multiply-accumulates (Dijkstra,
Numerische Mathematik 1, 1959): from a node on go the stages that fit, at
none, and stretches in bands, each at what it computes again. What a stretch needs is found out when
it is the next cheapest, so that few are looked at closely.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...graph import Graph
from ..places.layout import Cut
from . import bands
from .bands import Banding, Stretch
from .footprint import Footprints
from .partition import Partitioner


@dataclass(frozen=True)
class Bands:
    """Stretches to work in bands, in order, and the multiply-accumulates that they do twice."""

    macs: int
    bandings: tuple[Banding, ...]


@dataclass
class Known:
    """A lower bound of the bytes that a band needs, and whether it is exact."""

    peak: int = 0
    exact: bool = False
    needs: Footprints | None = None


@dataclass
class BandSearch:
    """Searches for one graph, whose stages `partitioner` knows; at most `most` multiply-accumulates
    are done twice."""

    partitioner: Partitioner
    most: int
    known: dict[tuple[Any, ...], Known] = field(default_factory=dict)
    stretches: dict[tuple[int, int], Stretch | None] = field(default_factory=dict)
    choices: dict[tuple[int, int], list[tuple[int, Banding]]] = field(default_factory=dict)

    def within(self, limit: int) -> Bands | None:
        """The bands that do the fewest multiply-accumulates twice and make all stages fit into
        `limit` bytes; None if there are none."""
        count = self.partitioner.count
        came: dict[int, tuple[Banding, ...]] = {}
        order = itertools.count()
        heap: list[tuple[int, int, int, Banding | None]] = [(0, next(order), 0, None)]
        while heap:
            macs, _, start, banding = heapq.heappop(heap)
            stop = start if banding is None else banding.stop
            if stop in came or (banding is not None and not self._fits(banding, limit)):
                continue
            path = came.get(start, ())
            fresh = [*self._reached(stop, limit, came)]
            for place in fresh:
                came[place] = path if banding is None else (*path, banding)
            if count in came:
                return Bands(macs, came[count])
            for place in fresh:
                for extra, choice in self._choices(place):
                    if choice.stop not in came and macs + extra <= self.most:
                        heapq.heappush(heap, (macs + extra, next(order), place, choice))
        return None

    def _reached(self, start: int, limit: int, known: dict[int, tuple[Any, ...]]) -> Iterator[int]:
        """The nodes at which stages that fit may end, one after the other from a node on; that node
        first."""
        partitioner = self.partitioner
        reached = {start}
        for first in range(start, partitioner.count + 1):
            if first not in reached:
                continue
            yield first
            for stop in range(first + 1, min(first + partitioner.longest, partitioner.count) + 1):
                if stop not in reached and stop not in known:
                    cuts = reversed(partitioner.stages_of(first, stop))
                    if any(partitioner.option_within(cut, limit) is not None for cut in cuts):
                        reached.add(stop)

    def _choices(self, first: int) -> Iterator[tuple[int, Banding]]:
        """The stretches that begin at a node, in bands, with what each does twice."""
        for stop in range(
            first + 2, min(first + self.partitioner.longest, self.partitioner.count) + 1
        ):
            if (first, stop) not in self.choices:
                self.choices[first, stop] = list(self._bandings(first, stop))
            yield from self.choices[first, stop]

    def _bandings(self, first: int, stop: int) -> Iterator[tuple[int, Banding]]:
        stretch = self._stretch(first, stop)
        if stretch is None:
            return
        macs = [self.partitioner.binder.layer(number).macs for number in range(first, stop)]
        usual = sum(macs)
        for ends in bands.splits(stretch.out.shape[1]):
            extra = max(stretch.macs(macs, ends) - usual, 0)
            if extra <= self.most:
                yield extra, Banding(first, stop, ends)

    def _stretch(self, first: int, stop: int) -> Stretch | None:
        if (first, stop) not in self.stretches:
            stretch = bands.stretch_of(self.partitioner.graph, first, stop)
            source = self.partitioner.source
            if stretch is not None and source is not None and stretch.source == source.name:
                # Its bands would all be worked at once, so that no line buffer were smaller.
                stretch = None
            self.stretches[first, stop] = stretch
        return self.stretches[first, stop]

    def _fits(self, banding: Banding, limit: int) -> bool:
        """True if each of the bands fits, as a stage of its own: beside it are what earlier ones
        have made and later ones work on."""
        stretch = self.stretches[banding.first, banding.stop]
        assert stretch is not None
        besides = sum(self._held(banding, stretch))
        if besides + stretch.out.bytes > limit:
            return False
        parts = stretch.columns(banding.ends)
        height, _, channels = stretch.out.shape
        copies = []
        if stretch.source:
            source = self.partitioner.graph.tensors[stretch.source]
            rows, _, depth = source.shape
            copies = [rows * depth * len(stretch.needed(part)[stretch.source]) for part in parts]
            if besides + source.bytes + sum(copies[:-1]) > limit:
                return False
            if self.partitioner.last[stretch.source] >= banding.stop:
                besides += source.bytes
        # The last have most beside them where nothing is copied.
        for number, part in reversed([*enumerate(parts)]):
            beside = besides + height * channels * part.start + sum(copies[number + 1 :])
            if not self._one_fits(banding, stretch, part, limit - beside):
                return False
        return True

    def _one_fits(self, banding: Banding, stretch: Stretch, part: range, limit: int) -> bool:
        widths = ((name, len(one), one.start > 0) for name, one in stretch.needed(part).items())
        known = self.known.setdefault((banding.first, banding.stop, *widths), Known())
        if known.exact or known.peak > limit:
            return known.peak <= limit
        if known.needs is None:
            known.needs = Footprints(
                bands.band_graph(stretch, part), False, self.partitioner.params, brief=True
            )
        needs, least = known.needs, limit + 1
        for tile, direct in itertools.product(
            reversed(self.partitioner.tiles), reversed(self.partitioner.direct)
        ):
            cut = Cut(0, needs.count, tile, direct)
            if needs.shape(cut).possible:
                option = needs.known(cut, least - 1)
                least = least if option is None else min(least, option.peak)
        known.peak, known.exact = least, least <= limit
        return known.exact

    def _held(self, banding: Banding, stretch: Stretch) -> Iterator[int]:
        """Bytes of tensors that outlive the stretch without being its own."""
        partitioner = self.partitioner
        own = {stretch.source, stretch.out.name}
        for name, first in partitioner.first.items():
            streamed = partitioner.source is not None and name == partitioner.source.name
            alive = first < banding.first and partitioner.last[name] >= banding.first
            if alive and name not in own and not streamed:
                yield partitioner.graph.tensors[name].bytes


def applied(graph: Graph, spent: Bands) -> tuple[Graph, tuple[range, ...]]:
    """The graph with its bands, and the nodes of each of them."""
    regions: list[range] = []
    for banding in reversed(spent.bandings):
        stretch = bands.stretch_of(graph, banding.first, banding.stop)
        assert stretch is not None
        in_bands = bands.banded(stretch, banding.ends)
        moved = len(in_bands.nodes) - len(graph.nodes)
        regions = [range(one.start + moved, one.stop + moved) for one in regions]
        own = bands.spans(stretch, banding.ends)
        first = banding.first
        regions = [*(range(one.start + first, one.stop + first) for one in own), *regions]
        graph = in_bands
    return graph, tuple(regions)
