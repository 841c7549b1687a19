# SPDX-License-Identifier: Apache-2.0
"""The order in which a stage's layers are called: depth first, on demand.

A stage of several layers is worked from its end: the last layer's next columns are wanted, and
whoever is missing for them is called first, one call at a time (vMCU paper, section 5.2, for any
chain of layers). The calls are known ahead: the planner traces them, the virtual MCU replays them
and the executor gets them as a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..graph import Graph, Node, Tensor
from ..ops import Layer
from ..ops.layer import PAIR, Reach
from .plan import Plan

# Who makes an input, where it is no layer of the stage.
READY = -1
STREAMED = -2
# About how many bytes of output a call computes; None: rows.
Tile = int | None
ONE_COLUMN = 1
# In place of an input's number.
OUTPUT = -1
# Less than any number of pixels, whatever is added to it.
NOTHING = -(1 << 40)


@dataclass(frozen=True)
class Feed:
    """An input of a layer: who makes it (a layer of the stage, READY or STREAMED), its height and
    width, and how an output pixel looks at it, see Reach."""

    producer: int
    height: int
    width: int
    stride: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]

    def needed(self, heights: int, lasts: Sequence[int]) -> tuple[list[int], list[int]]:
        """Pixels of the input, in raster order, that must exist for columns up to `last` of
        output row y: the sum of a term for each row and one for each last column."""
        rows = []
        for y in range(heights):
            row = min(y * self.stride[0] + self.after[0], self.height - 1)
            rows.append(row * self.width if row >= 0 else NOTHING)
        ends = (min(x * self.stride[1] + self.after[1], self.width - 1) + 1 for x in lasts)
        return rows, [max(end, 0) for end in ends]

    def wanted(self, y: int, x: int) -> int:
        """Pixels of the input, in raster order, that must exist for column x of output row y."""
        row = min(y * self.stride[0] + self.after[0], self.height - 1)
        end = max(min(x * self.stride[1] + self.after[1], self.width - 1) + 1, 0)
        return max(row * self.width + end, 0) if row >= 0 else 0

    def oldest(self, y: int, x: int) -> int:
        """The first pixel, in raster order, that output pixels from (y, x) on may read."""
        row = max(y * self.stride[0] - self.before[0], 0)
        column = min(max(x * self.stride[1] - self.before[1], 0), self.width)
        below = max((y + 1) * self.stride[0] - self.before[0], 0)
        return min(row * self.width + column, below * self.width)


class Call(NamedTuple):
    """Columns [x, x + columns) of row y of a layer's output; layer STREAMED: these columns of the
    stage's streamed input are taken from the row that the caller delivers."""

    layer: int
    y: int
    x: int
    columns: int


@dataclass(frozen=True)
class Stage:
    """A stage's layers as the schedule sees them.

    feeds: by layer; columns: by layer, how many a call computes; kept: layers whose whole output
    is needed after the stage; source: the streamed input, if any, of which `taken` columns are
    taken at a time. A layer that sums comes last.
    """

    layers: tuple[Layer, ...]
    feeds: tuple[tuple[Feed, ...], ...]
    columns: tuple[int, ...]
    kept: tuple[bool, ...]
    source: Tensor | None = None
    taken: int = 0

    def calls(self) -> Iterator[Call]:
        """The calls of an inference, in order."""
        return _Run(self).calls()


def computed(stage: Stage) -> list[int]:
    """By layer, how many pixels of its rows of calls are computed in all: those that others of the
    stage want, whole calls of them, or all if its output is kept."""
    found = [layer.height * layer.width if kept else 0 for layer, kept in _with_kept(stage)]
    for number in reversed(range(len(stage.layers))):
        layer, columns = stage.layers[number], stage.columns[number]
        # What is wanted ends within a row, which is computed in whole calls.
        y, x = divmod(found[number], layer.width)
        x = min(-(-x // columns) * columns, layer.width)
        found[number] = y * layer.width + x
        if found[number] == 0:
            continue
        # Below the image's edge a row may want fewer pixels than the row above it.
        ends = [(y - 1, layer.width - 1)] if y > 0 else []
        ends += [(y, x - 1)] if x > 0 else []
        for feed in stage.feeds[number]:
            if feed.producer >= 0:
                wanted = max(feed.wanted(y, x) for y, x in ends)
                found[feed.producer] = max(found[feed.producer], wanted)
    return found


def _with_kept(stage: Stage) -> Iterator[tuple[Layer, bool]]:
    return zip(stage.layers, stage.kept, strict=True)


def kept_outputs(graph: Graph, nodes: Sequence[Node]) -> list[bool]:
    """By node of a stage: does its output outlive the stage? One that nothing reads does."""
    inside = {id(node) for node in nodes}
    ports = {port.tensor for port in graph.outputs}
    found = []
    for node in nodes:
        readers = graph.consumers(node.outputs[0])
        outside = any(id(reader) not in inside for reader in readers)
        found.append(outside or not readers or node.outputs[0] in ports)
    return found


def stage_of(
    layers: Sequence[Layer], kept: Sequence[bool], source: Tensor | None = None, taken: int = 0
) -> Stage:
    """The stage of consecutive layers. taken: columns of a streamed input at a time."""
    makers = {layer.out.name: number for number, layer in enumerate(layers)}
    feeds = tuple(
        tuple(_feed(layer, index, makers, source) for index in range(len(layer.ins)))
        for layer in layers
    )
    columns = tuple(layer.columns for layer in layers)
    return Stage(tuple(layers), feeds, columns, tuple(kept), source, taken)


def stage_at(plan: Plan, number: int) -> Stage | None:
    """A plan's stage with its schedule; None for a layer on its own."""
    steps = plan.stages[number]
    source = None
    if plan.input_streamed and number == 0:
        source = plan.graph.tensors[plan.graph.inputs[0].tensor]
    if len(steps) == 1 and source is None:
        return None
    layers = [step.bind(plan.graph) for step in steps]
    kept = kept_outputs(plan.graph, [step.node for step in steps])
    return stage_of(layers, kept, source, plan.taken)


def _feed(layer: Layer, index: int, makers: dict[str, int], source: Tensor | None) -> Feed:
    tensor, reach = layer.ins[index], layer.reach(index)
    producer = makers.get(tensor.name, READY)
    if source is not None and tensor.name == source.name:
        producer = STREAMED
    height, width, _ = tensor.shape
    return Feed(producer, height, width, reach.stride, reach.before, reach.after)


def tile_width(layer: Layer, tile: Tile) -> int:
    """Columns of one call, within the tile, but not so few that kernels waste their work; the last
    call of a row may have fewer."""
    width = layer.width
    if tile is None or not layer.by_columns:
        return width
    return _even_part(width, layer.out.shape[2], tile, layer.block)


def _even_part(width: int, channels: int, tile: int, block: int) -> int:
    """Columns of a tile, whole blocks, in a row that has as few and as equal tiles as can be."""
    if tile == ONE_COLUMN:
        return 1
    most = max(tile // channels // block, 1) * block
    even = -(-width // -(-width // most))
    return min(-(-even // block) * block, width)


def taken_columns(source: Tensor | None, tile: Tile) -> int:
    """Columns of a streamed input that are taken at a time."""
    if source is None:
        return 0
    _, width, channels = source.shape
    return width if tile is None else _even_part(width, channels, tile, PAIR)


def in_one_piece(layer: Layer) -> list[int]:
    """What a call's columns must not be split in: inputs that are read pixel for pixel, OUTPUT."""
    whole = [] if layer.sums else [OUTPUT]
    if layer.by_columns:
        same = Reach.shifted()
        whole += [index for index in range(len(layer.ins)) if layer.reach(index) == same]
    return whole


def operand(layer: Layer, index: int) -> Tensor:
    """A layer's input, or its OUTPUT."""
    return layer.out if index == OUTPUT else layer.ins[index]


def unsplit(plan: Plan, tensor: Tensor, y: int, x: int, columns: int) -> int:
    """Of `columns` pixels of a row from x on, those in front of the place that splits it."""
    placement = plan.placements[tensor.name]
    _, width, channels = tensor.shape
    at = ((y * width + x) * channels + placement.phase) % placement.ring
    return min(columns, (placement.ring - at) // channels)


def splits_calls(plan: Plan, layer: Layer, tensor: Tensor) -> bool:
    """True if the end of the ring of one of a layer's tensors lies within the columns of a call."""
    placement, channels = plan.placements[tensor.name], tensor.shape[2]
    x = np.arange(0, layer.width, layer.columns, dtype=np.int64)
    columns = np.minimum(layer.columns, layer.width - x)
    rows = np.arange(layer.height, dtype=np.int64)[:, None] * layer.width
    ends = ((rows + x) * channels + placement.phase) % placement.ring + columns * channels
    return bool((ends > placement.ring).any())


def pieces(plan: Plan, call: Call, tensors: Sequence[Tensor]) -> Iterator[Call]:
    """A call as it is made: in parts where a ring of the tensors splits it."""
    x, end = call.x, call.x + call.columns
    while x < end:
        count = min(unsplit(plan, tensor, call.y, x, end - x) for tensor in tensors)
        yield call._replace(x=x, columns=count)
        x += count


class _Run:
    """One pass through a stage: by layer the next call's row and place in the row."""

    def __init__(self, stage: Stage):
        self.stage = stage
        count = len(stage.layers)
        self.y, self.place, self.made = [0] * count, [0] * count, [0] * count
        self.heights = [layer.height for layer in stage.layers]
        self.widths = [layer.width for layer in stage.layers]
        # Pixels of the streamed input.
        self.taken = 0
        lasts = [
            [min(x + n, w) - 1 for x in range(0, w, n)]
            for n, w in zip(stage.columns, self.widths, strict=True)
        ]
        self.wants = [
            [
                (feed.producer, *feed.needed(self.heights[layer], lasts[layer]))
                for feed in feeds
                if feed.producer != READY
            ]
            for layer, feeds in enumerate(stage.feeds)
        ]

    def calls(self) -> Iterator[Call]:
        for goal in reversed(range(len(self.stage.layers))):
            if self.stage.kept[goal]:
                yield from self.pull(goal)

    def pull(self, goal: int) -> Iterator[Call]:
        """All of a layer's output, and before it whatever that needs."""
        y, place, made, columns = self.y, self.place, self.made, self.stage.columns
        path = [goal]
        while y[goal] < self.heights[goal]:
            layer = path[-1]
            missing = self.missing(layer)
            if missing == STREAMED:
                assert self.stage.source is not None
                row, column = divmod(self.taken, self.stage.source.shape[1])
                step = min(self.stage.taken, self.stage.source.shape[1] - column)
                yield Call(STREAMED, row, column, step)
                self.taken += step
            elif missing != READY:
                path.append(missing)
            else:
                x = place[layer] * columns[layer]
                step = min(columns[layer], self.widths[layer] - x)
                yield Call(layer, y[layer], x, step)
                made[layer] += step
                place[layer] += 1
                if x + step == self.widths[layer]:
                    place[layer] = 0
                    y[layer] += 1
                if len(path) > 1:
                    path.pop()

    def missing(self, layer: int) -> int:
        """Who has to be called before a layer's next call; READY if nobody."""
        row, place = self.y[layer], self.place[layer]
        for producer, rows, columns in self.wants[layer]:
            needed = rows[row] + columns[place]
            if producer == STREAMED:
                if self.taken < needed:
                    return STREAMED
            elif self.made[producer] < needed:
                return producer
        return READY


def whole_rows(stage: Stage, layer: int) -> bool:
    """True if a layer's output is written or read in rows that must not be split."""
    users = [stage.layers[layer]]
    for number, feeds in enumerate(stage.feeds):
        if any(feed.producer == layer for feed in feeds):
            users.append(stage.layers[number])
    return not all(user.by_columns for user in users)
