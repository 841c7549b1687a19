# SPDX-License-Identifier: Apache-2.0
"""How low a placement can possibly be."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .problem import Buffer


def live_bound(buffers: Sequence[Buffer]) -> int:
    """The most bytes alive at one moment.

    Where every offset is a multiple of some number, a buffer takes its size rounded up to that,
    unless it is the topmost one: that one saves at most the largest rounding of all.
    """
    step = math.gcd(*(buffer.alignment for buffer in buffers)) or 1
    most = most_alive(buffers, 1)
    if step == 1:
        return most
    saved = max((-buffer.size % step for buffer in buffers), default=0)
    return max(most, most_alive(buffers, step) - saved)


def most_alive(buffers: Sequence[Buffer], step: int) -> int:
    """The most bytes alive at one moment, every size rounded up to a multiple of `step`."""
    events = []
    for buffer in buffers:
        size = buffer.size + -buffer.size % step
        events += [(buffer.upper, -size), (buffer.lower, size)]
    live = most = 0
    for _, change in sorted(events):
        live += change
        most = max(most, live)
    return most


def grain(buffers: Sequence[Buffer]) -> int:
    """Every height of a placement with nothing left to push down is a multiple of this."""
    return math.gcd(*(buffer.size for buffer in buffers), *aligned(buffers)) or 1


def aligned(buffers: Sequence[Buffer]) -> list[int]:
    """The alignments, in bytes, of the buffers that ask for one."""
    return [buffer.alignment for buffer in buffers if buffer.alignment > 1]
