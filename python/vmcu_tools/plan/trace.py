# SPDX-License-Identifier: Apache-2.0
"""The effect of a stage's schedule on memory: when pixels come to life and when they die."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ..graph import Tensor
from .calls import Feed, Grid, ends, led, oldest
from .schedule import Stage


class Steps(NamedTuple):
    """The calls from which on so many pixels, in raster order, have been made, or are dead.
    int64, calls ascend."""

    times: np.ndarray
    pixels: np.ndarray

    def until(self, calls: np.ndarray, side: Literal["left", "right"] = "left") -> np.ndarray:
        """Pixels before each of some calls, or, on the right, once it is over."""
        return led(self.pixels)[np.searchsorted(self.times, calls, side)]


NEVER = Steps(np.zeros(0, np.int64), np.zeros(0, np.int64))


class RingLife(NamedTuple):
    """The calls in which each pixel of a ring is first written and last read; -1 for pixels that
    were there before, or are not read."""

    births: np.ndarray
    deaths: np.ndarray


@dataclass(frozen=True)
class Home:
    """Whose ring a tensor lives in, and where its first pixel is there, pixels from its start."""

    owner: int
    phase: int


@dataclass(frozen=True, eq=False)
class Trace:
    """The trace of a stage's tensors.

    tensors: the layers' outputs by layer, then the streamed input if there is one, then whole
    tensors from outside; own: how many of them are not from outside; calls: how many there were;
    rings: pixels of each one's ring; made, freed: by tensor, see Steps; homes: by tensor, whose
    ring it lives in and where its first pixel is there.
    """

    stage: Stage
    tensors: tuple[Tensor, ...]
    own: int
    calls: int
    rings: tuple[int, ...]
    made: tuple[Steps, ...]
    freed: tuple[Steps, ...]
    homes: tuple[Home, ...]

    @functools.cached_property
    def lives(self) -> tuple[RingLife, ...]:
        """Returns for each tensor the life of its ring's pixels; the ring of several is its
        owner's."""
        lives = [self._life(number) for number in range(len(self.tensors))]
        for owner, guests in self.guests.items():
            lives[owner] = joined(lives[owner], *(lives[number] for number in guests))
        return tuple(lives)

    @functools.cached_property
    def guests(self) -> dict[int, list[int]]:
        """Returns for each owner of a ring of several tensors the others."""
        by_owner: dict[int, list[int]] = {}
        for number, home in enumerate(self.homes):
            if home.owner != number:
                by_owner.setdefault(home.owner, []).append(number)
        return by_owner

    def _life(self, number: int) -> RingLife:
        made = self.made[number] if number < self.own else NEVER
        return life_of(made, self.freed[number], self.rings[number], self.homes[number].phase)

    def whole_rows(self, number: int) -> bool:
        """True if the ring of a layer's output may not split rows."""
        return self.stage.whole_rows[number]

    def peak(self, dying: frozenset[str]) -> int:
        """The most bytes that the stage's tensors take at any call; those from outside that are
        `dying` shrink as they are read, outputs grow."""
        counts, kept = ByteCounts.none(self.calls), self.stage.kept
        for number, (tensor, home) in enumerate(zip(self.tensors, self.homes, strict=True)):
            if home.owner != number:
                continue
            stays = kept[number] if number < len(kept) else tensor.name not in dying
            if number in self.guests:
                lives = joined(*map(self._life, (number, *self.guests[number])))
                counts.add_shared(lives, tensor.shape[2])
            elif number < self.own:
                ring = None if stays else self.freed[number]
                counts.add(self.made[number], ring, self.rings[number], tensor.shape[2])
            elif stays:
                counts.there += tensor.bytes
            else:
                counts.add_outside(self.freed[number], tensor.shape[2])
        return counts.peak


@dataclass(eq=False)
class ByteCounts:
    """Bytes that come to life in each of a stage's calls, and that are dead once it is over; and
    those that are there before."""

    born: np.ndarray
    died: np.ndarray
    there: int = 0

    @staticmethod
    def none(calls: int) -> ByteCounts:
        """Returns the counts of no tensors."""
        return ByteCounts(np.zeros(calls, np.int64), np.zeros(calls, np.int64))

    def add(self, made: Steps, freed: Steps | None, ring: int, size: int) -> None:
        """Adds a tensor's alone in its ring, pixels of so many bytes: its places fill up in the
        first turn, and are given back in the last. freed: None if it stays."""
        self.born[made.times] += size * more(np.minimum(made.pixels, ring))
        if freed is None or not len(made.pixels):
            return
        last = max(int(made.pixels[-1]) - ring, 0)
        self.died[freed.times] += size * more(np.maximum(freed.pixels, last), last)
        # Pixels without a reader are dead once they are written.
        unread = max(last, int(freed.pixels[-1])) if len(freed.pixels) else last
        if unread < made.pixels[-1]:
            self.died[made.times] += size * more(np.maximum(made.pixels, unread), unread)

    def add_outside(self, freed: Steps, size: int) -> None:
        """Adds a tensor's from outside, pixels of so many bytes, of which those that nobody reads
        are given back before."""
        if len(freed.pixels):
            self.there += size * int(freed.pixels[-1])
            self.died[freed.times] += size * more(freed.pixels)

    def add_shared(self, lives: RingLife, size: int) -> None:
        """Adds a ring of several tensors, pixels of so many bytes, none of which stays."""
        (births, deaths), calls = lives, len(self.born)
        used = births >= 0
        self.born += size * np.bincount(births[used], minlength=calls)
        self.died += size * np.bincount(deaths[used], minlength=calls)

    @property
    def peak(self) -> int:
        """The most that are alive at any call."""
        alive = np.cumsum(self.born)
        alive[1:] -= np.cumsum(self.died[:-1])
        return self.there + int(alive.max())


def more(counts: np.ndarray, before: int = 0) -> np.ndarray:
    """Returns the increase of each count over the one before it."""
    increase = counts.copy()
    increase[1:] -= counts[:-1]
    increase[:1] -= before
    return increase


def life_of(made: Steps, freed: Steps, ring: int, phase: int) -> RingLife:
    """The life of each pixel of a ring whose first tensor's pixel is `phase` pixels from its start,
    as far as this tensor goes."""
    births = np.full(ring, -1, np.int64)
    written = times_of(made)
    births[: written.size] = written[:ring]
    deaths = np.maximum(_latest(written, ring), _latest(times_of(freed), ring))
    return (
        RingLife(np.roll(births, phase), np.roll(deaths, phase))
        if phase
        else RingLife(births, deaths)
    )


def joined(*lives: RingLife) -> RingLife:
    """The life of each pixel of a ring that several tensors live in."""
    births, deaths = (np.array(values) for values in zip(*lives, strict=True))
    never = np.iinfo(np.int64).max
    first = np.where(births < 0, never, births).min(axis=0)
    return RingLife(np.where(first == never, -1, first), deaths.max(axis=0))


def times_of(steps: Steps) -> np.ndarray:
    """The call of each pixel."""
    return np.repeat(steps.times, steps.pixels - led(steps.pixels)[:-1])


def _latest(times: np.ndarray, ring: int) -> np.ndarray:
    """Returns for each place in a ring the last time of the pixels that use it."""
    padded = np.full(-(-max(times.size, 1) // ring) * ring, -1, np.int64)
    padded[: times.size] = times
    latest: np.ndarray = padded.reshape(-1, ring).max(axis=0)
    return latest


def trace_of(stage: Stage) -> Trace:
    """Traces a stage's tensors, each in a ring of its own."""
    return _Tracer(stage).run()


class _Tracer:
    """The pixels of each tensor that its own calls make and that its readers need last."""

    def __init__(self, stage: Stage):
        self.stage, self.order = stage, stage.order
        source = (stage.source,) if stage.source is not None else ()
        own = (*(layer.out for layer in stage.layers), *source)
        numbers = {tensor.name: number for number, tensor in enumerate(own)}
        outside: dict[str, Tensor] = {}
        for layer in stage.layers:
            outside |= {t.name: t for t in layer.ins if t.name not in numbers}
        numbers |= {name: len(own) + number for number, name in enumerate(outside)}
        self.own, self.tensors = len(own), (*own, *outside.values())
        self.readers: list[list[tuple[int, Feed]]] = [[] for _ in self.tensors]
        for reader, (layer, feeds) in enumerate(zip(stage.layers, stage.feeds, strict=True)):
            for tensor, feed in zip(layer.ins, feeds, strict=True):
                self.readers[numbers[tensor.name]].append((reader, feed))

    def run(self) -> Trace:
        numbers = range(len(self.tensors))
        made = tuple(self._made(number) for number in numbers)
        freed, rings = [], []
        for number in numbers:
            pixels = self.tensors[number].shape[0] * self.tensors[number].shape[1]
            stays = number < len(self.stage.layers) and self.stage.kept[number]
            if stays and self.stage.unbounded:
                freed.append(NEVER)
                rings.append(self.tensors[number].shape[1])
                continue
            needs = self._needs(number)
            freed.append(freed_by(needs, made[number], pixels if number >= self.own else 0))
            if stays or number >= self.own:
                rings.append(pixels)
            else:
                rings.append(self._ring(number, pixels, made[number], needs, freed[-1]))
        homes = tuple(Home(number, 0) for number in numbers)
        return Trace(
            self.stage,
            self.tensors,
            self.own,
            self.order.count,
            tuple(rings),
            made,
            tuple(freed),
            homes,
        )

    def _made(self, number: int) -> Steps:
        if number >= self.own:
            return NEVER
        sums = number < len(self.stage.layers) and self.stage.layers[number].sums
        grid, out = self.stage.grids[number], self.tensors[number]
        return made_by(self.order.at[number], grid, out if sums else None)

    def _needs(self, number: int) -> Steps:
        # A layer that reads its own row before may write over it: it is needed up to that call.
        return needed_by(
            [
                (self.order.at[reader] - (reader == number), self.stage.grids[reader], feed)
                for reader, feed in self.readers[number]
            ]
        )

    def _ring(self, number: int, pixels: int, made: Steps, needs: Steps, freed: Steps) -> int:
        whole = number < len(self.stage.layers) and self.stage.whole_rows[number]
        return ring_of(made, needs, freed, pixels, self.tensors[number].shape[1] if whole else 1)


def made_by(times: np.ndarray, grid: Grid, summed: Tensor | None = None) -> Steps:
    """Returns the pixels that calls of a layer make. summed: its output, if it sums."""
    pixels = ends(grid)[: len(times)]
    if summed is not None:
        whole = np.arange(1, len(times) + 1) == grid.count
        pixels = np.where(whole, summed.shape[0] * summed.shape[1], 0)
    return Steps(times, pixels)


def needed_by(all_readers: Iterable[tuple[np.ndarray, Grid, Feed]]) -> Steps:
    """Returns the calls from which on no pixel below is needed any more, by all readers of a
    tensor. readers: when each is called, and how it reads."""
    readers = []
    for times, grid, feed in all_readers:
        pixels = oldest(grid, feed)[: len(times)]
        if len(times):
            if pixels[-1] != feed.height * feed.width:
                pixels = pixels.copy()
                pixels[-1] = feed.height * feed.width
            if feed.before[0] < 0:
                # Rows in front of the first that it reads are never needed.
                times = np.append(-1, times)
                pixels = np.append(-feed.before[0] * feed.width, pixels)
            readers.append(Steps(times, pixels))
    if len(readers) <= 1:
        return readers[0] if readers else NEVER
    times = np.unique(np.concatenate([reader.times for reader in readers]))
    return Steps(times, np.min([one.until(times, "right") for one in readers], axis=0))


def ring_of(made: Steps, needs: Steps, freed: Steps, pixels: int, piece: int) -> int:
    """The most pixels from the oldest that is needed, when others are made, to the newest; of a
    tensor of so many pixels, whole pieces."""
    before = led(made.pixels)[:-1]
    # Pixels that no reader is going to need may be overwritten, by the very next pixels.
    gone = np.maximum(needs.until(made.times), freed.until(made.times))
    span = int(np.max(made.pixels - np.minimum(gone, before), initial=1))
    return min(-(-span // piece) * piece, pixels)


def freed_by(needs: Steps, made: Steps, there: int) -> Steps:
    """Returns the pixels that are dead once each call is over: no longer needed, and made at
    all. there: pixels that were there before."""
    done = np.minimum(needs.pixels, np.maximum(made.until(needs.times, "right"), there))
    dead = np.maximum.accumulate(done) if len(done) else done
    first = dead > led(dead)[:-1]
    return Steps(needs.times[first], dead[first])
