# SPDX-License-Identifier: Apache-2.0
"""The techniques and limits of the searches, which can be switched off one by one."""

from __future__ import annotations

from dataclasses import dataclass

from vmcu_tools.ordering.params import OrderParams


@dataclass(frozen=True)
class PlacementParams(OrderParams):
    """Sizes of problems are counted in buffers or nodes, work in steps that do not depend on the
    machine. `benchmarks/decisions/run.py ablation-placement` prints the value of each technique."""

    seed: int = 1
    """Of every random choice."""

    first_fit_most: int = 5_000
    """Up to so many buffers are also placed by first fit over time first."""
    skyline: bool = True
    """Place buffers along the skyline first; off: best fit over time only."""
    skyline_few: int = 20_000
    """Up to so many buffers all weights of the skyline are tried, beyond two."""

    blocks: bool = True
    """Also search a problem in which buffers that fit to each other are one block."""
    block_pairs: bool = True
    """In half of the tries, stack two buffers if a neighbour is as high."""
    block_tries: int = 80
    """Tries with different weights and noise, at most."""
    block_work: int = 100_000
    """Buffers of all tries together."""
    block_probe: int = 4_000
    """Buffers of the tries after which it is given up unless there are fewer blocks."""
    block_share: float = 0.9
    """Blocks are fewer if they are at most this share of the buffers."""

    valleys: tuple[str, ...] = ("covered", "lowest", "fewest", "narrowest")
    """Which valley branch and bound decides first, by valleys.VALLEYS; none: no such search."""
    aims: tuple[float, ...] = (0, 0, 0.5, 0.9)
    """Heights of searches between the bound (0) and the lowest placement (1). The first batch aims
    at the bound."""
    far: float = 1.04
    far_aims: tuple[float, ...] = (0, 0.7, 0.85, 0.95)
    """The same as long as the lowest placement is so many times the bound."""
    batch: int = 8
    """Searches between two looks at their results."""
    least_nodes: int = 1_000
    nodes_per_buffer: int = 3
    """The node limit of a search, the larger of the two, times Luby's sequence."""

    ejection: bool = True
    """Lower the placement of many buffers by ejection."""
    ejection_least: int = 500
    ejection_most: int = 30_000
    """From so many buffers on, and up to so many: beyond, the neighbours need too much memory."""
    ejection_steps: int = 40
    ejection_work: int = 100_000
    """Insertions for each buffer, and at most, below one limit."""

    first_fit_rounds: int = 3_000
    """Orders that are tried for buffers with gaps or given offsets."""
    first_fit_steps: int = 30_000_000
    """Pairs of parts that are compared in all of them."""

    order_share: float = 0.25
    own_order: bool = True
    own_order_share: float = 0.1
    """Parts of the seconds for the order, and for offsets in the file's own order."""

    memory_orders: int = 400
    memory_work: int = 400_000
    """Orders in which buffers are divided among memories, and buffers in all of them."""
    memory_retries: int = 8
    """How often memories are filled less because no offsets were found."""

    spilling_exact: bool = True
    """Search all orders of a small graph for the cheapest copies and repeats."""


DEFAULT_PLACEMENT = PlacementParams()
