# SPDX-License-Identifier: Apache-2.0
"""When each layer of a stage is called: the demand-driven order of schedule.py, all at once.

Layers are put into the order from the last to the first. A layer's calls are inserted where those
that are there already want them: in front of the call that does, or of the calls that this call's
later inputs want. A layer in front of a stage's layers therefore leaves their order as it is, and
it is computed once for all stages that end with them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

# The producer of an input that no layer of the stage makes.
READY = -1
STREAMED = -2
# The turns of a layer that make the first so many pixels.
TurnsFor = Callable[[np.ndarray], np.ndarray]
# Less than any number of pixels, whatever is added to it.
NOTHING = -(1 << 40)
# Calls, in all, of orders that are kept for stages which end with the same layers.
MOST_KEPT = 10_000_000


class Grid(NamedTuple):
    """A layer's calls, row by row: rows, columns of a row, columns of a call."""

    height: int
    width: int
    columns: int

    @property
    def across(self) -> int:
        """Calls of a row."""
        return -(-self.width // self.columns)

    @property
    def count(self) -> int:  # type: ignore[override] # of calls, not of tuples
        """Calls in all."""
        return self.height * self.across

    def calls_for(self, pixels: np.ndarray) -> np.ndarray:
        """Calls that make the first so many pixels."""
        if self.columns >= self.width:
            whole: np.ndarray = -(-np.maximum(pixels, 0) // self.width)
            return whole
        rows, rest = np.divmod(np.maximum(pixels, 0), self.width)
        calls: np.ndarray = rows * self.across + -(-rest // self.columns)
        return calls


class Feed(NamedTuple):
    """An input of a layer: its producer (a layer of the stage, READY or STREAMED), its height
    and width, and how an output pixel looks at it, see Reach."""

    producer: int
    height: int
    width: int
    stride: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]


@functools.lru_cache(maxsize=1 << 14)
def ends(grid: Grid) -> np.ndarray:
    """Pixels, in raster order, that are made once each call is over."""
    columns = np.minimum(np.arange(1, grid.across + 1) * grid.columns, grid.width)
    return (np.arange(grid.height)[:, None] * grid.width + columns).ravel()


@functools.lru_cache(maxsize=1 << 14)
def wanted(grid: Grid, feed: Feed) -> np.ndarray:
    """Pixels of an input, in raster order, that must exist for each call of a layer and those
    before it."""
    rows = np.arange(grid.height) * feed.stride[0] + feed.after[0]
    rows = np.minimum(rows, feed.height - 1)
    rows = np.where(rows >= 0, rows * feed.width, NOTHING)
    lasts = np.minimum(np.arange(1, grid.across + 1) * grid.columns, grid.width) - 1
    columns = np.minimum(lasts * feed.stride[1] + feed.after[1], feed.width - 1) + 1
    pixels = rows[:, None] + np.maximum(columns, 0)
    return np.maximum.accumulate(np.maximum(pixels, 0).ravel())


@functools.lru_cache(maxsize=1 << 14)
def oldest(grid: Grid, feed: Feed) -> np.ndarray:
    """The first pixel of an input, in raster order, that a layer may read once each call is over;
    all of its pixels after the last."""
    y, x = np.divmod(np.append(ends(grid)[:-1], 0), grid.width)
    row = np.maximum(y * feed.stride[0] - feed.before[0], 0)
    column = np.clip(x * feed.stride[1] - feed.before[1], 0, feed.width)
    below = np.maximum((y + 1) * feed.stride[0] - feed.before[0], 0)
    pixels = np.minimum(row * feed.width + column, below * feed.width)
    pixels[-1] = feed.height * feed.width
    result: np.ndarray = pixels
    return result


@dataclass(frozen=True, eq=False)
class Order:
    """The order of a stage's calls. at: by layer, and last of the streamed input, where its calls
    are among all `count`, int64, ascending."""

    count: int
    at: tuple[np.ndarray, ...]

    @property
    def makers(self) -> np.ndarray:
        """Returns the layer of each call."""
        layers = np.zeros(self.count, np.int64)
        for number, at in enumerate(self.at):
            layers[at] = number
        return layers

    def begun_with(self, calls: int) -> Order:
        """The order with so many calls of the first layer, which wants nothing of the others, in
        front of all others."""
        early = self.at[0][:calls]
        first = np.concatenate([np.arange(len(early)), self.at[0][calls:]])
        others = (at + len(early) - np.searchsorted(early, at) for at in self.at[1:])
        return Order(self.count, (first, *others))


def led(counts: np.ndarray) -> np.ndarray:
    """Counts after none, one, two and so on of their items."""
    counted = np.zeros(len(counts) + 1, counts.dtype)
    counted[1:] = counts
    return counted


def order_of(
    grids: Sequence[Grid],
    feeds: Sequence[Sequence[Feed]],
    kept: Sequence[bool],
    loops: Sequence[range] = (),
) -> Order:
    """The order for layers with these grids and feeds, of which those that are `kept` make all of
    their calls. The streamed input, if there is one, is the last of the grids and has no feeds.
    loops: layers that make each row in turns."""
    placed, ends_with = NOTHING_PLACED, {loop.stop - 1: loop for loop in loops}
    for number in reversed(range(len(feeds))):
        loop = ends_with.get(number)
        if loop is not None:
            placed = placed.with_loop(loop, grids, feeds, any(kept[n] for n in loop))
        elif not any(number in other for other in loops):
            placed = placed.with_layer(number, grids[number], feeds[number], kept[number])
    if len(grids) > len(feeds):
        placed = placed.with_source(grids[-1])
    by_layer = np.argsort(placed.makers, kind="stable")
    ends_at = np.cumsum(np.bincount(placed.makers, minlength=len(grids)))
    at = np.split(by_layer, ends_at[:-1])
    layers = at[: len(feeds)]
    return Order(len(placed.makers), (*reversed(layers), *at[len(feeds) :]))


@dataclass(frozen=True, eq=False)
class Placed:
    """The calls of the last layers of a stage, which are counted from its end.

    feeds: by layer, its inputs that other layers of the stage make, by their numbers. makers: by
    call, its layer; known: the results of at(). starts: by layer with several such inputs, for each
    of its calls and each of these but the first, where the call's part of that input begins.
    before: by layer in front, both together. kept: calls in all that are kept so.
    """

    grids: tuple[Grid, ...]
    feeds: tuple[tuple[Feed, ...], ...]
    makers: np.ndarray
    starts: Mapping[int, Sequence[np.ndarray]]
    before: dict[object, Placed] = field(default_factory=dict)
    known: dict[int, np.ndarray] = field(default_factory=dict)
    kept: ClassVar[int] = 0

    def at(self, number: int) -> np.ndarray:
        """Which calls are a layer's, int64, ascending."""
        if number not in self.known:
            (self.known[number],) = (self.makers == number).nonzero()
        return self.known[number]

    def with_layer(self, number: int, grid: Grid, feeds: Sequence[Feed], kept: bool) -> Placed:
        """Puts layer `number`, as it and the producers of its `feeds` are counted in the stage,
        in front of these."""
        own = self.own_feeds(len(self.feeds), number, feeds, number)
        key = grid, own, kept
        if key not in self.before:
            if Placed.kept > MOST_KEPT:
                Placed.kept = 0
                NOTHING_PLACED.before.clear()
            self.before[key] = self.led_by(grid, own, kept)
            Placed.kept += len(self.before[key].makers)
        return self.before[key]

    def with_loop(
        self, loop: range, grids: Sequence[Grid], feeds: Sequence[Sequence[Feed]], kept: bool
    ) -> Placed:
        """Puts the layers of a loop in front of these: where one of them wants a row, all make it.
        grids, feeds: of all layers of the stage."""
        here, members = len(self.feeds), loop[::-1]
        numbers = {member: here + place for place, member in enumerate(members)}
        step = [np.full(grids[member].across, numbers[member], np.int16) for member in loop]
        own = tuple(
            self.own_feeds(numbers[member], member, feeds[member], loop.start) for member in members
        )
        rows = {
            numbers[member]: grids[member]._replace(columns=grids[member].width).calls_for
            for member in members
        }
        makers, starts = self._inserted(rows, np.concatenate(step))
        height = grids[loop.start].height
        if kept:
            made = np.count_nonzero(makers == numbers[loop.start]) // grids[loop.start].across
            rest = np.tile(np.concatenate(step), height - made)
            makers = np.concatenate([makers, rest])
        for number, its in zip(numbers.values(), own, strict=True):
            if len(its) > 1:
                starts[number] = [np.flatnonzero(makers == number)] * (len(its) - 1)
        behind = (grids[member] for member in members)
        return Placed((*self.grids, *behind), (*self.feeds, *own), makers, starts)

    def own_feeds(
        self, here: int, number: int, feeds: Sequence[Feed], first: int
    ) -> tuple[Feed, ...]:
        """The feeds of layer `number`, which is `here` from the end, that those in front of layer
        `first` make; their producers are counted as it is, and then from the end."""
        return tuple(
            feed._replace(producer=here + number - feed.producer) if feed.producer >= 0 else feed
            for feed in feeds
            if feed.producer != READY and feed.producer < first
        )

    def led_by(self, grid: Grid, own: tuple[Feed, ...], kept: bool) -> Placed:
        """Puts a layer in front of these. own: see own_feeds()."""
        here = len(self.feeds)
        makers, starts = self._inserted({here: grid.calls_for}, np.array([here], np.int16))
        if kept:
            rest = grid.count - np.count_nonzero(makers == here)
            makers = np.concatenate([makers, np.full(rest, here, makers.dtype)])
        if len(own) > 1:
            starts[here] = [np.flatnonzero(makers == here)] * (len(own) - 1)
        return Placed((*self.grids, grid), (*self.feeds, own), makers, starts)

    def with_source(self, grid: Grid) -> Placed:
        """Puts the streamed input in front of all."""
        number = np.array([len(self.feeds)], np.int16)
        makers, starts = self._inserted({STREAMED: grid.calls_for}, number)
        return Placed((*self.grids, grid), self.feeds, makers, starts)

    def _inserted(
        self, turns_for: Mapping[int, TurnsFor], turn: np.ndarray
    ) -> tuple[np.ndarray, dict[int, list[np.ndarray]]]:
        """Makers and starts with turns of some layers inserted where they are wanted. turns_for: by
        producer; turn: the makers of a turn's calls."""
        places, keys, needs = self._wants(turns_for)
        if not len(places):
            return self.makers, {reader: [*starts] for reader, starts in self.starts.items()}
        calls = led(np.maximum.accumulate(needs)) * len(turn)
        more, count = calls[1:] - calls[:-1], len(self.makers)
        moved = np.cumsum(np.bincount(places, more, count)[:count].astype(np.int64))
        wanted_from = {}
        for reader, starts in self.starts.items():
            at = self.at(reader)
            wanted_from[reader] = [
                start + calls[np.searchsorted(keys, self._key(start, at, block), "left")]
                for block, start in enumerate(starts, 1)
            ]
        makers = np.empty(count + int(calls[-1]), np.int16)
        here = np.arange(count) + moved
        new = np.ones(len(makers), bool)
        new[here] = False
        makers[here], makers[new] = self.makers, np.tile(turn, int(calls[-1]) // len(turn))
        return makers, wanted_from

    def _wants(
        self, turns_for: Mapping[int, TurnsFor]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The layers that want turns of others, in the order in which they do: where, by which key,
        and how many turns, those before included."""
        wants = []
        for reader, feeds in enumerate(self.feeds):
            if all(feed.producer not in turns_for for feed in feeds):
                continue
            at = self.at(reader)
            starts = [*self.starts.get(reader, ()), at]
            for block, feed in enumerate(feeds):
                if feed.producer in turns_for:
                    pixels = wanted(self.grids[reader], feed)[: len(at)]
                    keys = self._key(starts[block], at, block)
                    wants.append((starts[block], keys, turns_for[feed.producer](pixels)))
        if len(wants) == 1:
            return wants[0]
        if not wants:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, nothing
        places, keys, needs = (np.concatenate(parts) for parts in zip(*wants, strict=True))
        order = np.argsort(keys)
        return places[order], keys[order], needs[order]

    def _key(self, place: np.ndarray, at: np.ndarray, block: int) -> np.ndarray:
        """Rises with the order in which calls `at` want their input `block` at a place: a later
        layer there is an input of the others, and wants its own first."""
        count = len(self.makers) + 1
        keys: np.ndarray = (place * count + count - at) * (max(map(len, self.feeds)) + 1) + block
        return keys


NOTHING_PLACED = Placed((), (), np.zeros(0, np.int16), {})
