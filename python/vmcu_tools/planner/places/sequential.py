# SPDX-License-Identifier: Apache-2.0
"""Placing tensors one after the other in a circular pool, each as near to its dying input as the
layer's order of access allows.

A depth-first search over the few bases at which a new tensor can touch something: its dying
input at a safe distance, another live tensor, or an end of the pool; and over the directions in
which its layer may run. Ascending layers let addresses drift downwards, descending ones upwards,
so that a chain can swing between the ends of the pool and never wrap.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ...graph import Graph
from ...plan.plan import Placement, Plan, Step
from ...plan.schedule import taken_columns
from .layout import Group, Layout, Memory
from .lifetimes import lifetimes
from .pieces import Piece, Way, stage_memory
from .scratch import first_gap

# Dead ends of the depth-first search before a pool size is given up.
MAX_BACKTRACKS = 300
# Pool sizes are tried one by one up to here above the bound, then in growing steps.
FINE_SIZES = 256
EXHAUSTED = object()


@dataclass
class SequentialPlacement:
    """Depth-first search for bases in a pool of `pool` bytes; `wraps` allows tensors around the
    pool's end."""

    pieces: Sequence[Piece]
    pool: int
    wraps: bool
    bases: dict[str, int] = field(default_factory=dict)
    descending: dict[str, bool] = field(default_factory=dict)
    scratch: dict[str, int] = field(default_factory=dict)
    backtracks: int = 0

    def run(self) -> bool:
        """True once every piece has its base. Iterative: there may be thousands of pieces."""
        open_choices: list[Iterator[None]] = []
        while len(open_choices) < len(self.pieces):
            open_choices.append(self._choices(self.pieces[len(open_choices)]))
            while next(open_choices[-1], EXHAUSTED) is EXHAUSTED:
                open_choices.pop()
                self.backtracks += 1
                if not open_choices or self.backtracks > MAX_BACKTRACKS:
                    return False
        return True

    def _choices(self, piece: Piece) -> Iterator[None]:
        """Gives a piece one base after the other that fits those before it."""
        tried: set[tuple[int, bool]] = set()
        for way in piece.ways:
            starts, stops = self._excluded(way)
            for base in self._candidates(piece, way):
                if (base, way.descending) in tried:
                    continue
                tried.add((base, way.descending))
                at = bisect_left(starts, base)
                if (at == 0 or stops[at - 1] <= base) and self._fits(piece, way, base):
                    self.bases[piece.name], self.descending[piece.name] = base, way.descending
                    yield

    def _excluded(self, way: Way) -> tuple[list[int], list[int]]:
        """Ends of the open ranges of bases that are unsafe beside what is alive, ascending and
        disjoint; in a circle those that reach around its end are there twice."""
        ranges = []
        for live in way.live:
            base = self.bases[live.name]
            start, stop = base - live.clearance.below, base - live.clearance.above
            turn = start // self.pool * self.pool if self.wraps else 0
            ranges.append((start - turn, stop - turn))
            if self.wraps and stop - turn > self.pool:
                ranges.append((start - turn - self.pool, stop - turn - self.pool))
        starts: list[int] = []
        stops: list[int] = []
        for start, stop in sorted(ranges):
            if stops and start < stops[-1]:
                stops[-1] = max(stops[-1], stop)
            else:
                starts.append(start)
                stops.append(stop)
        return starts, stops

    def _candidates(self, piece: Piece, way: Way) -> Iterator[int]:
        """Bases worth trying, overlaps first; where one would reach around the pool's end, the
        nearest with a row's edge there."""
        size, stride = piece.size, piece.stride
        wanted = []
        for live in way.live:
            base = self.bases[live.name]
            wanted += [base - live.clearance.below, base - live.clearance.above]
        wanted += [self.bases[live.name] - size for live in way.live]
        wanted += [self.bases[live.name] + live.size for live in way.live]
        for base in [*wanted, self.pool - size, 0]:
            inside = 0 <= base <= self.pool - size
            if inside and base % piece.align:
                yield from (base - base % piece.align, base + -base % piece.align)
            elif inside:
                yield base
            elif self.wraps and not piece.whole:
                base %= self.pool
                if base + size <= self.pool:
                    yield base
                else:
                    yield self.pool - -(-(self.pool - base) // stride) * stride

    def _fits(self, piece: Piece, way: Way, base: int) -> bool:
        size = piece.size
        if base < 0 or size > self.pool or base % piece.align:
            return False
        around = base + size > self.pool
        if around and (piece.whole or (self.pool - base) % piece.stride):
            return False
        return piece.scratch == 0 or self._place_scratch(piece, way, base)

    def _place_scratch(self, piece: Piece, way: Way, base: int) -> bool:
        """Finds the lowest gap for the step's scratch between everything that is alive."""
        taken = [(base, piece.size)]
        taken += [(self.bases[live.name], live.size) for live in way.live]
        gap = first_gap(taken, self.pool, piece.scratch)
        if gap is not None:
            self.scratch[piece.name] = gap
        return gap is not None


def sizes_from(bound: int) -> Iterator[int]:
    """Pool sizes to try."""
    yield from range(bound, bound + FINE_SIZES)
    size = float(bound + FINE_SIZES)
    while True:
        yield int(size)
        size *= 1.002


def plan_of(planner: str, graph: Graph | Layout, search: SequentialPlacement, bound: int) -> Plan:
    """The plan that a finished search found."""
    layout = graph if isinstance(graph, Layout) else Layout.singles(graph)
    graph = layout.graph
    lives = lifetimes(graph)
    placements = {}
    for piece in search.pieces:
        if piece.name in lives:
            life, base = lives[piece.name], search.bases[piece.name]
            placements[piece.name] = Placement(piece.name, base, piece.size, life.first, life.last)
    placements |= _homes(layout, placements)
    by_name = {piece.name: piece for piece in search.pieces}
    stages: list[tuple[Step, ...]] = []
    progress = []
    for number, group in enumerate(layout.groups):
        if group.trace is None:
            name = group.layers[0].out.name
            scratch = by_name[name].scratch
            where = search.scratch[name] if scratch else 0
            step = Step(group.layers[0].node, where, scratch, search.descending[name])
            stages.append((step,))
            progress.append(0)
        else:
            base = search.bases[stage_memory(number)]
            stages.append(_steps(group, base))
            progress.append(base)
    gap = search.pool - bound
    return Plan(
        planner=planner,
        graph=graph,
        stages=tuple(stages),
        placements=placements,
        pool_bytes=search.pool,
        input_streamed=layout.streamed,
        taken=taken_columns(graph, layout.source, layout.cuts[0].tile if layout.cuts else None),
        progress=tuple(progress),
        gap=gap,
        notes=(_verdict(bound, gap),),
    )


def _verdict(bound: int, gap: int) -> str:
    if not gap:
        return "Optimal for this grouping of layers."
    return f"Lower bound for this grouping of layers: {bound:,} bytes, {gap:,} below this pool."


def _homes(layout: Layout, placements: dict[str, Placement]) -> dict[str, Placement]:
    """The tensors of stages of several layers, where their rings have them."""
    lives = lifetimes(layout.graph)
    in_rings = {}
    for group in layout.groups:
        for tensor, home in zip(group.tensors, group.homes, strict=True):
            if group.trace is not None and home.owner < group.trace.own:
                owner = placements[group.tensors[home.owner].name]
                phase, life = home.phase * tensor.shape[2], lives[tensor.name]
                in_rings[tensor.name] = replace(
                    owner, tensor=tensor.name, first=life.first, last=life.last, phase=phase
                )
    return in_rings


def _steps(group: Group, base: int) -> tuple[Step, ...]:
    """The steps of a stage of several layers, whose memory is at `base`."""
    memory = Memory.of(group.layers)
    steps = []
    for layer in group.layers:
        offset, size = memory.scratch(layer)
        where = base + offset
        steps.append(Step(layer.node, where, size, columns=layer.columns, form=layer.form))
    assert group.trace is not None, "a layer on its own has no memory of a stage"
    return (replace(steps[0], ahead=group.trace.stage.ahead), *steps[1:])
