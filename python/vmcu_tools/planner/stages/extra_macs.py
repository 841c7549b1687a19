# SPDX-License-Identifier: Apache-2.0
"""Variants of a graph that need less RAM for more multiply-accumulates.

The stage of the peak in column bands (bands.py) or with recomputation (recomputation.py), greedily;
then any stages in any bands (band_search.py), by bisection over the bytes that bands may need.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...graph import Graph
from ..options import CompileOptions
from ..places.layout import Cut
from . import bands, recomputation
from .band_search import Bands, BandSearch, applied
from .partition import Partitioner
from .variants import Variant, search_partition

# How much less is tried where tensors have no places, how many times as much next, and how often;
# how exact the fewest bytes are; by how much more than it should a graph with bands may need.
BAND_STEP, BAND_STEP_GROWTH, BAND_TRIES, BAND_PRECISION, BAND_EXCESS = 0.015, 1.5, 8, 0.01, 1.25


def with_extra_macs(
    graph: Graph, base: Variant, options: CompileOptions, most: float
) -> Iterator[Variant]:
    """Ever smaller peaks as the stage with the peak is put in a few bands, then any stages in any
    bands, for at most this part of the graph's multiply-accumulates done twice."""
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
        better = in_bands(partitioner, worst, least, limit) if banded else None
        lower = None if better is None else search_partition(better, options, least)
        if lower is None or lower[1] >= least:
            lower = computed_again(partitioner, worst, least, limit, options)
        if lower is None:
            return
        partitioner, least = lower
        yield Variant(partitioner, least, max(bands.macs(partitioner.graph) - macs, 0))


def in_bands(partitioner: Partitioner, cut: Cut, least: int, most: int) -> Graph | None:
    """The graph with a stage in the bands that need the fewest bytes, fewer than `least`; None if
    there are none with at most so many multiply-accumulates."""
    stretch = bands.stretch_of(partitioner.graph, cut.first, cut.stop)
    source = partitioner.source
    if stretch is None or (source is not None and stretch.source == source.name):
        return None
    besides = partitioner.besides(cut)
    best: tuple[int, ...] | None = None
    for ends in bands.splits(stretch.out.shape[1], bands.FEW):
        if bands.macs(bands.banded(stretch, ends)) > most:
            continue
        inside = Partitioner(bands.together(stretch, ends), False, partitioner.params, brief=True)
        peak = besides + inside.least_peak(partitioner.tiles, least - besides)
        if peak < least:
            least, best = peak, ends
    return None if best is None else bands.banded(stretch, best)


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
        searched = search_partition(graph, options, least)
        if searched[1] >= least:
            continue
        # What is saved by less is soon lost to a gap, for which solvers look long.
        if searched[1] <= (1 - BAND_PRECISION) * least and (best is None or searched[1] < best[1]):
            best = searched
        if options.ram is not None and searched[1] <= options.ram:
            fits.append((bands.macs(graph), searched))
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
            variant_in_bands = with_bands(graph, spent, limit, options)
            if variant_in_bands is not None:
                yield variant_in_bands
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
    low, high, best = 0, least, None
    while high - low > max(BAND_PRECISION * high, 1):
        limit = (low + high) // 2
        spent = spender.within(limit)
        if spent is None:
            low = limit
        else:
            high, best = limit, spent
    return high, best


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
