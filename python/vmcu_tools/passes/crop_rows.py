# SPDX-License-Identifier: Apache-2.0
"""Picks rows of a loop by a Pad that leaves out the others.

A Move may read any byte of its input, which has to be whole; a Pad reads row by row, so that the
loop keeps no other rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..graph import Graph, Node
from ..ops.move import Move
from ..ops.pad import Pad
from .rewrite import replace_node, rewrite_nodes


def crop_rows(graph: Graph) -> Graph:
    return rewrite_nodes(graph, _crop) if graph.loops else graph


def _crop(graph: Graph, node: Node) -> Graph | None:
    if not isinstance(node.op, Move):
        return None
    source, target = graph.tensors[node.inputs[0]], graph.tensors[node.outputs[0]]
    maker = next((n for n, one in enumerate(graph.nodes) if source.name in one.outputs), -1)
    first, rest = divmod(int(node.op.index.ravel()[0]), source.row_bytes)
    run = np.arange(first * source.row_bytes, first * source.row_bytes + target.bytes)
    whole = not rest and target.shape[1:] == source.shape[1:]
    if not whole or not any(maker in loop for loop in graph.loops):
        return None
    if not np.array_equal(node.op.index.ravel(), run):
        return None
    behind = source.shape[0] - first - target.shape[0]
    op = Pad(((-first, -behind), (0, 0), (0, 0)), source.zero_point)
    return replace_node(graph, node, replace(node, op=op))
