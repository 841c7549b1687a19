# SPDX-License-Identifier: Apache-2.0
"""The footprint of a stage: bytes of RAM, traced call by call, and cycles.

Inputs of the stage shrink as they are read, its outputs grow; ring buffers of rows or tiles are
between them.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any

from ...graph import Graph
from ...ops import Layer
from ...plan.plan import MOST_CALLS
from ...plan.schedule import Tile, taken_columns
from ..params import DEFAULT_PARAMS, SearchParams
from ..places.layout import Binder, Cut, Layout, Memory
from ..places.pieces import LAYOUTS_KEPT, pieces_of
from .costs import calls_of, extra_cost, reread_cycles
from .lower_bounds import LowerBounds
from .peaks import Peaks

# What a layer costs in a bound and in a trace, whatever its calls, in calls.
FLOOR_WORK, TRACE_WORK = 100, 500


@dataclass(frozen=True, slots=True)
class Option:
    """A stage that could be, what it needs (bytes) and costs (cycles, besides those of its
    layers one by one)."""

    cut: Cut
    peak: int
    cost: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The neighbours of the stages that nodes form in whatever tiles. besides: bytes of tensors
    that outlive the stages untouched; dying: tensors that no later node reads."""

    besides: int
    dying: frozenset[str]


@dataclass(frozen=True, slots=True)
class Shape:
    """A stage as it is traced: its layers, which are bound once each, and the columns of a streamed
    input that are taken at a time.

    cost: cycles besides those of its layers one by one. possible: False if a layer is called more
    often than can be counted. memory: what it keeps besides tensors.
    """

    layers: tuple[Layer[Any], ...] = ()
    taken: int = 0
    cost: int = field(default=0, compare=False)
    possible: bool = field(default=True, compare=False)
    memory: Memory = field(default=Memory(), compare=False)

    @staticmethod
    def of(layers: tuple[Layer[Any], ...], taken: int) -> Shape:
        """The shape of these layers."""
        possible = all(calls_of(layer) <= MOST_CALLS for layer in layers)
        return Shape(layers, taken, sum(map(extra_cost, layers)), possible, Memory.of(layers))

    def followed_by(self, layer: Layer[Any]) -> Shape:
        """The shape with one more layer."""
        possible = self.possible and calls_of(layer) <= MOST_CALLS
        cost, memory = self.cost + extra_cost(layer), self.memory.followed_by(layer)
        return Shape((*self.layers, layer), self.taken, cost, possible, memory)


class Footprints:
    """The footprints of the stages that a graph's nodes may form in their order, each computed
    once.

    streamed: the only input comes row by row. bytes: by tensor; a streamed input has no bytes
    before it is read. single: bytes that each node needs by itself. work: the effort so far, in
    calls of stages times their layers: ten million take about a second. brief: no caller asks by
    how much a stage needs too much.
    """

    def __init__(
        self,
        graph: Graph,
        streamed: bool,
        params: SearchParams = DEFAULT_PARAMS,
        brief: bool = False,
    ):
        self.graph, self.streamed, self.params, self.brief = graph, streamed, params, brief
        self.count = len(graph.nodes)
        self.binder = Binder(graph, params.in_place_alias)
        self.traced: dict[Cut, Option] = {}
        self.shapes: dict[Cut, Shape] = {}
        self.fronts: dict[tuple[int, Tile, int], list[Shape]] = {}
        self.held: dict[Shape, int] = {}
        self.prefix_peaks: dict[tuple[int, Tile, int], list[tuple[int, Layer[Any], int]]] = {}
        self.bounds: dict[Shape, int] = {}
        self.neighbours: dict[tuple[int, int], Surroundings] = {}
        self.layouts: dict[tuple[Cut, ...], Layout] = {}
        self.work = 0
        self.source = graph.tensors[graph.inputs[0].tensor] if streamed else None
        self.bytes = {name: tensor.bytes for name, tensor in graph.tensors.items()}
        if self.source is not None:
            self.bytes[self.source.name] = 0
        self.first = {port.tensor: -1 for port in graph.held}
        self.last = dict.fromkeys(graph.tensors, -1)
        for number, node in enumerate(graph.nodes):
            self.first[node.outputs[0]] = number
            for name in node.inputs:
                self.last[name] = number
        for port in graph.outputs:
            self.last[port.tensor] = self.count
        lives = {name: (first, self.last[name]) for name, first in self.first.items()}
        self.lower_bounds = LowerBounds(graph, lives, self.source)
        self.peaks = Peaks(graph, self.last, self.source, params.in_place_alias)

    @functools.cached_property
    def single(self) -> list[int]:
        """Bytes that each node needs by itself."""
        singles = tuple(Cut(number, number + 1) for number in range(self.count))
        alone = Layout(self.graph, singles, binder=self.binder)
        bounds = [piece.bound() for piece in pieces_of(alone, both_ways=True)]
        return bounds[len(self.graph.held) :]

    def shape(self, cut: Cut) -> Shape:
        """The figures from which a stage's footprint follows."""
        if cut not in self.shapes:
            source = self.source if cut.first == 0 else None
            taken = taken_columns(self.graph, source, cut.tile)
            if cut.larger:
                self.shapes[cut] = Shape.of(self.binder.stage(cut), taken)
            else:
                last = self.binder.in_stage(cut, cut.stop - 1)
                self.shapes[cut] = replace(self._front(cut).followed_by(last), taken=taken)
            if self.params.flash is not None:
                shape = self.shapes[cut]
                again = reread_cycles(shape.layers, self.params.flash)
                self.shapes[cut] = replace(shape, cost=shape.cost + again)
        return self.shapes[cut]

    def _front(self, cut: Cut) -> Shape:
        """The layers of a stage with one tile but the last, which are those of longer ones too."""
        fronts = self.fronts.setdefault((cut.first, cut.tile, cut.direct), [Shape()])
        while len(fronts) < cut.stop - cut.first:
            layer = self.binder.member(cut.first + len(fronts) - 1, cut.tile, cut.direct, False)
            fronts.append(fronts[-1].followed_by(layer))
        return fronts[cut.stop - cut.first - 1]

    def least_held(self, cut: Cut) -> int:
        """Bytes that a stage needs in whatever tiles: what outlives it or is there when it begins,
        and what is there when it is over."""
        after = self.live_bytes[cut.stop]
        if self.source is not None and self.last[self.source.name] >= cut.stop:
            # What it reads of a streamed input that is read later is there when it is over.
            after += self.source.bytes if self.source.name in self.touched(cut) else 0
        return max(self.live_bytes[cut.first], after)

    def known(self, cut: Cut, limit: int, near: bool = False) -> Option | None:
        """A stage's needs and cost; None if it needs more than `limit`. near: it is like one that
        needs no more, of which a bound is not likely to tell more than a trace."""
        if cut not in self.traced:
            shape = self.shape(cut)
            held = self.known_held(cut, shape, limit - shape.memory.bytes, near)
            if held is None:
                return None
            self.traced[cut] = Option(cut, shape.memory.bytes + held, shape.cost)
        return self.traced[cut]

    def known_held(self, cut: Cut, shape: Shape, limit: int, near: bool) -> int | None:
        """Bytes that tensors take in a stage; None if they are more than `limit`. Each is traced
        once, unless a bound tells that they are more; which takes as long, so that it has to be
        likely that it does."""
        if shape in self.held:
            return self.held[shape]
        if self.bounds.setdefault(shape, 0) > limit:
            return None
        around = self.surroundings(cut)
        if self.has_loop(cut.first, cut.stop):
            # The maker of rows of the steps before is behind their reader.
            source = self.source if cut.first == 0 else None
            trace = self.binder.trace(cut, source)
            self.held[shape] = around.besides + trace.peak(around.dying)
            return self.held[shape]
        if self.params.lower_bounds and not near:
            self.work += len(shape.layers) * FLOOR_WORK
            room = limit - around.besides
            layers, taken = shape.layers, shape.taken
            floor = self._prefix_peak_above(cut, shape, room) or self.lower_bounds.floor(
                cut.first, layers, taken, room, self.brief
            )
            self.bounds[shape] = around.besides + floor
            if self.bounds[shape] > limit:
                return None
        peak = self.peaks.peak(cut.first, shape.layers, shape.taken, around.dying)
        self.work += len(shape.layers) * (peak.calls + TRACE_WORK)
        self.held[shape] = around.besides + peak.bytes
        if self.is_prefix(cut):
            known = self.prefix_peaks.setdefault((cut.first, cut.tile, cut.direct), [])
            known.append((len(shape.layers) - 1, shape.layers[-1], peak.before_output))
        return self.held[shape]

    def has_loop(self, first: int, stop: int) -> bool:
        """True if nodes [first, stop) have a loop."""
        return any(first <= loop.start and loop.stop <= stop for loop in self.graph.loops)

    def is_prefix(self, cut: Cut) -> bool:
        """True if longer stages begin with the same calls: all that this one touches dies in it but
        the last layer's output, which others read."""
        out = self.graph.nodes[cut.stop - 1].outputs[0]
        return (
            not cut.larger
            and cut.stop <= self.last[out] < self.count
            and all(0 <= self.last[name] < cut.stop for name in self.touched(cut) - {out})
        )

    def _prefix_peak_above(self, cut: Cut, shape: Shape, room: int) -> int:
        """Bytes above `room` of a traced stage that this one begins with, without its output: a
        lower bound. 0 if there is none."""
        for number, layer, least in self.prefix_peaks.get((cut.first, cut.tile, cut.direct), ()):
            if least <= room or cut.larger or number >= len(shape.layers) - 1:
                continue
            if shape.layers[number] is layer and self.lower_bounds.is_called_fully(
                shape.layers, number, cut.first
            ):
                return least
        return 0

    def layout(self, cuts: tuple[Cut, ...]) -> Layout:
        """The graph in these stages; the last few are kept."""
        if cuts not in self.layouts:
            if len(self.layouts) >= LAYOUTS_KEPT:
                del self.layouts[next(iter(self.layouts))]
            self.layouts[cuts] = Layout(self.graph, cuts, self.streamed, self.binder)
        return self.layouts[cuts]

    def surroundings(self, cut: Cut) -> Surroundings:
        """The neighbours of a stage's nodes."""
        key = cut.first, cut.stop
        if key not in self.neighbours:
            dying = frozenset(name for name in self.touched(cut) if self.last[name] < cut.stop)
            self.neighbours[key] = Surroundings(self.besides(cut), dying)
        return self.neighbours[key]

    def known_bound(self, shape: Shape) -> int:
        """Bytes that tensors are known to take at least in a stage, exactly so if it is traced."""
        return self.held.get(shape, self.bounds.get(shape, 0))

    def touched(self, cut: Cut) -> set[str]:
        """The tensors that a stage reads or writes."""
        nodes = self.graph.nodes[cut.first : cut.stop]
        return {name for node in nodes for name in (*node.inputs, *node.outputs)}

    def besides(self, cut: Cut) -> int:
        """Bytes of tensors that outlive a stage that does not touch them."""
        there = self.live_tensors[cut.first]
        return self.live_bytes[cut.first] - sum(there.get(name, 0) for name in self.touched(cut))

    @functools.cached_property
    def live_bytes(self) -> list[int]:
        """Bytes that are alive when each node begins, and when the last one is over."""
        kept = (name for name, last in self.last.items() if last >= self.count)
        over = sum(self.bytes[name] for name in kept if name in self.first)
        return [*(sum(there.values()) for there in self.live_tensors), over]

    @functools.cached_property
    def live_tensors(self) -> list[dict[str, int]]:
        """The bytes, by tensor, that are alive when each node begins."""
        sizes: list[dict[str, int]] = [{} for _ in range(self.count)]
        for name, first in self.first.items():
            for number in range(first + 1, min(self.last[name] + 1, self.count)):
                sizes[number][name] = self.bytes[name]
        return sizes
