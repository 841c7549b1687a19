# SPDX-License-Identifier: Apache-2.0
"""Longer ring buffers, so that a layer can run ahead of the one that reads its rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ...errors import PlanError
from ...machine.mcu import VirtualMcu
from ...ops.layer import SCRATCH_ALIGN
from ...plan.plan import Placement, Plan, Step

Ring = tuple[int, int]


def slackened(plan: Plan, most: int) -> Iterator[tuple[Plan, ...]]:
    """The plan with one of its ring buffers longer by the columns of a call, or by a row, in at
    most `most` bytes more, in two ways: one or both may lose bytes. The pool's last rings come
    first: they are those of a stage's last layers."""
    for ring in sorted(_rings(plan), reverse=True):
        yield from _longer(plan, ring, most)


def _rings(plan: Plan) -> set[Ring]:
    """The ring buffers that hold a part of their tensors."""
    tensors = plan.graph.tensors
    return {(p.base, p.ring) for n, p in plan.placements.items() if p.ring < tensors[n].bytes}


def _longer(plan: Plan, ring: Ring, most: int) -> Iterator[tuple[Plan, ...]]:
    names = [name for name, p in plan.placements.items() if (p.base, p.ring) == ring]
    tensor = plan.graph.tensors[names[0]]
    columns = [s.columns or tensor.shape[1] for s in plan.steps if s.node.outputs[0] in names]
    call = tensor.shape[2] * min(columns, default=tensor.shape[1])
    # Scratch and progress stay aligned, and no pixel is split.
    whole = math.lcm(SCRATCH_ALIGN, *(plan.graph.tensors[name].shape[2] for name in names))
    sizes = {-(-size // whole) * whole for size in (call, tensor.row_bytes)}
    sizes = {size for size in sizes if size <= most}
    for size in sorted(sizes):
        # Bytes behind the ring's start move, or those behind its end.
        places = (ring[0] + 1, ring[0] + ring[1])
        yield tuple(_moved(plan, ring, place % plan.pool_bytes, size) for place in places)


def _moved(plan: Plan, ring: Ring, place: int, size: int) -> Plan:
    """Inserts bytes into the pool at `place`, and into a ring."""

    def at(byte: int) -> int:
        return byte + (size if byte >= place else 0)

    def placed(one: Placement) -> Placement:
        if (one.base, one.ring) == ring:
            return replace(one, ring=one.ring + size, phase=one.phase and one.phase + size)
        return replace(one, base=at(one.base % plan.pool_bytes))

    def stepped(step: Step) -> Step:
        return replace(step, scratch=at(step.scratch)) if step.scratch_bytes else step

    return replace(
        plan,
        stages=tuple(tuple(map(stepped, stage)) for stage in plan.stages),
        placements={name: placed(one) for name, one in plan.placements.items()},
        progress=tuple(map(at, plan.progress)),
        pool_bytes=plan.pool_bytes + size,
    )


def is_sound(plan: Plan) -> bool:
    """True if the plan loses no byte."""
    try:
        VirtualMcu(plan).prove()
    except PlanError:
        return False
    return True
