# SPDX-License-Identifier: Apache-2.0
"""A graph with the search for its partition: the graph as it is, or one with the same result that
needs less RAM for more multiply-accumulates (extra_macs.py). No tensor has an offset yet."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ...errors import Problem, UserError
from ...graph import Graph
from ..options import CompileOptions
from .allocation import Allocator
from .partition import UNLIMITED, Partitioner


@dataclass(frozen=True, eq=False)
class Variant:
    """A graph, maybe with layers in bands, and the search over its cuts: the smallest peak, and
    the multiply-accumulates beyond those of the graph without bands."""

    partitioner: Partitioner
    least: int
    macs_extra: int

    @functools.cached_property
    def allocator(self) -> Allocator:
        """The allocator of its stages."""
        return Allocator(self.partitioner)


def without_extra_macs(graph: Graph, options: CompileOptions) -> Variant:
    """The graph as it is; UserError as plan()."""
    return Variant(*search_partition(graph, options), 0)


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
