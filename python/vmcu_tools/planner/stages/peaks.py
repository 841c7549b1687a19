# SPDX-License-Identifier: Apache-2.0
"""The most bytes that a stage's tensors take, as trace.py and in_place.py would find, for many
stages that end in the same layers.

Whoever comes in front of a stage's layers leaves the order of their calls as it is. So what
becomes of a tensor, who shares its ring and how large that is follows from the layer that makes it
and those behind it. It is found once, in calls of these alone, and counted in those of all.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...graph import Graph, Tensor
from ...ops import Layer
from ...plan.calls import NOTHING_PLACED, STREAMED, Feed, Grid, Placed
from ...plan.schedule import feed_of
from ...plan.trace import NEVER, ByteCounts, Steps, freed_by, life_of, made_by, needed_by, ring_of
from ...plan.trace import joined as joined_lives
from ..places.in_place import Counted, Ring, behind, joined, may_follow

# Calls, in all, of tails that are kept.
TAIL_CALLS_KEPT = 10_000_000
# By number of a layer from the end, whose output is in a ring, and how many pixels behind the
# first of them, who is the owner.
Tenants = tuple[tuple[int, int], ...]


class Sizes(NamedTuple):
    """Bytes of a ring: those that come to life in some calls, those that are dead after others."""

    born: Steps
    died: Steps


class StagePeak(NamedTuple):
    """The most bytes that a stage's tensors take, and its calls; before_output: the most bytes
    without its last layer's output, and without the rings which that may share."""

    bytes: int
    calls: int
    before_output: int


@dataclass(frozen=True, eq=False)
class Tail:
    """The last layers of stages; numbers count from the end, and that of the foremost is `number`.

    placed: the order of their calls; kept: the foremost one's output outlives the stage; readers:
    of that, within the tail; tails: of each layer, by number; before: with one layer more.
    """

    number: int
    layer: Layer[Any]
    placed: Placed
    kept: bool
    readers: tuple[tuple[int, Feed], ...]
    tails: tuple[Tail, ...]
    unbounded: bool
    before: dict[Layer[Any], Tail] = field(default_factory=dict)
    sharing: dict[tuple[Tenants, int, int], tuple[int, int] | None] = field(default_factory=dict)
    sizes: dict[Tenants, Sizes] = field(default_factory=dict)

    def tail(self, number: int) -> Tail:
        """That of a layer in it."""
        return self if number == self.number else self.tails[number]

    @functools.cached_property
    def whole_rows(self) -> bool:
        """See Stage.whole_rows."""
        readers = (self.tails[number].layer for number, _ in self.readers)
        return not all(layer.by_columns for layer in (self.layer, *readers))

    @functools.cached_property
    def made(self) -> Steps:
        """The pixels that the foremost layer's calls make."""
        return made_by(
            self.placed.at(self.number),
            grid_of(self.layer),
            self.layer.out if self.layer.sums else None,
        )

    @functools.cached_property
    def _needs(self) -> Steps:
        return needed_by(
            (self.placed.at(number), grid_of(self.tails[number].layer), feed)
            for number, feed in self.readers
        )

    @functools.cached_property
    def freed(self) -> Steps:
        """The pixels of its output that are dead after each call."""
        return freed_by(self._needs, self.made, 0)

    @functools.cached_property
    def ring(self) -> int:
        """Pixels of its output's ring, if that is its own."""
        height, width, _ = self.layer.out.shape
        if self.kept:
            return width if self.unbounded else height * width
        piece = width if self.whole_rows else 1
        return ring_of(self.made, self._needs, self.freed, height * width, piece)

    def joined(self, tenants: Tenants, number: int, index: int) -> tuple[int, int] | None:
        """The distance by which a layer's output trails behind in the foremost one's ring, where it
        overwrites the layer's input `index`, and the pixels that the ring then has; None if it does
        not."""
        key = tenants, number, index
        if key not in self.sharing:
            self.sharing[key] = self._joined(*key)
        return self.sharing[key]

    def _joined(self, tenants: Tenants, number: int, index: int) -> tuple[int, int] | None:
        reader = self.tails[number]
        feed = feed_of(reader.layer, index)
        name = reader.layer.ins[index].name
        host, place = next(one for one in tenants if self.tail(one[0]).layer.out.name == name)
        if self.tail(host).kept or not may_follow(reader.layer, index):
            return None
        if self.whole_rows or reader.whole_rows:
            return None
        part = self._part([*(one for one, _ in tenants), number])
        owner, *others = (part.counted(one).guest(one, trails) for one, trails in tenants)
        ring = functools.reduce(Ring.with_also, others, Ring.of(owner))
        shift = place + behind(feed)
        most = max(ring.span, self.ring) + reader.ring
        larger = joined(ring, host, number, shift, part.counted, most)
        return None if larger is None else (shift, larger.span)

    def _part(self, numbers: Sequence[int]) -> Excerpt:
        """The tail's calls that matter to some layers' outputs."""
        tails = {number: self.tail(number) for number in numbers}
        there = {reader for its in tails.values() for reader, _ in its.readers}.union(tails)
        all_at = {number: self.placed.at(number) for number in sorted(there)}
        calls = np.sort(np.concatenate([*all_at.values()]), kind="stable")
        return Excerpt(tails, calls, {n: calls.searchsorted(at) for n, at in all_at.items()})

    @functools.cached_property
    def freed_at(self) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """The calls that free pixels of its output, whatever layers come in front: by reader, the
        indices in `freed` that are its calls, and the numbers of these calls."""
        makers, by_reader = self.placed.makers, []
        by = makers[self.freed.times]
        for reader in sorted({number for number, _ in self.readers}):
            (places,) = (by == reader).nonzero()
            calls = self.placed.at(reader)
            by_reader.append((reader, places, np.searchsorted(calls, self.freed.times[places])))
        return by_reader

    def sizes_of(self, tenants: Tenants, span: int) -> Sizes:
        """Bytes of the foremost layer's output's ring, of so many pixels."""
        if tenants not in self.sizes:
            counts, size = ByteCounts.none(len(self.placed.makers)), self.layer.out.shape[2]
            if len(tenants) == 1:
                counts.add(self.made, None if self.kept else self.freed, span, size)
            else:
                part = self._part([number for number, _ in tenants])
                lives = (
                    life_of(*part.steps(number), span, -shift % span) for number, shift in tenants
                )
                few = ByteCounts.none(len(part.calls))
                few.add_shared(joined_lives(*lives), size)
                counts.born[part.calls], counts.died[part.calls] = few.born, few.died
            self.sizes[tenants] = Sizes(_steps_of(counts.born), _steps_of(counts.died))
        return self.sizes[tenants]


@dataclass(frozen=True, eq=False)
class Excerpt:
    """Some of a tail's calls, those of some layers and of who reads their outputs. tails: of these
    layers; calls: which they are; at: by number of a layer, those of its own."""

    tails: Mapping[int, Tail]
    calls: np.ndarray
    at: Mapping[int, np.ndarray]
    known: dict[int, Counted] = field(default_factory=dict)

    def steps(self, number: int) -> tuple[Steps, Steps]:
        """The pixels of a layer's output that are made, and those that are dead."""
        its = self.tails[number]
        times = np.empty_like(its.freed.times)
        for reader, places, calls in its.freed_at:
            times[places] = self.at[reader][calls]
        return Steps(self.at[number], its.made.pixels), Steps(times, its.freed.pixels)

    def counted(self, number: int) -> Counted:
        """The same by call."""
        if number not in self.known:
            self.known[number] = Counted.of(*self.steps(number), len(self.calls))
        return self.known[number]


def _steps_of(counts: np.ndarray) -> Steps:
    (calls,) = counts.nonzero()
    return Steps(calls, counts[calls])


def grid_of(layer: Layer[Any]) -> Grid:
    """The calls of a layer as a grid."""
    return Grid(layer.height, layer.width, layer.columns)


class Peaks:
    """The peaks of the stages of one graph. last: by tensor, the last node that reads it, -1 for
    none. in_place_alias: see Binder."""

    def __init__(
        self,
        graph: Graph,
        last: Mapping[str, int],
        source: Tensor | None,
        in_place_alias: bool = True,
    ):
        self.graph, self.last, self.source = graph, last, source
        self.in_place_alias = in_place_alias
        self.makers = {node.outputs[0]: number for number, node in enumerate(graph.nodes)}
        self.ends: dict[int, dict[Layer[Any], Tail]] = {}
        self.kept = 0

    def peak(
        self, first: int, layers: Sequence[Layer[Any]], taken: int, dying: frozenset[str]
    ) -> StagePeak:
        """Bytes that the tensors of a stage of these layers take at most, those that outlive it
        untouched aside. first: its first node; taken: columns of the streamed input that it takes
        at a time, 0 if it takes none; dying: tensors that nobody reads later."""
        tail = self._tail(first, layers)
        placed = tail.placed
        if taken:
            assert self.source is not None
            placed = placed.with_source(Grid(*self.source.shape[:2], taken))
        rings, counts = self._rings(first, tail), ByteCounts.none(len(placed.makers))
        last = tail.tail(0).layer
        hosts = {tensor.name for n, tensor in enumerate(last.ins) if may_follow(last, n)}
        of_output = {
            owner
            for owner, (tenants, _) in rings.items()
            if owner == 0 or any(tail.tail(n).layer.out.name in hosts for n, _ in tenants)
        }
        self._add_outside(counts, first, tail, placed, taken, dying)
        peaks = []
        for owners in (rings.keys() - of_output, of_output):
            for owner in owners:
                sizes = tail.tail(owner).sizes_of(*rings[owner])
                (calls,) = (placed.makers <= owner).nonzero()
                counts.born[calls[sizes.born.times]] += sizes.born.pixels
                counts.died[calls[sizes.died.times]] += sizes.died.pixels
            peaks.append(counts.peak)
        return StagePeak(peaks[1], len(placed.makers), before_output=peaks[0])

    def _tail(self, first: int, layers: Sequence[Layer[Any]]) -> Tail:
        if self.kept > TAIL_CALLS_KEPT:
            self.ends.clear()
            self.kept = 0
        stop, tail = first + len(layers), None
        known = self.ends.setdefault(stop, {})
        for layer in reversed(layers):
            if layer not in known:
                known[layer] = self._with(tail, stop, layer)
                self.kept += len(known[layer].placed.makers)
            tail = known[layer]
            known = tail.before
        assert tail is not None, "a stage has layers"
        return tail

    def _with(self, tail: Tail | None, stop: int, layer: Layer[Any]) -> Tail:
        """The tail of stages that end in front of node `stop` with a layer in front of it."""
        tails = () if tail is None else (*tail.tails, tail)
        placed = NOTHING_PLACED if tail is None else tail.placed
        name, here = layer.out.name, len(tails)
        own = tuple(
            feed_of(layer, index, self._producer(tensor.name, stop))
            for index, tensor in enumerate(layer.ins)
            if tensor.name in self.makers or self._streams(tensor.name)
        )
        kept = not 0 <= self.last[name] < stop
        readers = tuple(
            (number, feed_of(one.layer, index))
            for number, one in enumerate(tails)
            for index, tensor in enumerate(one.layer.ins)
            if tensor.name == name
        )
        placed = placed.led_by(grid_of(layer), own, kept)
        return Tail(here, layer, placed, kept, readers, tails, self.graph.state.step_rows > 0)

    def _producer(self, name: str, stop: int) -> int:
        return STREAMED if self._streams(name) else stop - 1 - self.makers[name]

    def _streams(self, name: str) -> bool:
        return self.source is not None and name == self.source.name

    def _rings(self, first: int, tail: Tail) -> dict[int, tuple[Tenants, int]]:
        """The tenants of each owner's ring in a stage, and the ring's pixels; the foremost layers
        first, as in_place.py does."""
        stop = first + tail.number + 1
        rings: dict[int, tuple[Tenants, int]] = {}
        owners: dict[int, int] = {}
        for number in reversed(range(tail.number + 1)):
            its = tail.tail(number)
            if self.in_place_alias and not its.kept and not its.layer.sums:
                for index, tensor in enumerate(its.layer.ins):
                    maker = self.makers.get(tensor.name, -1)
                    if maker < first:
                        continue
                    owner = owners.get(stop - 1 - maker, stop - 1 - maker)
                    tenants = rings[owner][0]
                    place = tail.tail(owner).joined(tenants, number, index)
                    if place is not None:
                        rings[owner] = (*tenants, (number, place[0])), place[1]
                        owners[number] = owner
                        break
            if number not in owners:
                rings[number] = ((number, 0),), its.ring
        return rings

    def _add_outside(
        self,
        counts: ByteCounts,
        first: int,
        tail: Tail,
        placed: Placed,
        taken: int,
        dying: frozenset[str],
    ) -> None:
        """Adds what comes from outside of a stage."""
        outside: dict[str, Tensor] = {}
        readers: dict[str, list[tuple[np.ndarray, Grid, Feed]]] = {}
        for number in reversed(range(tail.number + 1)):
            layer = tail.tail(number).layer
            for index, tensor in enumerate(layer.ins):
                if self.makers.get(tensor.name, -1) < first:
                    outside[tensor.name] = tensor
                    reader = placed.at(number), grid_of(layer), feed_of(layer, index)
                    readers.setdefault(tensor.name, []).append(reader)
        for name, tensor in outside.items():
            pixels = tensor.shape[0] * tensor.shape[1]
            if taken and self._streams(name):
                made = made_by(placed.at(tail.number + 1), Grid(*tensor.shape[:2], taken))
                needs = needed_by(readers[name])
                freed = freed_by(needs, made, 0)
                ring = ring_of(made, needs, freed, pixels, 1)
                counts.add(made, freed if name in dying else None, ring, tensor.shape[2])
            elif name in dying:
                freed = freed_by(needed_by(readers[name]), NEVER, pixels)
                counts.add_outside(freed, tensor.shape[2])
            else:
                counts.there += tensor.bytes
