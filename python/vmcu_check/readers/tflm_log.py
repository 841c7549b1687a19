# SPDX-License-Identifier: Apache-2.0
"""The log of TensorFlow Lite Micro's greedy planner: lines of GreedyMemoryPlanner::PrintMemoryPlan.

    0 (id=0): size=1024, offset=0, first_used=0 last_used=1

Both times are inside the lifetime. Sizes are multiples of 16.
"""

from __future__ import annotations

import re

from ..plans import LiveSpan, MemoryPlan, PlanFileError, PlannedBuffer

LINE = re.compile(
    r"\(id=(\d{1,9})\): size=(\d{1,18}), offset=(-?\d{1,18}), "
    r"first_used=(-?\d{1,9}) last_used=(-?\d{1,9})\b"
)
ALIGNMENT = 16


def read(text: str) -> MemoryPlan | None:
    """Returns the plan in a log, None without a line of it. Other lines may be between them."""
    buffers: dict[str, PlannedBuffer] = {}
    for line in LINE.finditer(text):
        number, size, offset, first, last = map(int, line.groups())
        name = f"buffer {number}"
        if name in buffers:
            raise PlanFileError(f"{name} is in the log twice", "keep the lines of one plan")
        span = LiveSpan(first, last + 1, offset, offset + size)
        # Buffers without an offset and without a use.
        spans = (span,) if offset >= 0 and last >= 0 else ()
        buffers[name] = PlannedBuffer(name, "arena", spans, ALIGNMENT)
    if not buffers:
        return None
    return MemoryPlan("log of TensorFlow Lite Micro's planner", tuple(buffers.values()))
