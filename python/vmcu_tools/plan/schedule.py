# SPDX-License-Identifier: Apache-2.0
"""The order in which a stage's layers are called: depth first, on demand.

A stage of several layers is worked from its end: the last layer's next columns are wanted, and the
layer that is missing for them is called first, one call at a time (vMCU paper, section 5.2, for any
chain of layers). The calls are known ahead: the planner traces them, the virtual MCU replays them
and the executor gets them as a table.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..graph import Graph, Node, Tensor, loops_among
from ..ops import Layer
from ..ops.layer import PAIR
from ..ops.reach import Reach
from .calls import READY, STREAMED, Feed, Grid, Order, order_of
from .plan import Plan

# About how many bytes of output a call computes; None: rows.
Tile = int | None
ONE_COLUMN = 1
# In place of an input's number.
OUTPUT = -1


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
    taken at a time. A layer that sums comes last. unbounded: the last layer's rows are answers, and
    each is gone when the next one comes. ahead: calls of the first layer that come before all
    others, instead of when they are wanted.
    """

    layers: tuple[Layer[Any], ...]
    feeds: tuple[tuple[Feed, ...], ...]
    columns: tuple[int, ...]
    kept: tuple[bool, ...]
    source: Tensor | None = None
    taken: int = 0
    unbounded: bool = False
    ahead: int = 0

    @functools.cached_property
    def grids(self) -> tuple[Grid, ...]:
        """Returns the calls of each layer, and last those that read the streamed input."""
        layers = zip(self.layers, self.columns, strict=True)
        grids = [Grid(layer.height, layer.width, columns) for layer, columns in layers]
        if self.source is not None:
            grids.append(Grid(*self.source.shape[:2], self.taken))
        return tuple(grids)

    @functools.cached_property
    def whole_rows(self) -> tuple[bool, ...]:
        """Returns for each layer whether its output is written or read in rows that must not be
        split."""
        whole = [not layer.by_columns for layer in self.layers]
        is_whole = list(whole)
        for number, feeds in enumerate(self.feeds):
            for feed in feeds:
                if feed.producer >= 0 and whole[number]:
                    is_whole[feed.producer] = True
        return tuple(is_whole)

    @functools.cached_property
    def loops(self) -> tuple[range, ...]:
        """Runs of layers that read rows of the steps before of each other."""
        return loops_among([[feed.producer for feed in feeds] for feeds in self.feeds])

    @functools.cached_property
    def order(self) -> Order:
        """When each layer is called."""
        order = order_of(self.grids, self.feeds, self.kept, self.loops)
        return order.begun_with(self.ahead) if self.ahead else order

    def calls(self) -> Iterator[Call]:
        """The calls of an inference, in order."""
        made = [0] * len(self.grids)
        for maker in self.order.makers.tolist():
            grid = self.grids[maker]
            y, place = divmod(made[maker], grid.across)
            made[maker] += 1
            x = place * grid.columns
            layer = maker if maker < len(self.layers) else STREAMED
            yield Call(layer, y, x, min(grid.columns, grid.width - x))


def kept_outputs(graph: Graph, nodes: Sequence[Node]) -> list[bool]:
    """Returns for each node of a stage whether its output outlives the stage. One that nothing
    reads does."""
    inside = {id(node) for node in nodes}
    ports = {port.tensor for port in graph.outputs}
    is_kept = []
    for node in nodes:
        readers = graph.readers[node.outputs[0]]
        outside = any(id(reader) not in inside for reader in readers)
        is_kept.append(outside or not readers or node.outputs[0] in ports)
    return is_kept


def stage_of(
    layers: Sequence[Layer[Any]],
    kept: Sequence[bool],
    source: Tensor | None = None,
    taken: int = 0,
    unbounded: bool = False,
) -> Stage:
    """The stage of consecutive layers. taken: columns of a streamed input at a time; unbounded: as
    Stage has it."""
    makers = {layer.out.name: number for number, layer in enumerate(layers)}
    if source is not None:
        makers[source.name] = STREAMED
    feeds = tuple(
        tuple(
            feed_of(layer, index, makers.get(tensor.name, READY))
            for index, tensor in enumerate(layer.ins)
        )
        for layer in layers
    )
    columns = tuple(layer.columns for layer in layers)
    return Stage(tuple(layers), feeds, columns, tuple(kept), source, taken, unbounded)


def stage_at(plan: Plan, number: int) -> Stage | None:
    """A plan's stage with its schedule; None for a layer on its own."""
    steps = plan.stages[number]
    source = None
    if plan.input_streamed and number == 0:
        source = plan.graph.tensors[plan.graph.inputs[0].tensor]
    if len(steps) == 1 and source is None:
        return None
    layers = [step.bind(plan.graph) for step in steps]
    unbounded = number == 0 and plan.graph.state.step_rows > 0
    kept = kept_outputs(plan.graph, [step.node for step in steps])
    if unbounded:
        # A layer that looks back from behind the stage has its rows held by the last layer.
        kept = [layer is layers[-1] for layer in layers]
    stage = stage_of(layers, kept, source, plan.taken, unbounded)
    return replace(stage, ahead=steps[0].ahead)


@functools.lru_cache(maxsize=1 << 14)
def feed_of(layer: Layer[Any], index: int, producer: int = READY) -> Feed:
    """A layer's input, made by a layer of its stage if not READY or STREAMED."""
    reach, (height, width, _) = layer.reach(index), layer.ins[index].shape
    return Feed(producer, height, width, reach.stride, reach.before, reach.after)


def tile_width(layer: Layer[Any], tile: Tile) -> int:
    """Columns of one call, within the tile, but not so few that kernels waste their work; the last
    call of a row may have fewer."""
    width = layer.width
    if tile is None or not layer.by_columns:
        return width
    if tile == ONE_COLUMN:
        return min(layer.fewest, width)
    return _even_part(width, layer.out.shape[2], tile, layer.block)


def _even_part(width: int, channels: int, tile: int, block: int) -> int:
    """Columns of a tile, whole blocks, in a row that has as few and as equal tiles as can be."""
    most = max(tile // channels // block, 1) * block
    even = -(-width // -(-width // most))
    return min(-(-even // block) * block, width)


def taken_columns(graph: Graph, source: Tensor | None, tile: Tile) -> int:
    """Columns of a streamed input that are taken at a time. Of a graph that goes on and on whole
    rows: a row that is there is taken, even if the call that brings it is cancelled."""
    if source is None:
        return 0
    _, width, channels = source.shape
    if tile is None or graph.state.step_rows:
        return width
    return 1 if tile == ONE_COLUMN else _even_part(width, channels, tile, PAIR)


def in_one_piece(layer: Layer[Any]) -> list[int]:
    """Lists the tensors that must not split a call's columns: inputs that are read pixel for
    pixel, OUTPUT."""
    whole = [] if layer.sums else [OUTPUT]
    if layer.by_columns:
        same = Reach.shifted()
        whole += [index for index in range(len(layer.ins)) if layer.reach(index) == same]
    return whole


def operand(layer: Layer[Any], index: int) -> Tensor:
    """A layer's input, or its OUTPUT."""
    return layer.out if index == OUTPUT else layer.ins[index]


def unsplit(plan: Plan, tensor: Tensor, y: int, x: int, columns: int) -> int:
    """Counts those of `columns` pixels of a row from x on in front of the place that splits it."""
    placement = plan.placements[tensor.name]
    _, width, channels = tensor.shape
    at = ((y * width + x) * channels + placement.phase) % placement.ring
    return min(columns, (placement.ring - at) // channels)


def splits_calls(plan: Plan, layer: Layer[Any], tensor: Tensor) -> bool:
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
