# SPDX-License-Identifier: Apache-2.0
"""Graphs with the same result that need less RAM for more multiply-accumulates.

Input: a graph, and how many of its multiply-accumulates may be done twice. Output: variants with
ever smaller peaks, each with the search for its partition: the graph itself, then with the stage of
the peak in column bands (bands.py) or with recomputation (recomputation.py), then with any stages
in any bands (band_search.py). Algorithm: greedy at the peak, then bisection over the bytes that
bands may need. No tensor has an offset yet.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from ...errors import Problem, UserError
from ...graph import Graph
from ..options import CompileOptions
from ..places.layout import Cut
from . import bands, recomputation
from .allocation import Allocator
from .band_search import Bands, BandSearch, applied
from .partition import UNLIMITED, Partitioner

# How much less is tried where tensors have no places, how many times as much next, and how often;
# how exact the fewest bytes are; by how much more than it should a graph with bands may need.
BAND_STEP, BAND_STEP_GROWTH, BAND_TRIES, BAND_PRECISION, BAND_EXCESS = 0.015, 1.5, 8, 0.01, 1.25


@dataclass(frozen=True, eq=False)
class Variant:
    """A graph, maybe with layers in bands, and the search over its cuts: the smallest peak, and
    the multiply-accumulates beyond those of the graph without bands."""

    partitioner: Partitioner
    least: int
    macs_extra: int

    @functools.cached_property
    def allocator(self) -> Allocator:
        """What is known of its offsets."""
        return Allocator(self.partitioner)


def variants(graph: Graph, options: CompileOptions, most: float) -> Iterator[Variant]:
    """The graph, then those of with_extra_macs() for at most this part of its multiply-accumulates
    done twice."""
    base = without_extra_macs(graph, options)
    yield base
    yield from with_extra_macs(graph, base, options, most)


def without_extra_macs(graph: Graph, options: CompileOptions) -> Variant:
    """The graph as it is; UserError as plan()."""
    return Variant(*search_partition(graph, options), 0)


def with_extra_macs(
    graph: Graph, base: Variant, options: CompileOptions, most: float
) -> Iterator[Variant]:
    """Ever smaller peaks as the stage with the peak is put in a few bands, then any stages in any
    bands."""
    yield from lower_peaks(graph, base, options, most)
    yield from many_bands(graph, base, options, most)


def lower_peaks(
    graph: Graph, variant: Variant, options: CompileOptions, most: float, banded: bool = True
) -> Iterator[Variant]:
    """The stage with the peak in a few bands, if they shall be `banded`, else with layers of it
    computed again for windows, and again, while that lowers the peak."""
    partitioner, least, macs = variant.partitioner, variant.least, bands.macs(graph)
    while most > 0:
        cuts = partitioner.cheapest(least)
        worst = max(cuts, key=lambda cut: partitioner.peak((cut,)))
        limit = int(macs * (1 + most))
        banded = banded and options.params.column_bands
        better = partitioner.in_bands(worst, least, limit) if banded else None
        found = None if better is None else search_partition(better, options, least)
        if found is None or found[1] >= least:
            found = computed_again(partitioner, worst, least, limit, options)
        if found is None:
            return
        partitioner, least = found
        yield Variant(partitioner, least, max(bands.macs(partitioner.graph) - macs, 0))


def computed_again(
    partitioner: Partitioner, worst: Cut, least: int, most: int, options: CompileOptions
) -> tuple[Partitioner, int] | None:
    """The search over the graph with two layers of a stage as one that computes again what lies
    between, where that needs the fewest bytes, fewer than `least` by a part BAND_PRECISION or
    within options.ram; None if there is none, with at most so many multiply-accumulates. Within
    options.ram what computes the least of it."""
    best: tuple[Partitioner, int] | None = None
    fits: list[tuple[int, tuple[Partitioner, int]]] = []
    if not (options.merges_recomputation and options.params.recomputation):
        return None
    for graph in recomputation.candidates(partitioner.graph, worst.first, worst.stop, most)[
        : options.params.recomputation_tries
    ]:
        found = search_partition(graph, options, least)
        if found[1] >= least:
            continue
        # What is saved by less is soon lost to a gap, for which solvers look long.
        if found[1] <= (1 - BAND_PRECISION) * least and (best is None or found[1] < best[1]):
            best = found
        if options.ram is not None and found[1] <= options.ram:
            fits.append((bands.macs(graph), found))
    return min(fits, key=lambda one: one[0])[1] if fits else best


def many_bands(
    graph: Graph, variant: Variant, options: CompileOptions, most: float
) -> Iterator[Variant]:
    """Bands that fit into options.ram, or, without that, into the fewest bytes."""
    spender = BandSearch(variant.partitioner, int(bands.macs(graph) * most))
    if spender.most <= 0 or not options.params.band_search:
        return
    limit, step, spent = options.ram or 0, BAND_STEP, None
    if options.ram is not None:
        spent = spender.within(options.ram)
    if spent is None:
        limit, spent = fewest_bytes(spender, variant.least)
    tried: set[Bands] = set()
    while spent is not None and spent.bandings and len(tried) < BAND_TRIES:
        if spent not in tried:
            tried.add(spent)
            found = with_bands(graph, spent, limit, options)
            if found is not None:
                yield found
                if options.ram is None:
                    return
        # Where what joins the bands is too large, or tensors have no places, fewer bytes may do.
        limit, step, spent = tighter(spender, limit, step)


def tighter(spender: BandSearch, limit: int, step: float) -> tuple[int, float, Bands | None]:
    """Fewer bytes by about a part `step`, the part to go on with, and the bands; the less is found,
    the farther it goes, as far as there are bands."""
    while step >= BAND_STEP / 2:
        spent = spender.within(int(limit * (1 - step)))
        if spent is not None:
            return int(limit * (1 - step)), BAND_STEP_GROWTH * step, spent
        step /= 2
    return limit, step, None


def fewest_bytes(spender: BandSearch, least: int) -> tuple[int, Bands | None]:
    """Bytes that bands spare of `least`, down to a part BAND_PRECISION, and the bands."""
    low, high, found = 0, least, None
    while high - low > max(BAND_PRECISION * high, 1):
        limit = (low + high) // 2
        spent = spender.within(limit)
        if spent is None:
            low = limit
        else:
            high, found = limit, spent
    return high, found


def with_bands(graph: Graph, spent: Bands, limit: int, options: CompileOptions) -> Variant | None:
    """The graph with layers in bands that are to fit into `limit` bytes; None if they need far
    more, with what joins them."""
    better, regions = applied(graph, spent)
    partitioner = Partitioner(better, options.stream_input, options.params, regions)
    most = int(limit * BAND_EXCESS)
    least = partitioner.least_peak(partitioner.tiles, most)
    if least >= most:
        return None
    return Variant(partitioner, least, max(bands.macs(better) - bands.macs(graph), 0))


def search_partition(
    graph: Graph, options: CompileOptions, known: int = UNLIMITED
) -> tuple[Partitioner, int]:
    """The search over a graph's cuts, and the smallest peak; UserError as plan(). known: a peak
    that is reached otherwise, of no use unless there is a smaller one."""
    partitioner = Partitioner(graph, options.stream_input, options.params)
    least = partitioner.least(partitioner.tiles, known)
    least = partitioner.least_by_tile_per_layer(least) if least < UNLIMITED else least
    return partitioner, check_streamable(graph, least)


def check_streamable(graph: Graph, least: int) -> int:
    """The smallest peak; UserError if there is none."""
    if least == UNLIMITED:
        raise UserError(
            Problem(
                "the input cannot be streamed: too many layers need it",
                "leave out --stream-input",
                graph.origin,
            )
        )
    return least
