# SPDX-License-Identifier: Apache-2.0
"""Lower bounds of placements: peak live bytes, with alignment and given offsets."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .problem import Buffer


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """Bytes below which no placement ends.

    Where every offset is a multiple of some number, a buffer takes its size rounded up to that,
    unless it is the topmost one: that one saves at most the largest rounding of all.
    """
    fixed_ends = (b.offset + b.size for b in buffers if b.offset is not None)
    most = max(peak_live_bytes(buffers), *fixed_ends, *(b.size for b in buffers), 0)
    step = math.gcd(*(buffer.alignment for buffer in buffers)) or 1
    if step == 1 or any(buffer.gaps for buffer in buffers):
        return most
    saved = max(-buffer.size % step for buffer in buffers)
    return max(most, peak_live_bytes(buffers, step) - saved)


def peak_live_bytes(buffers: Sequence[Buffer], step: int = 1) -> int:
    """The most bytes needed at one time, every size rounded up to a multiple of `step`."""
    events = []
    for buffer in buffers:
        for part in buffer.parts():
            size = part.high - part.low
            size += -size % step
            events += [(part.upper, -size), (part.lower, size)]
    live = most = 0
    for _, change in sorted(events):
        live += change
        most = max(most, live)
    return most


def granularity(buffers: Sequence[Buffer]) -> int:
    """Every height of a placement with nothing left to push down is a multiple of this."""
    alignments = (buffer.alignment for buffer in buffers if buffer.alignment > 1)
    return math.gcd(*(buffer.size for buffer in buffers), *alignments) or 1
