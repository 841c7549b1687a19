# SPDX-License-Identifier: Apache-2.0
"""Bytes below which a stage's tensors do not get, found without its order of calls.

When the last layer makes a call, each layer in front of it has made those that are wanted until
then and no more. What is then made and still needed is alive, wherever it lies. A stage that begins
one layer earlier adds that layer to what is known of the others.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...graph import Graph, Tensor
from ...ops import Layer
from ...plan.calls import Feed, Grid, ends, led, oldest, wanted
from ...plan.schedule import feed_of
from .peaks import grid_of

# Layers, in all, of suffixes that are kept: 100 bytes each and more.
SUFFIX_LAYERS_KEPT = 2_000_000


@dataclass(frozen=True, eq=False, slots=True)
class Demand:
    """The pixels of a tensor that a stage needs. By call of its last layer: pixels that must exist,
    and the first that is still needed."""

    wanted: np.ndarray
    oldest: np.ndarray

    def and_also(self, other: Demand | None) -> Demand:
        """The demand of both."""
        if other is None:
            return self
        pixels = np.maximum(self.wanted, other.wanted)
        return Demand(pixels, np.minimum(self.oldest, other.oldest))


@dataclass(frozen=True, eq=False)
class Suffix:
    """The last layers of a stage, so many.

    kept: whether what goes on after them is known: nothing, and what is still needed is kept;
    alive: bytes of what they make, by call of the last layer; demands: on what others make; before:
    by layer in front of these, both together.
    """

    kept: bool
    layers: int
    alive: np.ndarray
    demands: Mapping[str, Demand]
    before: dict[object, Suffix] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class Prefix:
    """The first layers of a stage. alive: bytes at least while the last of them works, besides its
    output; reads: tensors from outside that they read; behind: by next layer, both together."""

    alive: int
    reads: frozenset[str]
    behind: dict[object, Prefix] = field(default_factory=dict)


class LowerBounds:
    """Lower bounds of the stages of one graph. lives: by tensor, the node that makes it, -1 for an
    input, and the last one that reads it, -1 if no node does; source: the streamed input, if there
    is one; kept: layers of all suffixes."""

    def __init__(self, graph: Graph, lives: Mapping[str, tuple[int, int]], source: Tensor | None):
        self.tensors, self.lives, self.source = graph.tensors, lives, source
        self.suffixes: dict[object, Suffix] = {}
        self.kept = 0
        self.readers: dict[str, list[tuple[int, int]]] = {name: [] for name in self.tensors}
        for number, node in enumerate(graph.nodes):
            for index, name in enumerate(node.inputs):
                self.readers[name].append((number, index))
        self.prefixes: dict[object, Prefix] = {}

    def floor(
        self,
        first: int,
        layers: Sequence[Layer[Any]],
        taken: int,
        limit: int,
        brief: bool = False,
    ) -> int:
        """Bytes that tensors which it touches take at least in a stage of these layers, the first
        of which is node `first`; more than `limit` if that is found to be so. taken: columns of the
        streamed input that it takes at a time; brief: how much more does not matter."""
        for number, alive in enumerate(self._alive(first, layers, taken)):
            if alive > limit and self.is_called_fully(layers, number, first):
                return alive
        floor = 0
        for least in self._at_the_end(first, layers, taken):
            floor = max(floor, least)
            if brief and floor > limit:
                break
        return floor

    def _at_the_end(self, first: int, layers: Sequence[Layer[Any]], taken: int) -> Iterator[int]:
        """Bytes at least while the last layer of a stage works, and then while those do that no
        layer behind them wants: what is kept of all behind them is there."""
        stop, kept = first + len(layers), 0
        read = _read(layers)
        staying = {name for name in read if self.lives[name][1] >= stop}
        makers = {layer.out.name: number for number, layer in enumerate(layers)}
        done: set[int] = set()
        for number in reversed(range(len(layers))):
            if number not in done:
                # Those who are wanted before may be done with what they read.
                own = _wanted_by(number, layers, makers, done)
                inside = {layers[one].out.name for one in done}
                suffix = self._suffix(stop, [layers[one] for one in sorted(own)])
                # When the last one is done, others are called that read tensors of their own.
                others = staying if done else read
                besides = sum(self._size(name) for name in others - suffix.demands.keys())
                yield self._bytes(suffix, stop, taken, inside) + besides + kept
                done |= own
            name = layers[number].out.name
            if not 0 <= self.lives[name][1] < stop:
                kept += self.tensors[name].bytes

    def _alive(self, first: int, layers: Sequence[Layer[Any]], taken: int) -> Iterator[int]:
        """Bytes at least while each layer of a stage but the last works."""
        stop, known = first + len(layers), self.prefixes
        staying = [name for name in _read(layers) if self.lives[name][1] >= stop]
        for number, layer in enumerate(layers[:-1]):
            key = layer if number else (first, layer, taken)
            if key not in known:
                suffix = self._suffix(None, layers[: number + 1])
                alive = self._bytes(suffix, first + number + 1, taken)
                known[key] = Prefix(alive, frozenset(suffix.demands))
            prefix = known[key]
            known = prefix.behind
            unread = (self._size(name) for name in staying if name not in prefix.reads)
            yield prefix.alive + sum(unread)

    def is_called_fully(self, layers: Sequence[Layer[Any]], number: int, first: int) -> bool:
        """True if a layer of a stage is sure to make all of its calls: its output is kept, or some
        other layer that does wants them all."""
        stop = first + len(layers)
        sure, rest = {number}, [number]
        while rest:
            layer = layers[rest.pop()]
            name = layer.out.name
            if not 0 <= self.lives[name][1] < stop:
                return True
            for reader, index in self.readers[name]:
                if reader - first not in sure and _wants_all(layer, layers[reader - first], index):
                    sure.add(reader - first)
                    rest.append(reader - first)
        return False

    def _size(self, name: str) -> int:
        """Bytes that a tensor has before it is read."""
        streamed = self.source is not None and name == self.source.name
        return 0 if streamed else self.tensors[name].bytes

    def _bytes(self, suffix: Suffix, stop: int, taken: int, inside: Collection[str] = ()) -> int:
        """Bytes that tensors which they touch take at least while the nodes in front of `stop` work
        that the suffix has. inside: tensors that others in their stage make."""
        alive, besides = suffix.alive, 0
        for name, demand in suffix.demands.items():
            tensor = self.tensors[name]
            if name in inside:
                alive = alive + tensor.shape[2] * np.maximum(demand.wanted - demand.oldest, 0)
            elif suffix.kept and self.lives[name][1] >= stop:
                besides += self._size(name)
            elif self.source is not None and name == self.source.name:
                grid = Grid(*tensor.shape[:2], taken)
                made = _made(grid)[grid.calls_for(demand.wanted)]
                alive = alive + tensor.shape[2] * np.maximum(made - demand.oldest, 0)
            else:
                pixels = tensor.shape[0] * tensor.shape[1]
                alive = alive + tensor.shape[2] * (pixels - demand.oldest)
        return besides + int(alive.max())

    def _suffix(self, stop: int | None, layers: Sequence[Layer[Any]]) -> Suffix:
        """The layers' suffix, which is all of them: of a stage that ends in front of node `stop`,
        or of any stage, without what the last of them makes."""
        if self.kept > SUFFIX_LAYERS_KEPT:
            self.suffixes.clear()
            self.kept = 0
        known: dict[object, Suffix] = self.suffixes
        suffix: Suffix | None = None
        for layer in reversed(layers):
            following = (stop, layer) if suffix is None else layer
            if following not in known:
                known[following] = (
                    _last(layer, stop is not None)
                    if suffix is None
                    else self._with(layer, stop, suffix)
                )
                self.kept += known[following].layers
            suffix = known[following]
            known = suffix.before
        assert suffix is not None, "a stage has layers"
        return suffix

    def _with(self, layer: Layer[Any], stop: int | None, suffix: Suffix) -> Suffix:
        """A suffix with a layer in front of it."""
        demands, layers = dict(suffix.demands), suffix.layers + 1
        demand = demands.pop(layer.out.name, None)
        if demand is None:
            # It is called when the last layer is done.
            return replace(suffix, layers=layers, demands=demands, before={})
        grid = grid_of(layer)
        calls = grid.calls_for(demand.wanted)
        made = _made(grid)[calls]
        kept = stop is not None and not 0 <= self.lives[layer.out.name][1] < stop
        gone = 0 if kept else np.minimum(demand.oldest, made)
        alive = suffix.alive + layer.out.shape[2] * (made - gone)
        return Suffix(suffix.kept, layers, alive, _demands(demands, layer, calls, calls))


@functools.lru_cache(maxsize=1 << 14)
def _wants_all(maker: Layer[Any], reader: Layer[Any], index: int) -> bool:
    """True if all of a layer's calls want all of those of the layer that makes an input."""
    grid = grid_of(maker)
    pixels = wanted(grid_of(reader), feed_of(reader, index))[-1]
    return bool(grid.calls_for(pixels) == grid.count)


def _last(layer: Layer[Any], kept: bool) -> Suffix:
    """The last layer of a stage, with its output or without. The call that makes its output still
    needs what it reads."""
    grid = grid_of(layer)
    calls = np.arange(1, grid.count + 1)
    made = ends(grid) * layer.out.shape[2]
    if layer.sums:
        made = np.where(calls == grid.count, layer.out.bytes, 0)
    if not kept:
        made = np.zeros_like(made)
    return Suffix(kept, 1, made, _demands({}, layer, calls, calls - 1))


def _demands(
    others: dict[str, Demand], layer: Layer[Any], made: np.ndarray, over: np.ndarray
) -> dict[str, Demand]:
    """Also what a layer wants, of which so many calls are begun, and so many over."""
    grid = grid_of(layer)
    for index, tensor in enumerate(layer.ins):
        feed = feed_of(layer, index)
        pixels = _needed(grid, feed)
        if made[-1] < grid.count:
            # Once the last call is over that is wanted, nothing is needed any more.
            pixels = pixels.copy()
            pixels[made[-1] :] = feed.height * feed.width
        demand = Demand(_wanted(grid, feed)[made], pixels[over])
        others[tensor.name] = demand.and_also(others.get(tensor.name))
    return others


def _wanted_by(
    number: int, layers: Sequence[Layer[Any]], makers: Mapping[str, int], done: Collection[int]
) -> set[int]:
    """A layer, and those in front of it that it wants, without those that are `done`."""
    wanted, rest = {number}, [number]
    while rest:
        for tensor in layers[rest.pop()].ins:
            maker = makers.get(tensor.name, number)
            if maker not in wanted and maker not in done:
                wanted.add(maker)
                rest.append(maker)
    return wanted


def _read(layers: Sequence[Layer[Any]]) -> set[str]:
    """The tensors that layers read and none of them makes."""
    made = {layer.out.name for layer in layers}
    return {tensor.name for layer in layers for tensor in layer.ins} - made


@functools.lru_cache(maxsize=1 << 14)
def _made(grid: Grid) -> np.ndarray:
    """Pixels that are made, by the number of calls that are over, 0 to all of them."""
    return led(ends(grid))


@functools.lru_cache(maxsize=1 << 14)
def _wanted(grid: Grid, feed: Feed) -> np.ndarray:
    """Pixels of an input that must exist, by the number of calls."""
    return led(wanted(grid, feed))


@functools.lru_cache(maxsize=1 << 14)
def _needed(grid: Grid, feed: Feed) -> np.ndarray:
    """The first pixel of an input that a later call may read, by the number of calls."""
    return led(oldest(grid, feed))
