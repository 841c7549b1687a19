# SPDX-License-Identifier: Apache-2.0
"""Pools whose origin advances between inferences, so that all bytes are written equally often.

A plan's addresses count from the origin, and the pool is a circle, so any origin will do but for
one thing: kernels take it that some bytes lie side by side, and the end of the pool, the circle's
cut, now comes between any two. Such bytes are a run: scratch, a stage's progress, a row up to the
end of its ring, or a whole ring that is not longer than the longest of these. A run that begins in
front of the cut goes on behind it, in an overhang. Bytes of the overhang stand for the first of the
circle, each byte of a tensor has one of the two places at a given origin, and no two live bytes of
a plan have the same place in the circle: so none have the same place in memory either, whatever the
origin, and one replay on a circle that splits nothing proves them all. What is left to show is that
no run reaches beyond the overhang.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from .errors import PlanError, Problem, UserError
from .graph import Tensor
from .machine.events import Called
from .machine.mcu import VirtualMcu
from .plan import PROGRESS_BYTES, SCRATCH_ALIGN, Placement, Plan, Rotation

GOLDEN = (math.sqrt(5) - 1) / 2


class RotatedMcu(VirtualMcu):
    """A virtual MCU whose pool has its origin at byte `origin`, and an overhang."""

    def __init__(
        self, plan: Plan, origin: int = 0, calls: Sequence[Sequence[Called]] | None = None
    ):
        self.origin = origin
        super().__init__(plan, calls)
        self.size = plan.ram_bytes

    def _check_rings(self) -> None:
        for name, placement in self.plan.placements.items():
            channels = self.tensors[name].shape[2]
            if placement.ring % channels or not 0 < placement.ring <= self.plan.pool_bytes:
                raise PlanError(f"the ring of tensor '{name}' is no number of pixels in the pool")

    def _where(self, tensor: Tensor, y: int, start: int, stop: int) -> slice | np.ndarray:
        placement = self.plan.placements[tensor.name]
        begin, run = placement.phase, 0
        if placement.ring > longest_run(self.plan):
            begin = run = (y * tensor.row_bytes + placement.phase) % placement.ring
        else:
            begin += y * tensor.row_bytes
        place = begin + np.arange(start * tensor.shape[2], stop * tensor.shape[2])
        runs = np.where(place < placement.ring, run, 0)
        first = (placement.base + runs + self.origin) % self.plan.pool_bytes
        where = first + place % placement.ring - runs
        if (np.diff(where) == 1).all():
            return slice(int(where[0]), int(where[-1]) + 1)
        return where

    def _run(self, at: int, size: int) -> slice:
        return super()._run((at + self.origin) % self.plan.pool_bytes, size)


def machines_of(plan: Plan) -> Iterator[VirtualMcu]:
    """The virtual MCU of each inference in turn, without end."""
    if plan.rotation is None:
        yield from itertools.repeat(VirtualMcu(plan))
    else:
        for number in itertools.count():
            yield RotatedMcu(plan, number * plan.rotation.step % plan.pool_bytes)


def longest_run(plan: Plan) -> int:
    """Rings of at most so many bytes are one run."""
    assert plan.rotation is not None
    return plan.rotation.overhang + 1


def runs(plan: Plan, longest: int = 0) -> Iterator[tuple[int, int]]:
    """All runs of a plan: where they begin, from the origin, and their bytes. longest: of rings
    that are one run."""
    for name, placement in plan.placements.items():
        tensor, ring = plan.graph.tensors[name], placement.ring
        begins = (np.arange(tensor.shape[0]) * tensor.row_bytes + placement.phase) % ring
        if ring > longest:
            for begin in np.unique(begins):
                yield placement.base + int(begin), min(tensor.row_bytes, ring - int(begin))
            yield placement.base, min(tensor.row_bytes, ring)
        else:
            yield placement.base, ring
    for step in plan.steps:
        yield step.scratch, step.scratch_bytes
    for stage, progress in zip(plan.stages, plan.progress, strict=False):
        yield progress, PROGRESS_BYTES * len(stage)


def beyond(begin: int, count: int) -> int:
    """Bytes by which a run may reach beyond the pool's end, which is a multiple of SCRATCH_ALIGN as
    all origins are."""
    return count - (SCRATCH_ALIGN - begin % SCRATCH_ALIGN)


def rotation_step(pool_bytes: int, align: int = SCRATCH_ALIGN) -> tuple[int, int]:
    """Bytes by which the origin advances, and the number of origins it visits: all multiples of
    the unit that keeps words aligned, gcd(align, pool_bytes). Near the golden section, so that any
    few inferences in a row lie far apart."""
    unit = math.gcd(align, pool_bytes)
    origins = pool_bytes // unit
    step = max(1, round(origins * GOLDEN))
    while math.gcd(step, origins) != 1:
        step -= 1
    return step * unit, origins


def rotate(plan: Plan, ram: int | None = None) -> Plan:
    """The plan with a pool that rotates, proven for every origin.

    ram: bytes the pool may have, overhang included. UserError where it has more, or where the plan
    cannot be rotated.
    """
    step, _ = rotation_step(-(-plan.pool_bytes // SCRATCH_ALIGN) * SCRATCH_ALIGN)
    for rounded in _rounded(plan):
        rotated = replace(rounded, rotation=Rotation(step, _overhang(rounded)))
        try:
            prove(rotated)
        except PlanError:
            continue
        if ram is not None and rotated.ram_bytes > ram:
            reason = (
                f"does not fit: {rotated.pool_bytes} bytes, and {rotated.ram_bytes} with the "
                f"overhang of a pool that rotates; {ram} are allowed"
            )
            raise UserError(Problem(reason, "allow more with --ram", plan.graph.origin))
        return rotated
    raise UserError(
        Problem("this plan's pool cannot rotate", "leave out --rotate", plan.graph.origin)
    )


def _rounded(plan: Plan) -> Iterator[Plan]:
    """The plan on a circle of whole words. What reaches around the end leaves the bytes that come
    in there behind it, or in front of it."""
    size = -(-plan.pool_bytes // SCRATCH_ALIGN) * SCRATCH_ALIGN
    more = size - plan.pool_bytes
    yield replace(plan, pool_bytes=size)
    if more == 0:
        return

    def above(placement: Placement) -> Placement:
        around = placement.base % plan.pool_bytes + placement.ring > plan.pool_bytes
        base = placement.base % plan.pool_bytes + (more if around else 0)
        return replace(placement, base=base)

    placements = {name: above(placement) for name, placement in plan.placements.items()}
    yield replace(plan, pool_bytes=size, placements=placements)


def _overhang(plan: Plan) -> int:
    """The fewest bytes that no run reaches beyond."""
    return max(0, *(beyond(*run) for run in runs(plan)))


def prove(plan: Plan, calls: Sequence[Sequence[Called]] | None = None) -> None:
    """PlanError if a run is longer than the overhang allows, if an origin breaks words, or if the
    plan clobbers a byte. calls: as VirtualMcu has them."""
    assert plan.rotation is not None
    step, overhang = plan.rotation.step, plan.rotation.overhang
    if math.gcd(step, plan.pool_bytes) != SCRATCH_ALIGN or overhang >= plan.pool_bytes:
        raise PlanError("the pool does not rotate to every word")
    for begin, count in runs(plan, longest_run(plan)):
        if beyond(begin, count) > overhang:
            raise PlanError(f"a run of {count} bytes is longer than the overhang allows")
    RotatedMcu(plan, calls=calls).prove()
