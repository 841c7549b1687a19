# SPDX-License-Identifier: Apache-2.0
"""A plan whose pool rotates, from one whose pool does not; see plan/rotation.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..errors import PlanError, Problem, UserError
from ..machine.rotation import prove
from ..plan.plan import SCRATCH_ALIGN, Placement, Plan, Rotation, Step
from ..plan.rotation import beyond, rotation_step, runs
from .places.widen import narrowed


def rotate(plan: Plan, ram: int | None = None) -> Plan:
    """The plan with a pool that rotates, proven for every origin.

    ram: bytes the pool may have, overhang included. UserError where it has more, or where the plan
    cannot be rotated.
    """
    step, _ = rotation_step(-(-plan.pool_bytes // SCRATCH_ALIGN) * SCRATCH_ALIGN)
    for rounded in _rounded(plan):
        overhang = _overhang(narrowed(rounded, lambda _: False))

        def fits(one: Step, overhang: int = overhang) -> bool:
            return beyond(one.scratch, one.scratch_bytes) <= overhang

        rotated = replace(narrowed(rounded, fits), rotation=Rotation(step, overhang))
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
