# SPDX-License-Identifier: Apache-2.0
"""When each layer of a stage is called: the demand-driven order of schedule.py, all at once.

Layers are put into the order from the last to the first. A layer's calls are inserted where those
that are there already want them: in front of the call that does, or of the calls that this call's
later inputs want. Whoever comes in front of a stage's layers therefore leaves their order as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

# Who makes an input, where it is no layer of the stage.
READY = -1
STREAMED = -2
# Less than any number of pixels, whatever is added to it.
NOTHING = -(1 << 40)


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
    def count(self) -> int:
        """Calls in all."""
        return self.height * self.across

    def calls_for(self, pixels: np.ndarray) -> np.ndarray:
        """Calls that make the first so many pixels."""
        rows, rest = np.divmod(np.maximum(pixels, 0), self.width)
        return rows * self.across + -(-rest // self.columns)


class Feed(NamedTuple):
    """An input of a layer: who makes it (a layer of the stage, READY or STREAMED), its height and
    width, and how an output pixel looks at it, see Reach."""

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
    found = np.minimum(row * feed.width + column, below * feed.width)
    found[-1] = feed.height * feed.width
    return found


@dataclass(frozen=True, eq=False)
class Order:
    """The order of a stage's calls. at: by layer, and last of the streamed input, where its calls
    are among all `count`, int64, ascending."""

    count: int
    at: tuple[np.ndarray, ...]

    @property
    def makers(self) -> np.ndarray:
        """By call, whose it is."""
        found = np.zeros(self.count, np.int64)
        for number, at in enumerate(self.at):
            found[at] = number
        return found


def order_of(grids: Sequence[Grid], feeds: Sequence[Sequence[Feed]], kept: Sequence[bool]) -> Order:
    """The order for layers with these grids and feeds, of which those that are `kept` make all of
    their calls. The streamed input, if there is one, is the last of the grids and has no feeds."""
    placing = _Placing(grids, feeds)
    layers = range(len(feeds))
    for number in reversed(layers):
        placing.insert(number, number)
        if kept[number]:
            placing.append(number)
        placing.open(number)
    if len(grids) > len(feeds):
        placing.insert(len(feeds), STREAMED)
    return Order(len(placing.makers), tuple(map(placing.at, range(len(grids)))))


class _Placing:
    """The calls of layers from some layer on.

    makers: by call, whose it is. starts: by layer with several inputs from the stage, for each
    of its calls and each such input but the first, where what the call wants of that input begins.
    """

    def __init__(self, grids: Sequence[Grid], feeds: Sequence[Sequence[Feed]]):
        self.grids = grids
        self.feeds = [[feed for feed in own if feed.producer != READY] for own in feeds]
        self.most = max(map(len, self.feeds), default=0) + 1
        self.makers = np.zeros(0, np.int64)
        self.starts: dict[int, list[np.ndarray]] = {}

    def at(self, number: int) -> np.ndarray:
        """Where a layer's calls are."""
        return np.flatnonzero(self.makers == number)

    def append(self, number: int) -> None:
        """Makes the rest of a layer's calls in the end."""
        rest = self.grids[number].count - len(self.at(number))
        self.makers = np.append(self.makers, np.full(rest, number))

    def open(self, number: int) -> None:
        """Notes where a layer's inputs will be inserted, now that all of its calls are there."""
        if len(self.feeds[number]) > 1:
            self.starts[number] = [self.at(number)] * (len(self.feeds[number]) - 1)

    def insert(self, number: int, producer: int) -> None:
        """Inserts a layer's calls where they are wanted."""
        places, keys, needs = self._wants(number, producer)
        if not len(places):
            return
        calls = np.maximum.accumulate(needs)
        more = np.diff(calls, prepend=0)
        count = len(self.makers)
        moved = np.cumsum(np.bincount(places, more, count)[:count].astype(np.int64))
        for reader, starts in self.starts.items():
            at = self.at(reader)
            for block, start in enumerate(starts):
                before = np.searchsorted(keys, self._key(start, at, block + 1), "left")
                starts[block] = start + np.append(0, calls)[before]
        makers = np.full(count + int(calls[-1]), number)
        makers[np.arange(count) + moved] = self.makers
        self.makers = makers

    def _wants(self, number: int, producer: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Who wants calls of a layer, in the order in which they do: where, by what key, and how
        many calls, those before included."""
        found = []
        for reader, feeds in enumerate(self.feeds):
            if all(feed.producer != producer for feed in feeds):
                continue
            at = self.at(reader)
            for block, feed in enumerate(feeds):
                if feed.producer == producer:
                    starts = [*self.starts.get(reader, ()), at]
                    pixels = wanted(self.grids[reader], feed)[: len(at)]
                    keys = self._key(starts[block], at, block)
                    found.append((starts[block], keys, self.grids[number].calls_for(pixels)))
        if len(found) == 1:
            return found[0]
        if not found:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, nothing
        places, keys, needs = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.argsort(keys)
        return places[order], keys[order], needs[order]

    def _key(self, place: np.ndarray, at: np.ndarray, block: int) -> np.ndarray:
        """Rises with the order in which calls `at` want their input `block` at a place: whoever
        comes later there is what others want their inputs for, and wants its own first."""
        count = len(self.makers) + 1
        return (place * count + count - at) * self.most + block
