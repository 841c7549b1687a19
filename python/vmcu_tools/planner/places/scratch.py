# SPDX-License-Identifier: Apache-2.0
"""Room in the pool for the scratch of kernels, besides everything that is alive."""

from __future__ import annotations

from collections.abc import Sequence

from ...plan.plan import SCRATCH_ALIGN


def first_gap(taken: Sequence[tuple[int, int]], pool: int, size: int) -> int | None:
    """The lowest aligned offset at which `size` bytes are free, None if there is none.

    taken: (start, bytes), which may reach around the pool's end.
    """
    spans = [(start % pool, start % pool + length) for start, length in taken]
    spans += [(0, stop - pool) for _, stop in spans if stop > pool]
    at = 0
    for start, stop in sorted(spans):
        if start - at >= size:
            return at
        at = max(at, -(-stop // SCRATCH_ALIGN) * SCRATCH_ALIGN)
    return at if pool - at >= size else None
