# SPDX-License-Identifier: Apache-2.0
"""Scratch for more pixels at once, see ops.Form.WIDE, in bytes of the pool that nothing else needs
while the layer runs. The pool stays as it is.

A layer that reads more before it writes may overlap whatever it could: its tiles are tiles of the
narrow one put together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...graph import Graph
from ...ops import Form, serves
from ...plan.plan import PROGRESS_BYTES, SCRATCH_ALIGN, Plan, Step, pool_scratch
from .scratch import first_gap

Span = tuple[int, int]


def widened(plan: Plan) -> Plan:
    """The plan with all layers wide that find room."""
    stages, first = [], 0
    for number, stage in enumerate(plan.stages):
        last = first + len(stage) - 1
        taken = [
            (one.base, one.ring)
            for one in plan.placements.values()
            if one.first <= last and one.last >= first
        ]
        taken += _noted(plan, number)
        # The first of several pools is the fastest, and the tile is what a layer accesses most.
        pool = plan.pools[0]
        taken = [span for span in taken if plan.pool_of(span[0]) == pool]
        stages.append(tuple(_wide(plan.graph, step, taken, pool.size) for step in stage))
        first = last + 1
    return replace(plan, stages=tuple(stages))


def narrowed(plan: Plan, fits: Callable[[Step], bool]) -> Plan:
    """The plan without the wide layers whose scratch does not fit."""

    def narrow(step: Step) -> Step:
        if step.form is not Form.WIDE or fits(step):
            return step
        usual = replace(step, form=Form.USUAL)
        size = pool_scratch(usual.bind(plan.graph))
        return replace(usual, scratch=step.scratch if size else 0, scratch_bytes=size)

    return replace(plan, stages=tuple(tuple(map(narrow, stage)) for stage in plan.stages))


def _noted(plan: Plan, number: int) -> list[Span]:
    """The bytes that a stage of several layers keeps besides tensors and scratch."""
    stage = plan.stages[number]
    if all(step.columns is None for step in stage):
        return []
    notes = -(-len(stage) * PROGRESS_BYTES // SCRATCH_ALIGN) * SCRATCH_ALIGN
    sums = [(s.scratch, s.scratch_bytes) for s in stage if s.form is Form.SUMMING]
    return [(plan.progress[number], notes), *sums]


def _wide(graph: Graph, step: Step, taken: Sequence[Span], pool: int) -> Step:
    if step.foreign is not None or step.form is not Form.USUAL:
        return step
    if not serves(graph, step.node, Form.WIDE):
        return step
    wide = replace(step, form=Form.WIDE)
    size = pool_scratch(wide.bind(graph))
    if size <= pool_scratch(step.bind(graph)):
        return step
    gap = first_gap(taken, pool, size)
    return step if gap is None else replace(wide, scratch=gap, scratch_bytes=size)
