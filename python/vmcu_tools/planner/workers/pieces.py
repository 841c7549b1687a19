# SPDX-License-Identifier: Apache-2.0
"""The calls of a plan in pieces that workers can share, with the bytes that each accesses."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ...graph import Tensor
from ...machine.events import planned_calls
from ...machine.workers import is_free
from ...plan.plan import Plan, Step, pool_scratch
from ...plan.schedule import Call, in_one_piece, operand, pieces
from ...plan.workers import WorkerTask

# Cycles of a task beside its kernel: the list's entry, the count, a wait in some of them.
TASK_CYCLES = 60.0


class Kind(enum.Enum):
    """An access. Those of one kind are in any order, unless they write. SCRATCH: of the first
    worker alone, which makes one call at a time."""

    READ = enum.auto()
    WRITE = enum.auto()
    SCRATCH = enum.auto()


class PoolAccess(NamedTuple):
    """Pool bytes [start, stop)."""

    kind: Kind
    start: int
    stop: int


@dataclass(frozen=True)
class CallCut:
    """Cuts calls into up to `parts` pieces, unless their cycles are more than `limit` times the
    call's."""

    parts: int
    limit: float = 1.0


@dataclass(frozen=True, eq=False)
class CallPiece:
    """A task with its estimated cycles and its accesses, reads first. in_turn: it comes behind the
    step's piece before. scratch_bytes: of scratch that each worker has to have; 0 if it needs none,
    or no other than the step's."""

    task: WorkerTask
    cycles: float
    accesses: tuple[PoolAccess, ...]
    in_turn: bool
    scratch_bytes: int


def pieces_of(plan: Plan, how: CallCut) -> list[CallPiece]:
    """The calls of an inference in the plan's order, in pieces."""
    return [cutter.piece(call) for cutter, call in _calls(plan, how)]


def cycles_alone(plan: Plan) -> float:
    """Estimates the cycles of an inference on one worker."""
    return sum(cutter.cycles(call.columns) for cutter, call in _calls(plan, CallCut(1)))


def _calls(plan: Plan, how: CallCut) -> Iterator[tuple[_Cutter, Call]]:
    """The pieces of calls in the plan's order, with the cutter of their step."""
    cutters = {id(step): _Cutter(plan, n, step, how) for n, step in enumerate(plan.steps)}
    for stage in range(len(plan.stages)):
        for step, _, call in planned_calls(plan, stage):
            cutter = cutters[id(step)]
            yield from ((cutter, one) for one in cutter.cut(call))


class _Cutter:
    """Cuts the calls of a step."""

    def __init__(self, plan: Plan, number: int, step: Step, how: CallCut):
        self.plan, self.number, self.step = plan, number, step
        self.layer = layer = step.bind(plan.graph)
        self.free = is_free(layer)
        self.needed = pool_scratch(layer)
        self.shared = self.free and not layer.addressed and self.needed > 0
        self.costs: dict[int, float] = {}
        self.cuts: dict[tuple[int, int], list[int]] = {}
        self.how = how
        whole = [operand(layer, index) for index in in_one_piece(layer)]
        self.whole = [tensor for tensor in whole if tensor.name in plan.placements]

    def cut(self, call: Call) -> Iterator[Call]:
        """The pieces of a call, which rings do not split."""
        begin = call.x
        for columns in self._columns(call.x, call.columns):
            yield from pieces(self.plan, call._replace(x=begin, columns=columns), self.whole)
            begin += columns

    def _columns(self, x: int, columns: int) -> list[int]:
        """The columns of each piece of a call."""
        if (x, columns) not in self.cuts:
            parts, begin, some = list[int](), 0, -(-columns // self.how.parts)
            for border in [*self._borders(x, columns), columns]:
                if border - begin >= some or border == columns:
                    parts.append(border - begin)
                    begin = border
            cycles = sum(map(self.cycles, parts))
            limit = self.how.limit * self.cycles(columns)
            self.cuts[x, columns] = parts if cycles <= limit else [columns]
        return self.cuts[x, columns]

    def _borders(self, x: int, columns: int) -> list[int]:
        """Where a call can be cut: its kernel writes all columns in front before any behind, so
        that it accesses each byte in the same order."""
        layer = self.layer
        if not (self.free and layer.by_columns) or layer.descending or self.how.parts == 1:
            return []
        ticks = layer.writes_in_call(x, columns)
        if ticks is None:
            return []
        ticks = ticks[x : x + columns]
        before = np.maximum.accumulate(ticks.max(axis=1))
        behind = np.minimum.accumulate(ticks.min(axis=1)[::-1])[::-1]
        (borders,) = (before[:-1] < behind[1:]).nonzero()
        return [int(one) + 1 for one in borders if one + 1 >= layer.fewest]

    def piece(self, call: Call) -> CallPiece:
        layer, task = self.layer, WorkerTask(self.number, call.y, call.x, call.columns)
        accesses = [
            PoolAccess(Kind.READ, *span)
            for index, tensor in enumerate(layer.ins)
            for span in self._read(call, index, tensor)
        ]
        if layer.sums:
            last = call.y == layer.height - 1 and call.x + call.columns == layer.width
            written = _spans(self.plan, layer.out, 0, 0, layer.out.shape[1]) if last else ()
        else:
            written = _spans(self.plan, layer.out, call.y, call.x, call.x + call.columns)
        accesses += [PoolAccess(Kind.WRITE, *span) for span in written]
        if self.needed:
            kind = Kind.SCRATCH if self.shared else Kind.WRITE
            stop = self.step.scratch + self.needed
            accesses.append(PoolAccess(kind, self.step.scratch, stop))
        cycles, needed = self.cycles(call.columns), self.needed if self.shared else 0
        return CallPiece(task, cycles, tuple(accesses), not self.free, needed)

    def cycles(self, columns: int) -> float:
        """Estimates the cycles of a call of so many columns."""
        if columns not in self.costs:
            step = replace(self.step, columns=columns) if self.layer.by_columns else self.step
            layer = step.bind(self.plan.graph)
            blocks = layer.height * layer.blocks(layer.rates.block)
            worked = layer.cycles(0) / blocks * -(-columns // layer.rates.block)
            self.costs[columns] = worked + layer.rates.call + TASK_CYCLES
        return self.costs[columns]

    def _read(self, call: Call, index: int, tensor: Tensor) -> Iterator[tuple[int, int]]:
        layer, columns = self.layer, range(tensor.shape[1])
        if layer.by_columns or self.step.columns is not None:
            last = call.x + call.columns - 1
            columns = layer.reach(index).span(1, call.x, last, tensor.shape[1])
        for y in layer.input_rows(index, call.y) if columns else ():
            yield from _spans(self.plan, tensor, y, columns.start, columns.stop)


def _spans(plan: Plan, tensor: Tensor, y: int, x: int, stop: int) -> Sequence[tuple[int, int]]:
    """The pool bytes of columns [x, stop) of a row, in up to three runs."""
    placement, channels = plan.placements[tensor.name], tensor.shape[2]
    circle = plan.pool_of(placement.base)
    at = (y * tensor.shape[1] + x) * channels
    left, spans = (stop - x) * channels, []
    while left:
        begin = placement.at(at, circle)
        run = min(left, placement.ring - (at + placement.phase) % placement.ring)
        run = min(run, circle.stop - begin)
        spans.append((begin, begin + run))
        at, left = at + run, left - run
    return spans
