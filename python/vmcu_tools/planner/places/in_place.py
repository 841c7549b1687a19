# SPDX-License-Identifier: Apache-2.0
"""Outputs that take the place of the pixels their layer has just read for the last time.

Within a stage a tensor is a ring. Where a layer's calls are the last to need the oldest pixels of
one input, and read each byte of them before they write the same byte of the output, the output may
stand where those pixels stood: both tensors share the ring (vMCU paper, section 4, at the grain of
pixels of a ring). Seen along the ring, the output's pixels trail behind its input's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...ops import Layer
from ...plan.calls import READY, STREAMED, Feed, led
from ...plan.schedule import Stage
from ...plan.trace import Home, Steps, Trace, trace_of

# More than any number of pixels.
NO_PIXEL = 1 << 40


@dataclass(frozen=True, eq=False)
class Guest:
    """A tensor in a ring: its pixel n is at the ring's place n - shift. low, high: by call, its
    pixels that are needed before, during or after the call, from the oldest to the newest."""

    tensor: int
    shift: int
    low: np.ndarray
    high: np.ndarray

    def apart(self, other: Guest) -> bool:
        """True if the two never need the same place of a ring with an unbounded schedule."""
        clash = (self.high > other.low) & (other.high > self.low)
        clash &= self.low < self.high
        clash &= other.low < other.high
        return not clash.any()


@dataclass(frozen=True, eq=False)
class Ring:
    """Who lives in the ring of one tensor. low, high: by call, what all of them together need,
    from the oldest to the newest; NO_PIXEL and -NO_PIXEL for nothing."""

    guests: tuple[Guest, ...]
    low: np.ndarray
    high: np.ndarray

    @staticmethod
    def of(guest: Guest) -> Ring:
        """The ring of one tensor alone."""
        used = guest.low < guest.high
        return Ring(
            (guest,), np.where(used, guest.low, NO_PIXEL), np.where(used, guest.high, -NO_PIXEL)
        )

    def with_also(self, guest: Guest) -> Ring:
        """The ring with one more."""
        alone = Ring.of(guest)
        low, high = np.minimum(self.low, alone.low), np.maximum(self.high, alone.high)
        return Ring((*self.guests, guest), low, high)

    def guest(self, tensor: int) -> Guest:
        """One of those who live in it."""
        return next(guest for guest in self.guests if guest.tensor == tensor)

    @functools.cached_property
    def span(self) -> int:
        """The most pixels from the oldest that is needed at any call to the newest."""
        return max(int((self.high - self.low).max(initial=1)), 1)


def traced(stage: Stage) -> Trace:
    """A stage's trace with outputs in place where they can be."""
    return in_place(trace_of(stage))


def in_place(trace: Trace) -> Trace:
    """The trace with every output that can share its layer's input's ring doing so."""
    return _Sharing(trace).run()


class _Sharing:
    """A search for outputs of a stage that can share a ring. rings: of several tensors, by whose
    they were; owners: by tensor in another's ring, whose that was."""

    def __init__(self, trace: Trace):
        self.trace, self.stage = trace, trace.stage
        self.rings: dict[int, Ring] = {}
        self.owners: dict[int, int] = {}
        self.known: dict[int, Counted] = {}

    def run(self) -> Trace:
        for number, layer in enumerate(self.stage.layers):
            if self.stage.kept[number] or layer.sums:
                continue
            for index, feed in enumerate(self.stage.feeds[number]):
                owner = self.owners.get(feed.producer, feed.producer)
                ring = self._shared(owner, number, index)
                if ring is not None:
                    self.rings[owner], self.owners[number] = ring, owner
                    break
            else:
                if self.stage.loops:
                    self._share_in_turn(number)
        sizes = list(self.trace.rings)
        for owner, ring in self.rings.items():
            sizes[owner] = ring.span
        homes = [Home(number, 0) for number in range(len(sizes))]
        for number, owner in self.owners.items():
            sizes[number] = sizes[owner]
            homes[number] = Home(owner, -self.rings[owner].guest(number).shift % sizes[owner])
        return replace(self.trace, homes=tuple(homes), rings=tuple(sizes))

    def _shared(self, owner: int, number: int, index: int) -> Ring | None:
        """The ring of `owner` with the output of layer `number` in it, which takes the place of the
        layer's input `index`; None if that cannot be, or saves nothing."""
        trace, feed = self.trace, self.stage.feeds[number][index]
        source = feed.producer
        # Rows of the steps before have a later maker.
        if source in (READY, STREAMED) or source >= number or self.stage.kept[source]:
            return None
        if not may_follow(self.stage.layers[number], index):
            return None
        # Rings of whole rows stay what they are: who reads them needs rows in one piece.
        if trace.whole_rows(owner) or trace.whole_rows(number):
            return None
        ring = self.rings.get(owner) or Ring.of(self._counted(owner).guest(owner, 0))
        most = max(ring.span, trace.rings[owner]) + trace.rings[number]
        shift = ring.guest(source).shift + behind(feed)
        return joined(ring, source, number, shift, self._counted, most)

    def _share_in_turn(self, number: int) -> None:
        """Lets the output of a layer of a loop live in the ring of another one that is dead
        meanwhile in every step."""
        trace, new = self.trace, self._counted(number).guest(number, 0)
        for owner in range(number):
            alike = trace.tensors[owner].shape == trace.tensors[number].shape
            if not alike or owner in self.owners or self.stage.kept[owner]:
                continue
            ring = self.rings.get(owner) or Ring.of(self._counted(owner).guest(owner, 0))
            most = max(ring.span, trace.rings[owner]) + trace.rings[number]
            larger = ring.with_also(new)
            if larger.span < most and all(new.apart(other) for other in ring.guests):
                self.rings[owner], self.owners[number] = larger, owner
                return

    def _counted(self, number: int) -> Counted:
        if number not in self.known:
            made, freed = self.trace.made[number], self.trace.freed[number]
            self.known[number] = Counted.of(made, freed, self.trace.calls)
        return self.known[number]


@dataclass(frozen=True, eq=False)
class Counted:
    """Counts of a tensor's pixels after each call: those made, and those that are dead; written:
    the calls that make some."""

    made: np.ndarray
    freed: np.ndarray
    written: np.ndarray

    @staticmethod
    def of(made: Steps, freed: Steps, calls: int) -> Counted:
        """Counts the pixels of `calls` calls."""
        return Counted(_by_call(made, calls), _by_call(freed, calls), made.times)

    def guest(self, number: int, shift: int) -> Guest:
        """The tensor in a ring."""
        return Guest(number, shift, led(self.freed)[:-1] - shift, self.made - shift)


def behind(feed: Feed) -> int:
    """Pixels by which an output trails behind the input that it takes the place of."""
    return feed.before[0] * feed.width + feed.before[1]


def joined(
    ring: Ring, host: int, number: int, shift: int, counted: Callable[[int], Counted], most: int
) -> Ring | None:
    """The ring with a tensor in it that takes the place of another one, its `host`; None if that
    cannot be, or takes `most` pixels. counted: by tensor."""
    written, place = counted(number).written, ring.guest(host).shift
    new = counted(number).guest(number, shift)
    # Each call writes only where its input is dead once the call is over.
    if (new.high[written] > counted(host).freed[written] - place).any():
        return None
    if not all(new.apart(other) for other in ring.guests if other.tensor != host):
        return None
    larger = ring.with_also(new)
    return None if larger.span >= most else larger


def _by_call(steps: Steps, calls: int) -> np.ndarray:
    """Counts the pixels that exist after each call."""
    edges = np.empty(len(steps.times) + 2, np.int64)
    edges[0], edges[1:-1], edges[-1] = 0, steps.times, calls
    return np.repeat(led(steps.pixels), edges[1:] - edges[:-1])


@functools.lru_cache(maxsize=1 << 14)
def may_follow(layer: Layer[Any], index: int) -> bool:
    """True if a layer's output is as large as input `index`, trails behind it at the same pace, and
    within a call no byte of it is written before the byte at its place has been read. Calls in the
    middle of a row read all that any call reads, unless the row is short."""
    reach = layer.reach(index)
    if reach.stride != (1, 1) or layer.out.shape != layer.ins[index].shape or layer.sums:
        return False
    left, across = reach.before[1], -(-layer.width // layer.columns)
    for place in sorted({0, across // 2, across - 1}):
        x = place * layer.columns
        columns = min(layer.columns, layer.width - x)
        reads, writes = (layer.reads_in_call(index, x, columns), layer.writes_in_call(x, columns))
        if reads is None or writes is None:
            return False
        first = max(x - left, 0)
        ours = writes[first + left : x + columns]
        if (ours < reads[first : first + len(ours)]).any():
            return False
    return True
