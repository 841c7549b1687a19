# SPDX-License-Identifier: Apache-2.0
"""What a stage's schedule does to memory: when pixels come to life and when they die."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Tensor
from .schedule import STREAMED, Call, Feed, Stage, computed, whole_rows

# (call, pixels): from this call on so many pixels, in raster order, have been made, or are dead.
Steps = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Home:
    """Whose ring a tensor lives in, and where its first pixel is there, pixels from its start."""

    owner: int
    phase: int


class TooLargeError(Exception):
    """A stage needs more bytes than the search allows."""


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
        -1 for what was there before, or is not read."""
        lives = []
        for number, home in enumerate(self.homes):
            births, deaths = self._life(number)
            lives.append((np.roll(births, home.phase), np.roll(deaths, home.phase)))
        for number, home in enumerate(self.homes):
            if home.owner != number:
                births, deaths = lives[number]
                owner_births, owner_deaths = lives[home.owner]
                used = births >= 0
                first = np.where(owner_births < 0, births, np.minimum(births, owner_births))
                owner_births[used] = first[used]
                np.maximum(owner_deaths, deaths, out=owner_deaths)
        return tuple(lives)

    def _life(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        ring = self.rings[number]
        births = np.full(ring, -1, np.int64)
        deaths = np.full(ring, -1, np.int64)
        if number < self.own:
            written = times_of(self.made[number])
            births[: written.size] = written[:ring]
            deaths = np.maximum(deaths, _latest(written, ring))
        return births, np.maximum(deaths, _latest(times_of(self.freed[number]), ring))

    def whole_rows(self, number: int) -> bool:
        """True if the ring of a layer's output may not split rows."""
        return whole_rows(self.stage, number)

    def peak(self, dying: frozenset[str]) -> int:
        """The most bytes that the stage's tensors take at any call; those from outside that are
        `dying` shrink as they are read, outputs grow."""
        level = np.zeros(self.calls + 1, np.int64)
        kept = self.stage.kept
        for number, (tensor, (births, deaths)) in enumerate(
            zip(self.tensors, self.lives, strict=True)
        ):
            if self.homes[number].owner != number:
                continue
            stays = kept[number] if number < len(kept) else tensor.name not in dying
            if number >= self.own and stays:
                level += tensor.bytes
                continue
            used = births >= 0 if number < self.own else deaths >= 0
            np.add.at(level, np.maximum(births[used], 0), tensor.shape[2])
            if not stays:
                np.subtract.at(level[1:], deaths[used], tensor.shape[2])
        return int(np.cumsum(level[:-1]).max())


def times_of(steps: Steps) -> np.ndarray:
    """The call of each pixel."""
    if not steps:
        return np.zeros(0, np.int64)
    calls, pixels = np.array(steps, np.int64).T
    return np.repeat(calls, np.diff(pixels, prepend=0))


def _latest(times: np.ndarray, ring: int) -> np.ndarray:
    """For each place in a ring the last time of the pixels that use it."""
    padded = np.full(-(-max(times.size, 1) // ring) * ring, -1, np.int64)
    padded[: times.size] = times
    return padded.reshape(-1, ring).max(axis=0)


class Tracer:
    """Runs a stage's schedule once."""

    def __init__(self, stage: Stage):
        self.stage = stage
        outside: dict[str, Tensor] = {}
        makers = {layer.out.name for layer in stage.layers}
        if stage.source is not None:
            makers.add(stage.source.name)
        for layer in stage.layers:
            for tensor in layer.ins:
                if tensor.name not in makers:
                    outside[tensor.name] = tensor
        source = (stage.source,) if stage.source is not None else ()
        own = (*(layer.out for layer in stage.layers), *source)
        self.own = len(own)
        self.tensors = (*own, *outside.values())
        self.pixels = [t.shape[0] * t.shape[1] for t in self.tensors]
        self.made = [0] * self.own + self.pixels[self.own :]
        self.freed = [0] * len(self.tensors)
        self.computed = computed(stage)
        self.kept = [*stage.kept, *([False] * (len(self.tensors) - len(stage.kept)))]
        # By tensor the cells that hold the oldest pixel which a reader still needs, and by layer
        # its feeds with their tensors and cells.
        self.readers: list[list[list[int]]] = [[] for _ in self.tensors]
        self.reads: list[list[tuple[int, Feed, list[int]]]] = []
        numbers = {tensor.name: number for number, tensor in enumerate(self.tensors)}
        for layer, feeds in zip(stage.layers, stage.feeds, strict=True):
            reads = []
            for tensor, feed in zip(layer.ins, feeds, strict=True):
                number, cell = numbers[tensor.name], [0]
                self.readers[number].append(cell)
                if not self.kept[number]:
                    reads.append((number, feed, cell))
            self.reads.append(reads)

    def run(self, limit: int | None = None) -> Trace:
        """Raises TooLargeError as soon as the pixels still needed take more than `limit` bytes;
        never where Trace.peak() is not."""
        stage, sizes = self.stage, [tensor.shape[2] for tensor in self.tensors]
        self._forget_unread()
        live = sum(
            (made - freed) * size
            for made, freed, size in zip(self.made, self.freed, sizes, strict=True)
        )
        spans = [0] * len(self.tensors)
        # By tensor, pixels that nobody needs any more; those that come unwanted are not yet freed.
        dead = list(self.freed)
        made: list[list[tuple[int, int]]] = [[] for _ in self.tensors]
        freed: list[list[tuple[int, int]]] = [[] for _ in self.tensors]
        time = -1
        for time, call in enumerate(stage.calls()):
            number = len(stage.layers) if call.layer == STREAMED else call.layer
            before, pixels = self.made[number], self._made(call)
            self.made[number] = pixels
            made[number].append((time, pixels))
            # What no reader is going to need may be overwritten, by the very next pixels.
            wanted = min((cell[0] for cell in self.readers[number]), default=0)
            oldest = min(max(wanted, self.freed[number]), before)
            spans[number] = max(spans[number], pixels - oldest)
            gone = max(dead[number], min(wanted, pixels))
            live += (pixels - before - gone + dead[number]) * sizes[number]
            dead[number] = gone
            for tensor, oldest in self._free(call):
                live -= (oldest - dead[tensor]) * sizes[tensor]
                self.freed[tensor] = dead[tensor] = oldest
                freed[tensor].append((time, oldest))
            # After the call: within it the output may take the place of what it reads.
            if limit is not None and live > limit:
                raise TooLargeError
        rings = self._rings(spans)
        return Trace(
            stage,
            self.tensors,
            self.own,
            time + 1,
            rings,
            tuple(made),
            tuple(freed),
            tuple(Home(number, 0) for number in range(len(rings))),
        )

    def _made(self, call: Call) -> int:
        if call.layer == STREAMED:
            return call.y * self.tensors[len(self.stage.layers)].shape[1] + call.x + call.columns
        layer = self.stage.layers[call.layer]
        pixels = call.y * layer.width + call.x + call.columns
        if layer.sums:
            return self.pixels[call.layer] if pixels == layer.height * layer.width else 0
        return pixels

    def _forget_unread(self) -> None:
        """What only layers would read that are never called nobody needs."""
        for number, reads in enumerate(self.reads):
            if self.computed[number] == 0:
                for tensor, _, cell in reads:
                    cell[0] = self.pixels[tensor]
        for tensor in range(self.own, len(self.tensors)):
            if self.readers[tensor]:
                self.freed[tensor] = min(cell[0] for cell in self.readers[tensor])

    def _free(self, call: Call) -> list[tuple[int, int]]:
        """What a call was the last to need; the last of its layer, whatever is left."""
        if call.layer == STREAMED:
            return []
        layer = self.stage.layers[call.layer]
        y, x = call.y, call.x + call.columns
        if x == layer.width:
            y, x = y + 1, 0
        over = y * layer.width + x >= self.computed[call.layer]
        found = []
        for number, feed, cell in self.reads[call.layer]:
            cell[0] = self.pixels[number] if over else feed.oldest(y, x)
            oldest = self.made[number]
            for other in self.readers[number]:
                if other[0] < oldest:
                    oldest = other[0]
            if oldest > self.freed[number]:
                found.append((number, oldest))
        return found

    def _rings(self, spans: list[int]) -> tuple[int, ...]:
        rings = []
        for number, pixels in enumerate(self.pixels):
            if number >= self.own or self.kept[number]:
                rings.append(pixels)
                continue
            whole = number < len(self.stage.layers) and whole_rows(self.stage, number)
            piece = self.tensors[number].shape[1] if whole else 1
            rings.append(min(-(-max(spans[number], 1) // piece) * piece, pixels))
        return tuple(rings)
