# SPDX-License-Identifier: Apache-2.0
"""Pools whose origin advances between inferences, so that all bytes are written equally often.

A plan's addresses count from the origin, and the pool is a circle, so any origin will do but for
one thing: kernels take it that some bytes lie side by side, and the end of the pool, the circle's
cut, now comes between any two. Such bytes are a run: scratch, a stage's progress, a row up to the
end of its ring, or a whole ring that is not longer than the longest of these. A run that begins in
front of the cut goes on behind it, in an overhang. Bytes of the overhang stand for the first of the
circle, each byte of a tensor has one of the two places at a given origin, and no two live bytes of
a plan have the same place in the circle: so none have the same place in memory either, whatever the
origin, and one replay on a circle that splits nothing proves them all (machine/rotation.py). The
remaining condition is that no run reaches beyond the overhang.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .plan import PROGRESS_BYTES, SCRATCH_ALIGN, Plan

GOLDEN = (math.sqrt(5) - 1) / 2


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
