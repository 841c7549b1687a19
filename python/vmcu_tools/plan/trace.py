# SPDX-License-Identifier: Apache-2.0
"""What a stage's schedule does to memory: when pixels come to life and when they die."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ..graph import Tensor
from .calls import Feed, ends, led, oldest
from .schedule import Stage


class Steps(NamedTuple):
    """From these calls on so many pixels, in raster order, have been made, or are dead. int64,
    calls ascend."""

    times: np.ndarray
    pixels: np.ndarray

    def until(self, calls: np.ndarray, side: Literal["left", "right"] = "left") -> np.ndarray:
        """Pixels before each of some calls, or, on the right, once it is over."""
        return led(self.pixels)[np.searchsorted(self.times, calls, side)]


NEVER = Steps(np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True)
class Home:
    """Whose ring a tensor lives in, and where its first pixel is there, pixels from its start."""

    owner: int
    phase: int


@dataclass(frozen=True, eq=False)
class Trace:
    """What became of a stage's tensors.

    tensors: the layers' outputs by layer, then the streamed input if there is one, then what comes
    whole from outside; own: how many of them are not from outside; calls: how many there were;
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
    def lives(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """By tensor: the calls in which each pixel of its ring is first written and last read;
        -1 for what was there before, or is not read. The ring of several tensors is its owner's."""
        lives = [self._life(number) for number in range(len(self.tensors))]
        for owner, guests in self._guests.items():
            for number in guests:
                _join(lives[owner], lives[number])
        return tuple(lives)

    @functools.cached_property
    def _guests(self) -> dict[int, list[int]]:
        """By owner of a ring of several tensors, the others."""
        found: dict[int, list[int]] = {}
        for number, home in enumerate(self.homes):
            if home.owner != number:
                found.setdefault(home.owner, []).append(number)
        return found

    def _life(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        ring = self.rings[number]
        births = np.full(ring, -1, np.int64)
        deaths = np.full(ring, -1, np.int64)
        if number < self.own:
            written = times_of(self.made[number])
            births[: written.size] = written[:ring]
            deaths = np.maximum(deaths, _latest(written, ring))
        deaths = np.maximum(deaths, _latest(times_of(self.freed[number]), ring))
        phase = self.homes[number].phase
        return (np.roll(births, phase), np.roll(deaths, phase)) if phase else (births, deaths)

    def whole_rows(self, number: int) -> bool:
        """True if the ring of a layer's output may not split rows."""
        return self.stage.whole_rows[number]

    def peak(self, dying: frozenset[str]) -> int:
        """The most bytes that the stage's tensors take at any call; those from outside that are
        `dying` shrink as they are read, outputs grow."""
        level = np.zeros(self.calls + 1, np.int64)
        kept = self.stage.kept
        for number, (tensor, home) in enumerate(zip(self.tensors, self.homes, strict=True)):
            if home.owner != number:
                continue
            stays = kept[number] if number < len(kept) else tensor.name not in dying
            size = tensor.shape[2]
            if number in self._guests:
                self._count_shared(level, number, size)
            elif number < self.own:
                self._count(level, number, size, stays)
            elif stays:
                level[0] += tensor.bytes
            else:
                dead = self.freed[number]
                level[0] += size * int(dead.pixels[-1]) if len(dead.pixels) else 0
                level[dead.times + 1] -= size * np.diff(dead.pixels, prepend=0)
        return int(np.cumsum(level[:-1]).max())

    def _count(self, level: np.ndarray, number: int, size: int, stays: bool) -> None:
        """Adds how many bytes more are alive from each call on, of a tensor alone in its ring: its
        places fill up in the first turn, and are given back in the last."""
        made, freed, ring = self.made[number], self.freed[number], self.rings[number]
        level[made.times] += size * np.diff(np.minimum(made.pixels, ring), prepend=0)
        if stays or not len(made.pixels):
            return
        last = max(int(made.pixels[-1]) - ring, 0)
        level[freed.times + 1] -= size * np.diff(np.maximum(freed.pixels, last), prepend=last)
        # What nobody reads is dead once it is written.
        unread = max(last, int(freed.pixels[-1])) if len(freed.pixels) else last
        level[made.times + 1] -= size * np.diff(np.maximum(made.pixels, unread), prepend=unread)

    def _count_shared(self, level: np.ndarray, owner: int, size: int) -> None:
        """As _count(), of a ring of several tensors, none of which stays."""
        births, deaths = self._life(owner)
        for number in self._guests[owner]:
            _join((births, deaths), self._life(number))
        used = births >= 0
        level += size * np.bincount(births[used], minlength=len(level))
        level -= size * np.bincount(deaths[used] + 1, minlength=len(level))


def _join(owner: tuple[np.ndarray, np.ndarray], guest: tuple[np.ndarray, np.ndarray]) -> None:
    """Adds to the lives of a ring's pixels those of another tensor in it."""
    births, deaths = owner
    used = guest[0] >= 0
    births[used] = np.where(births < 0, guest[0], np.minimum(guest[0], births))[used]
    np.maximum(deaths, guest[1], out=deaths)


def times_of(steps: Steps) -> np.ndarray:
    """The call of each pixel."""
    return np.repeat(steps.times, steps.pixels - led(steps.pixels)[:-1])


def _latest(times: np.ndarray, ring: int) -> np.ndarray:
    """For each place in a ring the last time of the pixels that use it."""
    padded = np.full(-(-max(times.size, 1) // ring) * ring, -1, np.int64)
    padded[: times.size] = times
    found: np.ndarray = padded.reshape(-1, ring).max(axis=0)
    return found


def trace_of(stage: Stage) -> Trace:
    """What becomes of a stage's tensors, each in a ring of its own."""
    return _Tracer(stage).run()


class _Tracer:
    """By tensor, what its own calls make and those of its readers are the last to need."""

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
            if stays and self.stage.endless:
                freed.append(NEVER)
                rings.append(self.tensors[number].shape[1])
                continue
            needs = self._needs(number)
            freed.append(_freed(needs, made[number], pixels if number >= self.own else 0))
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
        times = self.order.at[number]
        pixels = ends(self.stage.grids[number])[: len(times)]
        if number < len(self.stage.layers) and self.stage.layers[number].sums:
            out = self.tensors[number]
            whole = np.arange(1, len(times) + 1) == self.stage.grids[number].count
            pixels = np.where(whole, out.shape[0] * out.shape[1], 0)
        return Steps(times, pixels)

    def _needs(self, number: int) -> Steps:
        """From which calls on no pixel below is needed any more, by whoever reads the tensor."""
        readers = []
        for reader, feed in self.readers[number]:
            times = self.order.at[reader]
            pixels = oldest(self.stage.grids[reader], feed)[: len(times)]
            if len(times):
                pixels = np.append(pixels[:-1], feed.height * feed.width)
                readers.append(Steps(times, pixels))
        if len(readers) <= 1:
            return readers[0] if readers else NEVER
        times = np.unique(np.concatenate([reader.times for reader in readers]))
        return Steps(times, np.min([one.until(times, "right") for one in readers], axis=0))

    def _ring(self, number: int, pixels: int, made: Steps, needs: Steps, freed: Steps) -> int:
        """The most pixels from the oldest that is needed, when others are made, to the newest."""
        before = led(made.pixels)[:-1]
        # What no reader is going to need may be overwritten, by the very next pixels.
        gone = np.maximum(needs.until(made.times), freed.until(made.times))
        span = int(np.max(made.pixels - np.minimum(gone, before), initial=1))
        whole = number < len(self.stage.layers) and self.stage.whole_rows[number]
        piece = self.tensors[number].shape[1] if whole else 1
        return min(-(-span // piece) * piece, pixels)


def _freed(needs: Steps, made: Steps, there: int) -> Steps:
    """What is dead once each call is over: no longer needed, and made at all. there: pixels that
    were there before."""
    done = np.minimum(needs.pixels, np.maximum(made.until(needs.times, "right"), there))
    dead = np.maximum.accumulate(done) if len(done) else done
    first = dead > led(dead)[:-1]
    return Steps(needs.times[first], dead[first])
