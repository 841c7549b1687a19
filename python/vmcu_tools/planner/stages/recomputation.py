# SPDX-License-Identifier: Apache-2.0
"""Layers whose output is computed again wherever a window sees it, in place of a line buffer.

The vMCU paper (section 5.2) keeps k x k pixels of the tensor in front of a window and computes
them again for each output pixel. That needs no rows of it at all, also where the input comes row by
row, which bands of columns cannot be for. Some columns at a time share what their windows have in
common.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ...graph import Graph, Node, Window
from ...ops import bind
from ...ops.recomputed import Recomputed
from . import bands

# Columns of the output at a time that are tried, the fewest bytes last.
COLUMN_CHOICES = (8, 4, 2, 1)


@dataclass(frozen=True)
class Pair:
    """Node `inner` of a graph, by number, whose output is computed again for node `outer`, for so
    many `columns` of its output at a time."""

    inner: int
    outer: int
    columns: int


def pairs_of(graph: Graph, first: int, stop: int) -> Iterator[Pair]:
    """The pairs of nodes [first, stop) that may be recomputed, by the order of the layers in
    front."""
    numbers = {id(node): number for number, node in enumerate(graph.nodes)}
    kept = {port.tensor for port in graph.outputs}
    for number in range(first, stop):
        node = graph.nodes[number]
        readers = graph.readers[node.outputs[0]]
        if not node.op.windowed or len(readers) != 1 or node.outputs[0] in kept:
            continue
        reader = readers[0]
        if reader.op.windowed and window_of(reader).kernel[0] > 1:
            width = graph.tensors[reader.outputs[0]].shape[1]
            for columns in COLUMN_CHOICES:
                if numbers[id(reader)] < stop and columns < width:
                    yield Pair(number, numbers[id(reader)], columns)


def window_of(node: Node) -> Window:
    """The window of a windowed node."""
    op: Any = node.op
    window: Window = op.window
    return window


def saved(graph: Graph, pair: Pair, merged: Graph) -> int:
    """About how many bytes are spared: a line buffer's, without what stands for it: scratch, and
    the rows of the input that are now needed longer."""
    inner, outer = graph.nodes[pair.inner], graph.nodes[pair.outer]
    between, source = (graph.tensors[name] for name in (inner.outputs[0], inner.inputs[0]))
    rows = min(window_of(outer).kernel[0], between.shape[0]) - 1
    later = rows * window_of(inner).stride[0] * source.row_bytes
    layer = bind(merged, next(node for node in merged.nodes if node.outputs == outer.outputs))
    return rows * between.row_bytes - later - layer.scratch_bytes


def candidates(graph: Graph, first: int, stop: int, most: int) -> list[Graph]:
    """Graphs with a pair of nodes [first, stop) that is computed again, with at most so many
    multiply-accumulates, the most promising first."""
    by_saving: list[tuple[int, Graph]] = []
    for pair in pairs_of(graph, first, stop):
        other = recomputed(graph, pair)
        if other is None or bands.macs(other) > most:
            continue
        spared = saved(graph, pair, other)
        if spared > 0:
            by_saving.append((spared, other))
    return [other for _, other in sorted(by_saving, key=lambda one: -one[0])]


def recomputed(graph: Graph, pair: Pair) -> Graph | None:
    """The graph with one layer in place of the two; None if their kernels cannot be part of one."""
    inner, outer = graph.nodes[pair.inner], graph.nodes[pair.outer]
    between = graph.tensors[inner.outputs[0]]
    op = Recomputed(inner.op, outer.op, between, pair.columns)
    node = Node(f"{inner.name} and {outer.name}", op, inner.inputs, outer.outputs)
    nodes = [node if one is outer else one for one in graph.nodes if one is not inner]
    tensors = {name: one for name, one in graph.tensors.items() if name != between.name}
    merged = replace(graph, nodes=tuple(nodes), tensors=tensors)
    try:
        bind(merged, node)
    except ValueError:
        return None
    return merged
