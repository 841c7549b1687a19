# SPDX-License-Identifier: Apache-2.0
"""The proof of pools whose origin advances between inferences, see plan/rotation.py.

A byte at distance d from the origin is at address (origin + d) % circle of the pool, or a circle
further, in the overhang, where its run began in front of the circle's end. Two live bytes at
different distances modulo the circle therefore have different addresses at every origin. prove()
replays the plan once on the circle of these distances, which covers all origins, and checks that
no run needs more overhang than there is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from ..errors import PlanError
from ..graph import Tensor
from ..plan.plan import SCRATCH_ALIGN, Plan
from ..plan.rotation import beyond, longest_run, runs
from .events import Called
from .mcu import VirtualMcu


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


class CircularMcu(RotatedMcu):
    """A virtual MCU of the circle alone: a byte in the overhang is the byte of the circle that it
    replaces, since at another origin it has that byte's address."""

    def _cells(self, where: slice | np.ndarray) -> slice | np.ndarray:
        circle = self.plan.pool_bytes
        if isinstance(where, slice):
            if where.stop <= circle:
                return where
            where = np.arange(where.start, where.stop)
        return where % circle

    def _overlap(self, one: slice, other: slice) -> bool:
        circle, bytes_, others = (
            self.plan.pool_bytes,
            one.stop - one.start,
            other.stop - other.start,
        )
        distance = (other.start - one.start) % circle
        shared: bool = distance < bytes_ or circle - distance < others
        return shared and min(bytes_, others) > 0


def machines_of(plan: Plan) -> Iterator[VirtualMcu]:
    """The virtual MCU of each inference in turn, without end."""
    if plan.rotation is None:
        yield from itertools.repeat(VirtualMcu(plan))
    else:
        for number in itertools.count():
            yield RotatedMcu(plan, number * plan.rotation.step % plan.pool_bytes)


def prove(plan: Plan, calls: Sequence[Sequence[Called]] | None = None) -> None:
    """PlanError if a run is longer than the overhang allows, if an origin breaks words, or if the
    plan clobbers a byte. calls: as VirtualMcu has them."""
    assert plan.rotation is not None
    step, overhang = plan.rotation.step, plan.rotation.overhang
    if math.gcd(step, plan.pool_bytes) != SCRATCH_ALIGN or overhang >= plan.pool_bytes:
        raise PlanError("the pool does not rotate to every word")
    if step >= plan.pool_bytes:
        # vmcu_rotate() goes around the circle once.
        raise PlanError("the origin advances by more than the circle")
    for begin, count in runs(plan, longest_run(plan)):
        if beyond(begin, count) > overhang:
            raise PlanError(f"a run of {count} bytes is longer than the overhang allows")
    CircularMcu(plan, calls=calls).prove()
