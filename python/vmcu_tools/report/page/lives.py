# SPDX-License-Identifier: Apache-2.0
"""The tensors in the pool, call by call: a plan, replayed pixel by pixel.

Time is counted in calls of kernels. Pixels that are there before the first call are born at BEFORE;
outputs live until behind the last.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...ops import Layer
from ...plan.plan import PROGRESS_BYTES, SCRATCH_ALIGN, Plan, Step
from ...plan.schedule import Stage, stage_at
from ...plan.trace import times_of, trace_of

BEFORE = -1
UNBORN = np.iinfo(np.int64).max
NOBODY = -1


@dataclass(frozen=True, eq=False)
class Life:
    """A tensor's pixels that are ever written, in the order of its bytes: their addresses, the
    calls that write them and those that are the last to read them; `pixel` bytes each. laps: how
    often its ring had turned when each was written."""

    tensor: str
    pixel: int
    at: np.ndarray
    births: np.ndarray
    deaths: np.ndarray
    laps: np.ndarray

    @property
    def first(self) -> int:
        return int(self.births.min(initial=UNBORN))

    @property
    def last(self) -> int:
        return int(self.deaths.max(initial=BEFORE))

    def alive(self, call: int) -> np.ndarray:
        """Which pixels are needed in a call."""
        return (self.births <= call) & (call <= self.deaths)


@dataclass(frozen=True)
class Span:
    """A stage's calls [start, stop) and steps [first, last]."""

    start: int
    stop: int
    first: int
    last: int


class Spell(NamedTuple):
    """Pixels side by side of one tensor that live and die together: addresses [start, stop)."""

    birth: int
    start: int
    stop: int
    death: int
    life: int


@dataclass(frozen=True)
class Box:
    """Scratch of the steps of a stage, or the stage's progress (`step` None): bytes of the pool,
    for calls [start, stop)."""

    base: int
    bytes: int
    start: int
    stop: int
    step: int | None


@dataclass(frozen=True, eq=False)
class Lives:
    """lives: of every tensor of the pool, those that are written first in front; makers: by call
    the step that makes it, -1 where the caller brings input."""

    plan: Plan
    lives: tuple[Life, ...]
    spans: tuple[Span, ...]
    boxes: tuple[Box, ...]
    makers: np.ndarray

    @property
    def calls(self) -> int:
        return len(self.makers)

    @functools.cached_property
    def spells(self) -> list[Spell]:
        """Lists the spells in the order in which they are written."""
        spells = []
        for number, life in enumerate(self.lives):
            for start, stop, birth, death in zip(*(a.tolist() for a in runs_of(life)), strict=True):
                spells.append(Spell(birth, start, stop, death, number))
        return sorted(spells)

    @functools.cached_property
    def size(self) -> int:
        """Bytes that have addresses."""
        rotation = self.plan.rotation
        most = max((life.pixel for life in self.lives), default=0)
        return self.plan.pool_bytes + most + (rotation.overhang if rotation else 0)

    @functools.cached_property
    def needed(self) -> np.ndarray:
        """Returns for each call the bytes of the pool that are needed."""
        return needed_of(self)

    @functools.cached_property
    def ledger(self) -> Ledger:
        return Ledger(self.needed, heirs_of(self))

    @functools.cached_property
    def by_step(self) -> list[int]:
        """The most bytes of the pool that are needed in a call of each step."""
        most = [0] * len(self.plan.steps)
        for step, needed in zip(self.makers.tolist(), self.needed.tolist(), strict=True):
            if step >= 0:
                most[step] = max(most[step], needed)
        if self.plan.graph.state.unbounded_nodes:
            # Of rows that are kept no later hop is looked at.
            most = [max(pair) for pair in zip(most, _kept_beside(self.plan), strict=True)]
        return most

    @functools.cached_property
    def sight(self) -> tuple[int, int]:
        """The calls [start, stop) that stand for all: of a window that moves, those of two hops at
        the end, where one is as the other."""
        if self.plan.graph.state.step_rows:
            last = np.flatnonzero(self.makers == len(self.plan.steps) - 1)
            answer = self.plan.steps[-1].bind(self.plan.graph)
            across = -(-answer.width // answer.columns)
            ends = last[across - 1 :: across]
            if len(ends) > 3:
                return int(ends[-4]) + 1, int(ends[-2]) + 1
        return 0, self.calls

    @functools.cached_property
    def peak(self) -> int:
        """The first call in sight that needs the most; 0 where there are no calls."""
        start, stop = self.sight
        return start + int(self.needed[start:stop].argmax()) if self.calls else 0

    def span_of(self, call: int) -> int:
        """The stage of a call."""
        return next(n for n, span in enumerate(self.spans) if span.start <= call < span.stop)


@dataclass(frozen=True, eq=False)
class Ledger:
    """needed: by call, bytes of the pool that are needed; heirs: by pair of lives, in how many
    bytes the second follows the first."""

    needed: np.ndarray
    heirs: dict[tuple[int, int], int]


class _Times:
    """Births and deaths of all pixels of all tensors of a plan, filled in stage by stage."""

    def __init__(self, plan: Plan):
        self.plan, self.births, self.deaths = plan, {}, {}
        self.spans: list[Span] = []
        self.boxes: list[Box] = []
        self.makers: list[np.ndarray] = []
        for name in plan.placements:
            height, width, _ = plan.graph.tensors[name].shape
            self.births[name] = np.full(height * width, UNBORN, np.int64)
            self.deaths[name] = np.full(height * width, BEFORE, np.int64)
        if not plan.input_streamed:
            for port in plan.graph.held:
                self.births[port.tensor][:] = BEFORE

    def run(self) -> Lives:
        start = first = 0
        for number, steps in enumerate(self.plan.stages):
            stage = stage_at(self.plan, number)
            if stage is None:
                makers = self._layer(steps[0].bind(self.plan.graph), start)
            else:
                makers = self._stage(stage, start)
                self._notes(number, len(steps), start, start + len(makers))
            self.makers.append(np.where(makers < 0, -1, makers + first))
            span = Span(start, start + len(makers), first, first + len(steps) - 1)
            self.boxes += _scratch(steps, span)
            self.spans.append(span)
            start, first = span.stop, first + len(steps)
        for port in self.plan.graph.outputs:
            self.deaths[port.tensor][:] = start
        lives = sorted((self._life(name) for name in self.births), key=lambda life: life.first)
        makers = np.concatenate([*self.makers, np.zeros(0, np.int64)])
        return Lives(self.plan, tuple(lives), tuple(self.spans), tuple(self.boxes), makers)

    def _layer(self, layer: Layer[Any], start: int) -> np.ndarray:
        """A layer on its own: a row a call."""
        turns = np.array([layer.turn(y) for y in range(layer.height)], np.int64)
        out = self.births[layer.out.name]
        out[:] = np.repeat(start + turns, out.size // layer.height)
        for index, tensor in enumerate(layer.ins):
            deaths = self.deaths[tensor.name].reshape(tensor.shape[:2])
            for y in range(layer.height):
                rows = layer.input_rows(index, y)
                here = deaths[rows.start : rows.stop : rows.step]
                np.maximum(here, start + layer.turn(y), out=here)
        return np.zeros(layer.height, np.int64)

    def _stage(self, stage: Stage, start: int) -> np.ndarray:
        trace = trace_of(stage)
        for number, tensor in enumerate(trace.tensors):
            if number < trace.own:
                made = times_of(trace.made[number])
                self.births[tensor.name][: made.size] = made + start
            freed = times_of(trace.freed[number])
            deaths = self.deaths[tensor.name][: freed.size]
            np.maximum(deaths, freed + start, out=deaths)
        makers = stage.order.makers
        return np.where(makers < len(stage.layers), makers, -1)

    def _notes(self, number: int, layers: int, start: int, stop: int) -> None:
        if number < len(self.plan.progress):
            size = -(-layers * PROGRESS_BYTES // SCRATCH_ALIGN) * SCRATCH_ALIGN
            self.boxes.append(Box(self.plan.progress[number], size, start, stop, None))

    def _life(self, name: str) -> Life:
        tensor, placement = self.plan.graph.tensors[name], self.plan.placements[name]
        size, circle = tensor.shape[2], self.plan.pool_of(placement.base)
        births, deaths = self.births[name], self.deaths[name]
        places = np.arange(births.size, dtype=np.int64) * size + placement.phase
        at = (placement.base + places % placement.ring - circle.start) % circle.size
        ring = placement.ring // size
        if ring < births.size:
            # Where nobody reads a pixel, the next one of its ring ends it.
            np.minimum(deaths[:-ring], births[ring:], out=deaths[:-ring])
        born = births != UNBORN
        deaths = np.maximum(deaths, births)[born]
        laps = (places // placement.ring)[born]
        return Life(name, size, (at + circle.start)[born], births[born], deaths, laps)


def _scratch(steps: tuple[Step, ...], span: Span) -> Iterator[Box]:
    for number, step in enumerate(steps):
        if step.scratch_bytes:
            where = step.scratch, step.scratch_bytes, span.start, span.stop
            yield Box(*where, span.first + number)


def _kept_beside(plan: Plan) -> list[int]:
    """Counts for each step bytes of rings that are kept or that it reads or writes, and of its
    scratch."""
    kept_bytes = []
    for step in plan.steps:
        live = np.zeros(plan.pool_bytes, bool)
        live[step.scratch : step.scratch + step.scratch_bytes] = True
        for name in {*plan.kept, *step.node.inputs, *step.node.outputs}:
            placement = plan.placements[name]
            at = placement.base + np.arange(placement.ring)
            live[at % plan.pool_bytes] = True
        kept_bytes.append(int(live.sum()))
    return kept_bytes


def lives_of(plan: Plan) -> Lives:
    """The lives of a plan's tensors, whose stages are known."""
    return _Times(plan).run()


def runs_of(life: Life) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Start and stop address, birth and death of runs of pixels side by side with one life."""
    if not life.at.size:
        return (np.zeros(0, np.int64),) * 4
    changed = np.diff(life.births) | np.diff(life.deaths) | (np.diff(life.at) - life.pixel)
    starts = np.concatenate([[0], np.flatnonzero(changed) + 1])
    counts = np.diff(np.concatenate([starts, [life.at.size]]))
    at = life.at[starts]
    return at, at + counts * life.pixel, life.births[starts], life.deaths[starts]


def needed_of(lives: Lives) -> np.ndarray:
    """Returns for each call the bytes of the pool that are needed."""
    change = np.zeros(lives.calls + 2, np.int64)
    until = np.full(lives.size, BEFORE - 1, np.int64)
    for birth, start, stop, death, _ in lives.spells:
        first = max(birth, 0)
        change[first] += stop - start
        change[death + 1] -= stop - start
        ends = until[start:stop]
        shared = ends >= first
        if shared.any():
            # The call reads these bytes of its input for the last time before it writes them.
            change[first] -= np.count_nonzero(shared)
            np.add.at(change, ends[shared] + 1, 1)
        until[start:stop] = death
    needed = np.cumsum(change[: lives.calls])
    for box in lives.boxes:
        here = slice(box.start, box.stop)
        mine = True if box.step is None else lives.makers[here] == box.step
        needed[here] += np.where(mine, box.bytes, 0)
    return needed


def heirs_of(lives: Lives) -> dict[tuple[int, int], int]:
    """The successors of lives, see Ledger."""
    owner = np.full(lives.size, NOBODY, np.int64)
    heirs: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for _, start, stop, _, number in lives.spells:
        before = owner[start:stop]
        if (before != number).any():
            for one in np.unique(before).tolist():
                if one not in (NOBODY, number):
                    heirs[one, number] += [(start, stop)]
        owner[start:stop] = number
    return {pair: _covered(spans, lives.size) for pair, spans in heirs.items()}


def _covered(spans: list[tuple[int, int]], size: int) -> int:
    """Bytes of the union of spans."""
    edges = np.zeros(size + 1, np.int64)
    for start, stop in spans:
        edges[start] += 1
        edges[stop] -= 1
    return int(np.count_nonzero(np.cumsum(edges)))
