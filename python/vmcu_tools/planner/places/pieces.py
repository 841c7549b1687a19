# SPDX-License-Identifier: Apache-2.0
"""Pieces to place, in their order, and the clearance that each piece needs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...graph import Graph, Tensor
from ...ops import Layer
from ...plan.plan import SCRATCH_ALIGN, pool_scratch
from .layout import Group, Layout, Memory, Profile, apart
from .overlap import Clearance, clearance

# Layouts whose pieces are kept: those that are tried one after the other are often the same.
LAYOUTS_KEPT = 2


@dataclass(frozen=True)
class Live:
    """A piece that is alive while a step writes another."""

    name: str
    size: int
    clearance: Clearance


@dataclass(frozen=True)
class Way:
    """One direction in which a step may run, and what it then has to keep clear of."""

    descending: bool
    live: tuple[Live, ...]


@dataclass(frozen=True)
class Piece:
    """One piece to place, of `size` bytes: a tensor's ring, or a stage's own memory.

    stride: bytes between places where the pool's end may split it; whole: it may not be split;
    align: of its base; scratch: bytes that the step needs besides, in one piece and not split;
    floor: bytes without which its stage cannot run, if that does not follow from `ways`.
    """

    name: str
    size: int
    stride: int
    ways: tuple[Way, ...]
    whole: bool
    scratch: int = 0
    align: int = 1
    floor: int | None = None

    def bound(self) -> int:
        """Bytes without which this step cannot run."""
        if self.floor is not None:
            return self.floor
        return min(self._bound(way) for way in self.ways)

    def _bound(self, way: Way) -> int:
        alive = sum(live.size for live in way.live)
        shared = sum(
            live.size + self.size - live.clearance.footprint(live.size, self.size)
            for live in way.live
        )
        return self.scratch + max(alive, alive + self.size - shared)


def stage_memory(number: int) -> str:
    """The name of the piece that a stage of several layers keeps its progress and scratch in."""
    return f"memory of stage {number}"


def pieces_of(graph: Graph | Layout, both_ways: bool) -> list[Piece]:
    """The pieces to place, in the order in which they come to life; a graph stands for its layers
    one by one."""
    if isinstance(graph, Layout):
        return [*_of_layout(graph, both_ways)]
    return _Builder(Layout.singles(graph), both_ways).run()


@functools.lru_cache(maxsize=LAYOUTS_KEPT)
def _of_layout(layout: Layout, both_ways: bool) -> list[Piece]:
    return _Builder(layout, both_ways).run()


def scratch_of(output: str) -> str:
    """The name of the piece that is the scratch of the step that makes a tensor."""
    return f"scratch of {output}"


def with_scratch_apart(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces without scratch, each followed by its scratch, which keeps clear of all that is
    alive."""
    parts = []
    for piece in pieces:
        parts.append(replace(piece, scratch=0))
        if piece.scratch:
            held = [*((live.name, live.size) for live in piece.ways[0].live)]
            live = tuple(
                Live(name, size, Clearance.apart(size, piece.scratch))
                for name, size in [*held, (piece.name, piece.size)]
            )
            ways, size = (Way(False, live),), piece.scratch
            parts.append(Piece(scratch_of(piece.name), size, size, ways, True, align=SCRATCH_ALIGN))
    return parts


def pieces_in(layout: Layout, pieces: Sequence[Piece], number: int) -> tuple[Piece, ...]:
    """The pieces of a layout that are alive in a stage of several layers, without all others."""
    group = layout.groups[number]
    own = {tensor.name for tensor in group.tensors} | {stage_memory(number)}
    own |= {live.name for piece in pieces if piece.name in own for live in piece.ways[0].live}
    own_pieces = []
    for piece in pieces:
        if piece.name in own:
            ways = (
                replace(way, live=tuple(live for live in way.live if live.name in own))
                for way in piece.ways
            )
            own_pieces.append(replace(piece, ways=tuple(ways)))
    return tuple(own_pieces)


class _Builder:
    def __init__(self, layout: Layout, both_ways: bool):
        self.layout, self.both_ways = layout, both_ways
        self.graph = layout.graph
        ports = (*layout.graph.inputs, *layout.graph.outputs)
        self.ports = {port.tensor for port in ports}
        self.pieces: list[Piece] = []
        self.placed: list[str] = []
        self.last: dict[str, int] = {}

    def run(self) -> list[Piece]:
        for port in self.graph.held:
            if self.layout.streamed:
                continue
            tensor = self.graph.tensors[port.tensor]
            live = tuple(self._beside(name, tensor.bytes) for name in self.placed)
            self._add(tensor, (Way(False, live),))
        for number, group in enumerate(self.layout.groups):
            if group.trace is None:
                self._single(number, group.layers[0])
            else:
                self._stage(number, group)
        return self.pieces

    def _add(
        self, tensor: Tensor, ways: tuple[Way, ...], scratch: int = 0, floor: Any = None
    ) -> None:
        size = self.layout.ring_bytes(tensor.name)
        whole = tensor.name in self.ports or self.layout.splits_rows(tensor.name)
        align = SCRATCH_ALIGN if tensor.name in self.layout.graph.aligned else 1
        self.pieces.append(
            Piece(tensor.name, size, tensor.row_bytes, ways, whole, scratch, align, floor=floor)
        )
        self.placed.append(tensor.name)
        self.last[tensor.name] = self._last(tensor.name)

    def _alive(self, number: int) -> list[str]:
        """The placed tensors that a stage still needs; the stages in turn."""
        self.placed = [name for name in self.placed if self.last[name] >= number]
        return [*self.placed]

    def _last(self, name: str) -> int:
        """The last stage that needs a tensor."""
        if name in self.layout.kept:
            return len(self.layout.groups)
        return self.layout.last_group.get(name, self.layout.group_of.get(name, -1))

    def _beside(self, name: str, size: int) -> Live:
        """A tensor that may not share a byte with another of `size` bytes."""
        held = self.layout.ring_bytes(name)
        return Live(name, held, Clearance.apart(held, size))

    def _single(self, number: int, layer: Layer[Any]) -> None:
        layers = [layer]
        if self.both_ways and layer.can_descend:
            layers.append(self.layout.binder.descending(layer))
        alive = self._alive(number)
        dying = {name for name in layer.node.inputs if self._last(name) == number}
        ways = tuple(Way(one.descending, self._live(one, alive, dying)) for one in layers)
        self._add(layer.out, ways, pool_scratch(layer))

    def _live(self, layer: Layer[Any], alive: Sequence[str], dying: set[str]) -> tuple[Live, ...]:
        """The tensors that the layer's output has to keep clear of, and by how much."""
        lives = []
        for name in alive:
            live = self._beside(name, layer.out.bytes)
            if name in dying:
                safe = [clearance(layer, i) for i, one in enumerate(layer.ins) if one.name == name]
                worst = Clearance(max(c.below for c in safe), min(c.above for c in safe))
                live = Live(name, live.size, worst)
            lives.append(live)
        return tuple(lives)

    def _stage(self, number: int, group: Group) -> None:
        """The outputs that stay first, then the rings, the large before the small."""
        assert group.trace is not None
        alive = self._alive(number)
        floor = stage_floor(self.layout, number)
        tensors = group.trace.tensors[: group.trace.own]
        kept = group.trace.stage.kept

        def order(item: tuple[int, Tensor]) -> tuple[bool, int, int]:
            place, tensor = item
            stays = place < len(kept) and kept[place]
            return (not stays, -self.layout.ring_bytes(tensor.name), place)

        for _, tensor in sorted(enumerate(tensors), key=order):
            if not len(self.layout.births[tensor.name]):
                continue
            profile = self.layout.profile(tensor.name)
            live = tuple(self._clear_of(profile, name) for name in alive)
            self._add(tensor, (Way(False, live),), floor=floor)
            alive.append(tensor.name)
        size = Memory.of(group.layers).bytes
        memory = memory_profile(group)
        live = tuple(self._clear_of(memory, name) for name in alive)
        name = stage_memory(number)
        ways = (Way(False, live),)
        self.pieces.append(Piece(name, size, size, ways, True, align=SCRATCH_ALIGN, floor=floor))

    def _clear_of(self, profile: Profile, name: str) -> Live:
        other = self.layout.profile(name)
        return Live(name, other.bytes, apart(profile, other))


def memory_profile(group: Group) -> Profile:
    """A stage's own memory: it lives as long as the stage runs."""
    birth, death = np.array([group.start]), np.array([group.start + group.calls - 1])
    return Profile(birth, death, Memory.of(group.layers).bytes)


def stage_floor(layout: Layout, number: int) -> int:
    """The most bytes that are alive at any call of a stage of several layers."""
    group = layout.groups[number]
    start, stop = group.start, group.start + group.calls
    level = np.zeros(group.calls + 1, np.int64)
    for profile in map(layout.profile, layout.births):
        if not profile.lives_in(start, stop):
            continue
        first, end, birth, death = profile.runs
        born = np.clip(birth, start, stop) - start
        gone = np.clip(death, start - 1, stop - 1) + 1 - start
        alive, size = gone > born, end - first
        np.add.at(level, born[alive], size[alive])
        np.subtract.at(level, gone[alive], size[alive])
    return Memory.of(group.layers).bytes + int(np.cumsum(level)[:-1].max())


def most_of(pieces: Sequence[Piece]) -> int:
    """A pool in which everything fits side by side."""
    return sum(piece.size + piece.scratch + SCRATCH_ALIGN for piece in pieces)
