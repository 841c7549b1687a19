# SPDX-License-Identifier: Apache-2.0
"""Stages in bands of columns: smaller line buffers for some multiply-accumulates done twice.

A line buffer is as wide as its image. Worked in bands, one after the other, a stage needs buffers
as wide as a band and what its windows see beyond the band's edges; there pixels are computed once
for each band that sees them. A band as wide as one pixel of output is the window of the vMCU paper
(section 5.2), which is recomputed in every row; wider ones cost less.

A graph with bands is a graph like any other: each band's part of the input is copied out, the
stage's layers follow on narrower tensors, and a concatenation along W joins the outputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...graph import Graph, Node, Tensor, Window
from ...ops import bind
from ...ops.concat import Concat
from ...ops.max_pooling import MaxPool2D

# How many bands are tried, no more than FEW where the best cuts are looked for with each, and where
# the first of two may end, parts of the width.
COUNTS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 22, 24, 28, 32, 36, 40, 44, 48)
FEW = 4
ENDS = (0.3, 0.35, 0.4, 0.425, 0.45, 0.475)


@dataclass(frozen=True)
class Banding:
    """Nodes [first, stop) of a graph in bands, the second and later ones beginning at columns
    `ends` of what they make."""

    first: int
    stop: int
    ends: tuple[int, ...]


@dataclass(frozen=True)
class Stretch:
    """Nodes [first, stop) of a graph that read one tensor of the pool from outside, `source`, ""
    where they fetch all that they read from elsewhere, and whose last node's output is all that is
    needed afterwards."""

    graph: Graph
    first: int
    stop: int
    source: str

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.graph.nodes[self.first : self.stop]

    @property
    def out(self) -> Tensor:
        return self.graph.tensors[self.nodes[-1].outputs[0]]

    def columns(self, ends: Sequence[int]) -> list[range]:
        """The columns of the output that each band computes."""
        edges = [0, *ends, self.out.shape[1]]
        return [range(*edge) for edge in itertools.pairwise(edges)]

    def needed(self, columns: range) -> dict[str, range]:
        """The columns of each tensor that a band computes to make some of the output's."""
        needed = {self.out.name: columns}
        for node in reversed(self.nodes):
            wanted = needed[node.outputs[0]]
            for name in node.inputs:
                reads = self.reads(node, name, wanted)
                known = needed.get(name, reads)
                needed[name] = range(min(reads[0], known[0]), max(reads[-1], known[-1]) + 1)
        return needed

    def reads(self, node: Node, name: str, columns: range) -> range:
        """The columns of an input that columns of a node's output are made of."""
        width = self.graph.tensors[name].shape[1]
        if node.op.elementwise:
            return columns
        op: Any = node.op
        window = op.window
        first = window.first(1, columns[0])
        last = window.first(1, columns[-1]) + window.extent(1) - 1
        # A window may see nothing but padding; a band of no columns would be no tensor.
        return range(min(max(first, 0), width - 1), max(min(last, width - 1), 0) + 1)

    def macs(self, usual: Sequence[int], ends: Sequence[int]) -> int:
        """Multiply-accumulates in bands, where its nodes have the `usual` ones without."""
        total = 0
        for columns in self.columns(ends):
            needed = self.needed(columns)
            for node, macs in zip(self.nodes, usual, strict=True):
                name = node.outputs[0]
                total += macs * len(needed[name]) // self.graph.tensors[name].shape[1]
        return total


def stretch_of(graph: Graph, first: int, stop: int) -> Stretch | None:
    """The nodes as a piece that can be worked in bands, None if they are none."""
    nodes = graph.nodes[first:stop]
    inside = {name for node in nodes for name in node.outputs}
    sources = {name for node in nodes for name in node.inputs} - inside
    kept = {port.tensor for port in graph.outputs}
    later = {name for node in graph.nodes[stop:] for name in node.inputs}
    fetching = any(node.op.fetches for node in nodes)
    if len(sources) > 1 or not (sources or fetching) or len(nodes) < 2:
        return None
    if not all(node.op.windowed or node.op.elementwise or node.op.fetches for node in nodes):
        return None
    if (inside - set(nodes[-1].outputs)) & (kept | later):
        return None
    piece = Stretch(graph, first, stop, "".join(sources))
    return piece if piece.out.shape[1] >= 4 else None


def splits(width: int, most: int | None = None) -> Iterator[tuple[int, ...]]:
    """The first columns of all bands but the first, for each way to split a row into at most `most`
    bands."""
    for end in ENDS:
        yield (max(round(width * end), 1),)
    for count in (*(count for count in COUNTS if count < width), width):
        if most is not None and count > most:
            return
        yield tuple(round(width * band / count) for band in range(1, count))


def spans(piece: Stretch, ends: Sequence[int]) -> list[range]:
    """The nodes of each band, counted from the first node of the piece in bands."""
    lengths = [len(band.nodes) for band in _bands(piece, ends)]
    start = len(lengths) if piece.source else 0
    stops = itertools.accumulate(lengths, initial=start)
    return [range(*span) for span in itertools.pairwise(stops)]


def banded(piece: Stretch, ends: Sequence[int]) -> Graph:
    """The piece's graph with the piece in bands, the second and later ones beginning at `ends`."""
    graph = piece.graph
    bands = _bands(piece, ends)
    nodes = [node for band in bands for node in band.copies]
    nodes += [node for band in bands for node in band.nodes]
    last = piece.nodes[-1]
    join = Concat(1, (None,) * len(bands))
    parts = tuple(band.output for band in bands)
    nodes.append(Node(f"{last.name} bands", join, parts, last.outputs))
    tensors = dict(graph.tensors)
    for node in piece.nodes[:-1]:
        del tensors[node.outputs[0]]
    for band in bands:
        tensors |= band.tensors
    everything = (*graph.nodes[: piece.first], *nodes, *graph.nodes[piece.stop :])
    return replace(graph, tensors=tensors, nodes=everything)


def together(piece: Stretch, ends: Sequence[int]) -> Graph:
    """A graph of the piece by itself, in bands."""
    graph = piece.graph
    whole = banded(piece, ends)
    behind = len(graph.nodes) - piece.stop
    nodes = whole.nodes[piece.first : len(whole.nodes) - behind]
    used = {name for node in nodes for name in (*node.inputs, *node.outputs)} | graph.elsewhere
    port = graph.inputs[0]
    return replace(
        whole,
        nodes=nodes,
        tensors={name: t for name, t in whole.tensors.items() if name in used},
        inputs=(replace(port, tensor=piece.source),) if piece.source else graph.inputs,
        outputs=(replace(graph.outputs[0], tensor=piece.out.name),),
        elsewhere=frozenset() if piece.source else graph.elsewhere,
    )


def band_graph(piece: Stretch, columns: range) -> Graph:
    """A graph of one band by itself, which makes some columns of the piece's output; its copy of
    the source, if it has one, is an input."""
    graph, band = piece.graph, _Band(piece, 0, columns)
    port = graph.inputs[0]
    copies = tuple(replace(port, tensor=copy.outputs[0]) for copy in band.copies)
    outside = {name: graph.tensors[name] for name in graph.elsewhere}
    return replace(
        graph,
        nodes=tuple(band.nodes),
        tensors={**outside, **band.tensors},
        inputs=copies or graph.inputs,
        outputs=(replace(graph.outputs[0], tensor=band.output),),
        elsewhere=graph.elsewhere if not copies else frozenset(),
    )


def macs(graph: Graph) -> int:
    return sum(bind(graph, node).macs for node in graph.nodes)


def _bands(piece: Stretch, ends: Sequence[int]) -> list[_Band]:
    columns = piece.columns(ends)
    return [_Band(piece, number, part) for number, part in enumerate(columns)]


class _Band:
    """One band: its copy of the source, its nodes and their tensors."""

    def __init__(self, piece: Stretch, number: int, columns: range):
        self.piece, self.number = piece, number
        self.graph = piece.graph
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.columns = piece.needed(columns)
        self.copies: list[Node] = []
        if piece.source:
            source = self.graph.tensors[piece.source]
            name, wanted = self._name(source.name), self.columns[source.name]
            self.copies.append(
                self._copy(source.name, source, range(source.shape[1]), wanted, name)
            )
        for node in piece.nodes:
            self._add(node)
        self.output = self._name(piece.out.name)

    def _name(self, tensor: str) -> str:
        # What is copied may have come from bands itself.
        part = "for band" if tensor == self.piece.source else "band"
        return f"{tensor} {part} {self.number}"

    def _tensor(self, name: str, like: Tensor, columns: range) -> str:
        height, _, channels = like.shape
        self.tensors[name] = replace(like, name=name, shape=(height, len(columns), channels))
        return name

    def _copy(self, source: str, like: Tensor, held: range, wanted: range, name: str) -> Node:
        """Some columns of `source`, which holds columns `held` of a tensor, as tensor `name`: a
        pooling window of one pixel, with less than no padding."""
        window = Window(pad=(0, held[0] - wanted[0], 0, wanted[-1] - held[-1]))
        label = f"{like.name} columns {wanted[0]} to {wanted[-1]}"
        out = self._tensor(name, like, wanted)
        return Node(label, MaxPool2D(window), (source,), (out,))

    def _add(self, node: Node) -> None:
        out = self.graph.tensors[node.outputs[0]]
        columns = self.columns[out.name]
        op: Any = node.op.of_columns(columns[0])
        names = []
        for name in node.inputs:
            held, wanted = self.columns[name], self.piece.reads(node, name, columns)
            here = self._name(name)
            if op.elementwise:
                if held != wanted:
                    like, part = self.graph.tensors[name], f"{here} for {node.outputs[0]}"
                    self.nodes.append(self._copy(here, like, held, wanted, part))
                    here = part
            else:
                op = replace(op, window=self._window(op.window, held, columns))
            names.append(here)
        self._tensor(self._name(out.name), out, columns)
        label = f"{node.name} columns {columns[0]} to {columns[-1]}"
        self.nodes.append(Node(label, op, tuple(names), (self._name(out.name),)))

    @staticmethod
    def _window(window: Window, held: range, columns: range) -> Window:
        """The window for outputs `columns` of an input of which columns `held` are there."""
        top, _, bottom, _ = window.pad
        left = held[0] - window.first(1, columns[0])
        last = window.first(1, columns[-1]) + window.extent(1) - 1
        return replace(window, pad=(top, left, bottom, last - held[-1]))
