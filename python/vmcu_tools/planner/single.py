# SPDX-License-Identifier: Apache-2.0
"""Segment overlap layer by layer in a circular pool, without fusion (vMCU paper, sections 4, 5.1).

Every layer runs from its first row to its last, and its output starts as little below its dying
input as the layer's order of access allows, so that a chain of tensors walks down through the pool
and around its end. The pool is the smallest found in which the walk succeeds: sizes are tried
upwards from the bound that the live tensors of the worst step set.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Graph
from ..plan.plan import Plan
from .places.pieces import Piece, pieces_of
from .places.sequential import SequentialPlacement, plan_of, sizes_from


def plan(graph: Graph) -> Plan:
    """The smallest circular pool found; its bases are proven by the caller's replay."""
    return plan_of_pieces("single", graph, pieces_of(graph, both_ways=False))


def plan_of_pieces(name: str, graph: Graph, pieces: Sequence[Piece]) -> Plan:
    """The smallest circular pool found for pieces; `name`: the planner's."""
    bound = max(piece.bound() for piece in pieces)
    for size in sizes_from(bound):
        search = SequentialPlacement(pieces, size, wraps=True)
        if search.run():
            return plan_of(name, graph, search, bound)
    raise AssertionError("sizes_from() does not end")
