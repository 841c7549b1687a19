# SPDX-License-Identifier: Apache-2.0
"""Graph to graph, every remaining tensor's bytes unchanged.

Each pass is one function from a graph to a graph in a file of its own. Graph inputs and outputs
keep their tensor names; a tensor between two merged nodes disappears.
"""

from __future__ import annotations

from ..graph import Graph
from .absorb_pad import absorb_pad
from .crop_rows import crop_rows
from .drop_dead import drop_dead
from .drop_noops import drop_noops
from .flatten_dense import flatten_dense
from .fuse_activation import fuse_activation
from .fuse_attention import fuse_attention
from .join_moves import join_moves
from .join_tables import join_tables
from .leave_out_constants import leave_out_constants
from .relabel_borders import relabel_borders

PASSES = (
    # Before a Reshape between heads and a dense layer is part of the latter.
    fuse_attention,
    *(drop_noops, absorb_pad, fuse_activation, join_tables, join_moves, flatten_dense),
    *(relabel_borders, crop_rows, drop_dead),
)


def optimize(graph: Graph, all_channels: bool = False) -> Graph:
    """Applies all passes until none of them changes the graph. all_channels: constant ones stay, as
    other tools have them."""
    before = None
    while before is not graph:
        before = graph
        for step in PASSES:
            graph = step(graph)
    return graph if all_channels else leave_out_constants(graph)
