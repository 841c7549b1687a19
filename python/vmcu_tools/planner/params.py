# SPDX-License-Identifier: Apache-2.0
"""The techniques and limits of the default planner's search, which can be switched off one by one.

`benchmarks/decisions/run.py ablation` prints the effect of each technique. No limit is a time: the
same graph gives the same plan on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..boards.flash import Flash

TILES: tuple[int | None, ...] = (None, 512, 256, 128, 64, 32)
# Also calls of single columns, which waste half and more of what kernels compute.
ALL_TILES = (*TILES, 1)
QUICK, NORMAL, LONG = "quick", "normal", "long"


@dataclass(frozen=True)
class SearchParams:
    """`_work` counts calls of layers: ten million take about a second. `_insertions` count pieces
    that ejection search places: 20,000 take about a second. `_share` is a part of 1."""

    reorder: bool = True
    """Search the execution order with the smallest peak; off: the file's order."""
    order_work: int = 3_000_000
    """Moves that a search for an order may weigh; about a million take a second."""

    longest_stage: int = 96
    """Layers of a fused stage, at most; 1: layers one by one."""
    stage_weight_bytes: int | None = None
    """Bytes of constants of a fused stage, at most; None: any number."""
    flash: Flash | None = None
    """The serial flash that constants are read from; None: reading them costs nothing."""
    tiles: tuple[int | None, ...] = TILES
    """Bytes of output that a call computes, the large before the small; None: a whole row."""
    low_limits_first: bool = True
    """Look for the smallest peak within ever higher limits, which spares most traces."""
    scratch_free_kernels: bool = True
    """Also try the slower kernels without scratch."""
    in_place_alias: bool = True
    """Let an output overwrite the pixels of its input's ring buffer that are read."""

    lower_bounds: bool = True
    """Reject stages by a lower bound before their schedule is traced."""
    skip_placeable: bool = True
    """Do not extend a stage by a layer that fits by itself, unless nothing else is found."""

    tile_per_layer: bool = True
    """Lower the peak with a tile for each layer of a stage, by coordinate descent."""
    tile_work: int = 10_000_000
    tile_hope: float = 0.92
    """The share of its footprint that a stage is hoped to keep with a tile for each layer."""
    tile_worth: float = 0.995
    """The share of the smallest peak that has to be in reach."""
    tile_start: float = 1.15
    """Descents begin at equal tiles that need at most so many times the best ones' bytes."""
    larger_tiles: bool = True
    """Enlarge tiles where that keeps the peak and costs fewer cycles."""
    larger_tile_work: int = 20_000_000
    larger_tile_gain: float = 0.0005
    """The share of a model's cycles that a larger tile has to save."""

    trade_off: bool = True
    """Without a limit, weigh bytes against cycles (costs.trade_off); off: the smallest peak."""
    trade_off_step: float = 0.01
    """Between the peaks that are weighed, a share."""
    trade_off_equal: float = 0.02
    """Trade-offs that differ by this share are equally good: the smaller pool is taken."""
    pareto_step: float = 0.03
    """Between the peaks of --pareto, a share."""
    smaller_tries: int = 12
    """Searches for a pool of one byte less, before vmcu names one as the smallest."""

    descending: bool = True
    """Layers on their own may run from their last row to their first."""
    ejection: bool = True
    """Search offsets by ejection where sequential placement fails."""
    pool_insertions: int = 100
    """For all offsets of a pool of given size, for each piece."""
    packing_insertions: int = 12_000
    """For each size on the way to the smallest pool, if there is no placement within the limit;
    partitions share them."""
    room_shares: tuple[float, ...] = (1.0, 0.9, 0.8, 0.65)
    """Of the limit, that stages are kept within where they can, in turn, until there is a
    placement."""
    gap_repair: bool = True
    """For a stage without a placement, try other tiles, and the fewest bytes that have one."""
    full_ring_first: bool = True
    """Gap repair also lets a stage's first layer fill its ring buffer before other calls."""
    stage_insertions: int = 100
    """For the offsets of one stage, for each piece."""

    column_bands: bool = True
    """With extra MACs: split the stage with the peak into a few column bands."""
    band_search: bool = True
    """With extra MACs: search all stretches of layers and numbers of bands (Dijkstra)."""
    recomputation: bool = True
    """With extra MACs: recompute the input of windows instead of keeping a line buffer."""
    band_macs: float = 2.0
    """--ram may add so many times a model's MACs by bands,"""
    recomputation_macs: float = 20.0
    """and so many times by recomputation, if the rest needs"""
    recomputation_reach: float = 1.5
    """at most so many times the bytes of the limit."""
    recomputation_tries: int = 3
    """The most promising pairs of layers that are looked at closely, each time."""

    def at(self, effort: str) -> SearchParams:
        """The same techniques with the limits of an effort."""
        return replace(self, **EFFORTS[effort])


DEFAULT_PARAMS = SearchParams()
# Limits of the search by --effort.
EFFORTS: Mapping[str, Mapping[str, Any]] = {
    QUICK: {
        "order_work": 300_000,
        "tile_work": 1_000_000,
        "larger_tile_work": 2_000_000,
        "packing_insertions": 1_200,
        "smaller_tries": 3,
    },
    NORMAL: {},
    LONG: {
        "order_work": 30_000_000,
        "tile_work": 100_000_000,
        "larger_tile_work": 200_000_000,
        "packing_insertions": 120_000,
        "smaller_tries": 24,
        "tiles": ALL_TILES,
    },
}
