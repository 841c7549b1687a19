# SPDX-License-Identifier: Apache-2.0
"""A graph in fused stages, before anything has an address: the live range of every byte."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...graph import Graph, Tensor
from ...ops import Form, Layer, bind, serves
from ...plan.calls import ends
from ...plan.plan import PROGRESS_BYTES, SCRATCH_ALIGN, pool_scratch
from ...plan.schedule import Stage, Tile, kept_outputs, stage_of, taken_columns, tile_width
from ...plan.trace import Home, Trace, trace_of
from .hops import in_hop
from .in_place import traced
from .overlap import Clearance

BEFORE = -1
# Calls, of which there may be one for each pixel: half the memory of int64.
CALLS = np.int32
OUTLIVES = 1 << 30
# Pairs of runs that are compared one by one; beyond, the time a new tensor dies is ignored.
MAX_PAIRS = 4_000_000


@dataclass(frozen=True, eq=False)
class Profile:
    """When the pixels of a tensor's ring, `size` bytes each, are first written and last read."""

    birth: np.ndarray
    death: np.ndarray
    size: int

    @property
    def bytes(self) -> int:
        """Bytes of the ring."""
        return len(self.birth) * self.size

    @functools.cached_property
    def runs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Start and stop (bytes), birth and death of each run of pixels with the same life."""
        changed = np.flatnonzero(np.diff(self.birth) | np.diff(self.death)) + 1
        starts = np.concatenate([[0], changed])
        stops = np.concatenate([changed, [len(self.birth)]])
        return starts * self.size, stops * self.size, self.birth[starts], self.death[starts]

    def lives_in(self, start: int, stop: int) -> bool:
        """True if it may be alive at any time from `start` on and before `stop`."""
        return bool(len(self.birth)) and self._first < stop and self._last >= start

    @functools.cached_property
    def _first(self) -> int:
        return int(self.birth.min())

    @functools.cached_property
    def _last(self) -> int:
        return int(self.death.max())


def apart(new: Profile, old: Profile) -> Clearance:
    """The distances (old base - new base) at which no byte of the two is needed twice at once."""
    new_start, new_stop, new_birth, new_death = new.runs
    old_start, old_stop, old_birth, old_death = old.runs
    clash = new_birth[None, :] <= old_death[:, None]
    if clash.size <= MAX_PAIRS:
        clash &= old_birth[:, None] <= new_death[None, :]
    some = clash.any(axis=1)
    if not some.any():
        return Clearance(-old.bytes, new.bytes)
    # Runs ascend: the first and the last that clash are the lowest and the highest.
    first, last = clash.argmax(axis=1), clash.shape[1] - 1 - clash[:, ::-1].argmax(axis=1)
    below = (new_stop[last] - old_start)[some].max()
    above = (new_start[first] - old_stop)[some].min()
    return Clearance(int(below), int(above))


@dataclass(frozen=True, eq=False)
class Group:
    """Consecutive layers that form one stage. trace: None for a layer on its own; start: the
    number of its first call."""

    layers: tuple[Layer[Any], ...]
    trace: Trace | None
    start: int

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Those inside of the stage, which rings hold."""
        return () if self.trace is None else self.trace.tensors

    @property
    def homes(self) -> tuple[Home, ...]:
        """The home of each tensor, in a stage of several layers."""
        return () if self.trace is None else self.trace.homes

    @property
    def calls(self) -> int:
        """The number of calls that the stage makes."""
        return self.layers[0].height if self.trace is None else self.trace.calls


@dataclass(frozen=True, slots=True)
class Memory:
    """The bytes that a stage stores in the pool besides tensors: first the progress of each layer,
    then scratch that the layers share, then the sums of layers that sum."""

    layers: int = 0
    shared: int = 0
    sums: int = 0

    @staticmethod
    def of(layers: Sequence[Layer[Any]]) -> Memory:
        """The memory of a stage of these layers."""
        return functools.reduce(Memory.followed_by, layers, Memory())

    def followed_by(self, layer: Layer[Any]) -> Memory:
        """The memory of the stage with one more layer."""
        size = pool_scratch(layer)
        if layer.sums:
            return Memory(self.layers + 1, self.shared, self.sums + size)
        return Memory(self.layers + 1, max(self.shared, size), self.sums)

    @property
    def progress(self) -> int:
        """Bytes of how far each layer has come."""
        return -(-self.layers * PROGRESS_BYTES // SCRATCH_ALIGN) * SCRATCH_ALIGN

    @property
    def bytes(self) -> int:
        """All of it."""
        return self.progress + self.shared + self.sums

    def scratch(self, layer: Layer[Any]) -> tuple[int, int]:
        """Offset and bytes of a layer's scratch."""
        if layer.sums:
            return self.progress + self.shared, self.sums
        return self.progress, self.shared


@dataclass(frozen=True)
class Cut:
    """Nodes [first, stop) as one stage, worked in tiles of rows. direct: layers that want so many
    bytes of scratch in the pool, or more, do without as far as they can, see Form; 0: none does.
    larger: by layer its own tile, for those that work in larger ones than the others. ahead: the
    first layer begins by filling its ring, see Binder.ahead()."""

    first: int
    stop: int
    tile: Tile = None
    direct: int = 0
    larger: tuple[tuple[int, Tile], ...] = ()
    ahead: bool = False

    @functools.cached_property
    def _larger(self) -> dict[int, Tile]:
        return dict(self.larger)

    def tile_of(self, number: int) -> Tile:
        """The tile of node `number`."""
        return self._larger.get(number, self.tile)


class Binder:
    """The layers of a graph as stages use them, each bound once. in_place_alias: outputs may take
    the place of inputs in their rings."""

    def __init__(self, graph: Graph, in_place_alias: bool = True):
        self.graph, self.in_place_alias = graph, in_place_alias
        self.bound: dict[tuple[int, int | None, Form], Layer[Any]] = {}
        self.chosen: dict[tuple[int, Tile, int, bool], Layer[Any]] = {}
        self.turned: dict[int, Layer[Any]] = {}
        self.traces: dict[Cut, Trace] = {}

    def layer(self, number: int, tile: Tile = None, form: Form = Form.USUAL) -> Layer[Any]:
        """Node `number` in tiles."""
        layer = self._bind(number, None, form)
        columns = tile_width(layer, tile)
        return layer if columns == layer.width else self._bind(number, columns, form)

    def _bind(self, number: int, columns: int | None, form: Form) -> Layer[Any]:
        key = (number, columns, form)
        if key not in self.bound:
            node = self.graph.nodes[number]
            self.bound[key] = bind(self.graph, node, columns=columns, form=form)
        return self.bound[key]

    def serves(self, number: int, form: Form) -> bool:
        """True if a node can work in a form."""
        return serves(self.graph, self.graph.nodes[number], form)

    def descending(self, layer: Layer[Any]) -> Layer[Any]:
        """A layer from its last row to its first."""
        if id(layer) not in self.turned:
            self.turned[id(layer)] = bind(self.graph, layer.node, descending=True)
        return self.turned[id(layer)]

    def trace(self, cut: Cut, source: Tensor | None) -> Trace:
        """The trace of a stage's tensors."""
        if cut not in self.traces:
            stage = self.scheduled(cut, self.stage(cut), source)
            if cut.ahead:
                stage = replace(
                    stage, ahead=self.full_ring_calls(replace(cut, ahead=False), source)
                )
            self.traces[cut] = traced(stage) if self.in_place_alias else trace_of(stage)
        return self.traces[cut]

    def full_ring_calls(self, cut: Cut, source: Tensor | None) -> int:
        """The number of calls of a stage's first layer that fill its ring, which is as large
        anyway.

        On demand, a ring is filled while the output already grows. If it is full before, the output
        begins when more of the input has been read, and may overwrite more of its bytes. A stream,
        or an unbounded schedule, begins when its rows come.
        """
        trace = self.trace(cut, source)
        stage = trace.stage
        if source is not None or stage.unbounded or stage.kept[0]:
            return 0
        return int(np.searchsorted(ends(stage.grids[0]), trace.rings[0], "right"))

    def scheduled(self, cut: Cut, layers: Sequence[Layer[Any]], source: Tensor | None) -> Stage:
        """A stage of these layers, with the streamed input, if it is the first, as `source`."""
        kept = kept_outputs(self.graph, self.graph.nodes[cut.first : cut.stop])
        taken = taken_columns(self.graph, source, cut.tile)
        return stage_of(layers, kept, source, taken, self.graph.state.step_rows > 0)

    def stage(self, cut: Cut) -> tuple[Layer[Any], ...]:
        """A stage's layers."""
        return tuple(self.in_stage(cut, number) for number in range(cut.first, cut.stop))

    def in_stage(self, cut: Cut, number: int) -> Layer[Any]:
        """Node `number` as a stage uses it; the last sums if it can, so that its input need not be
        whole."""
        return self.member(number, cut.tile_of(number), cut.direct, number == cut.stop - 1)

    def member(self, number: int, tile: Tile, direct: int, last: bool) -> Layer[Any]:
        """Node `number` as in_stage() has it, in a stage whose last one it is or is not."""
        key = (number, tile, direct, last)
        if key not in self.chosen:
            self.chosen[key] = self._chosen(*key)
        return self.chosen[key]

    def _chosen(self, number: int, tile: Tile, direct: int, last: bool) -> Layer[Any]:
        form = Form.USUAL
        if last and self.serves(number, Form.SUMMING):
            form = Form.SUMMING
        elif 0 < direct <= pool_scratch(self.layer(number, tile)):
            form = Form.DIRECT if self.serves(number, Form.DIRECT) else Form.USUAL
        return self.layer(number, tile, form)


class Layout:
    """A graph in stages. `streamed`: its only input comes row by row, in the first stage."""

    def __init__(
        self,
        graph: Graph,
        cuts: tuple[Cut, ...],
        streamed: bool = False,
        binder: Binder | None = None,
    ):
        self.graph = graph
        self.binder = binder or Binder(graph)
        self.cuts = cuts
        self.streamed = streamed
        self.kept = {port.tensor for port in graph.outputs}
        self.last_reader = {
            name: number for number, node in enumerate(graph.nodes) for name in node.inputs
        }
        self.groups = tuple(self._groups())
        self.group_of = {
            layer.out.name: number
            for number, group in enumerate(self.groups)
            for layer in group.layers
        }
        self.last_group = {
            name: next(n for n, cut in enumerate(cuts) if reader < cut.stop)
            for name, reader in self.last_reader.items()
        }
        self.births: dict[str, np.ndarray] = {}
        self.deaths: dict[str, np.ndarray] = {}
        self._profiles: dict[str, Profile] = {}
        self._simulate()

    @staticmethod
    def singles(graph: Graph) -> Layout:
        """Every layer a stage of its own."""
        return Layout(graph, tuple(Cut(n, n + 1) for n in range(len(graph.nodes))))

    @property
    def source(self) -> Tensor | None:
        """The streamed input."""
        return self.graph.tensors[self.graph.inputs[0].tensor] if self.streamed else None

    def profile(self, name: str) -> Profile:
        """When each pixel of a tensor's ring is first written and last read."""
        if name not in self._profiles:
            size = self.graph.tensors[name].shape[2]
            self._profiles[name] = Profile(self.births[name], self.deaths[name], size)
        return self._profiles[name]

    def splits_rows(self, name: str) -> bool:
        """True if a tensor's ring ends within a row, or one that lives in it begins within one: the
        pool's end, which rows do not reach around, may not be in such a ring."""
        width = self.graph.tensors[name].shape[1]
        begins = self._begins.get(name, ())
        return any(pixels % width for pixels in (len(self.births[name]), *begins))

    @functools.cached_property
    def _begins(self) -> dict[str, list[int]]:
        """The first pixels, in a tensor's ring, of the tensors that live in it."""
        phases: dict[str, list[int]] = {}
        for group in self.groups:
            for home in group.homes:
                phases.setdefault(group.tensors[home.owner].name, []).append(home.phase)
        return phases

    def ring_bytes(self, name: str) -> int:
        """Bytes that a tensor's ring takes."""
        return len(self.births[name]) * self.graph.tensors[name].shape[2]

    def _groups(self) -> Iterator[Group]:
        start = 0
        for number, cut in enumerate(self.cuts):
            layers: tuple[Layer[Any], ...] = (self.binder.layer(cut.first),)
            trace = None
            source = self.source if number == 0 else None
            if cut.stop - cut.first > 1 or source is not None:
                layers = self.binder.stage(cut)
                trace = self.binder.trace(cut, source)
            group = Group(layers, trace, start)
            start += group.calls
            yield group

    def _simulate(self) -> None:
        for port in self.graph.held:
            if not self.streamed:
                self._born(self.graph.tensors[port.tensor], None)
        for group in self.groups:
            if group.trace is None:
                self._simulate_layer(group)
            else:
                self._simulate_stage(group, group.trace)
        for name in self.kept:
            self.deaths[name][:] = OUTLIVES

    def _born(self, tensor: Tensor, ring: int | None) -> None:
        pixels = ring or tensor.shape[0] * tensor.shape[1]
        self.births[tensor.name] = np.full(pixels, BEFORE, CALLS)
        self.deaths[tensor.name] = np.full(pixels, BEFORE, CALLS)

    def _simulate_layer(self, group: Group) -> None:
        layer = group.layers[0]
        self._born(layer.out, None)
        times = group.start + np.arange(layer.height)
        rows = np.repeat(times, layer.out.shape[0] * layer.out.shape[1] // layer.height)
        self.births[layer.out.name][:] = rows
        self.deaths[layer.out.name][:] = rows
        for index, tensor in enumerate(layer.ins):
            if tensor.name not in self.deaths:
                # Of a loop, which is one stage in every plan.
                continue
            deaths = self.deaths[tensor.name].reshape(tensor.shape[:2])
            for y in range(layer.height):
                read = layer.input_rows(index, y)
                deaths[read.start : read.stop : read.step] = group.start + y

    def _simulate_stage(self, group: Group, trace: Trace) -> None:
        for number, tensor in enumerate(trace.tensors):
            births, deaths = trace.lives[number]
            if trace.homes[number].owner != number:
                self.births[tensor.name] = self.deaths[tensor.name] = np.zeros(0, CALLS)
                continue
            if number < trace.own:
                self._born(tensor, trace.rings[number])
                if self.graph.state.step_rows:
                    first, last = in_hop(trace, number)
                    self.births[tensor.name][:] = group.start + first
                    self.deaths[tensor.name][:] = OUTLIVES if last is None else group.start + last
                    continue
                used = births >= 0
                self.births[tensor.name][used] = births[used] + group.start
            used = deaths >= 0
            self.deaths[tensor.name][used] = deaths[used] + group.start
