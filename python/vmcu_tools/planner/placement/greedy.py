# SPDX-License-Identifier: Apache-2.0
"""First fit: the lowest gap that holds a buffer, one buffer after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .problem import Buffer

ORDERS: tuple[Callable[[Buffer], int], ...] = (
    lambda b: -b.size,
    lambda b: -b.size * (b.upper - b.lower),
    lambda b: -(b.upper - b.lower),
    lambda b: -b.size * b.size * (b.upper - b.lower),
    lambda b: b.lower,
)


def first_fit(buffers: Sequence[Buffer], order: Sequence[int]) -> list[int]:
    """Offsets, by index, when buffers are placed in this order."""
    offsets = [0] * len(buffers)
    placed: list[int] = []
    for index in order:
        buffer = buffers[index]
        taken = sorted(
            (offsets[other], offsets[other] + buffers[other].size)
            for other in placed
            if buffers[other].overlaps(buffer)
        )
        offset = 0
        for start, end in taken:
            if start - offset >= buffer.size:
                break
            offset = max(offset, -(-end // buffer.alignment) * buffer.alignment)
        offsets[index] = offset
        placed.append(index)
    return offsets


def best_first_fit(buffers: Sequence[Buffer]) -> list[int]:
    """The lowest first fit over a few orders: by size, by area, by lifetime."""

    def height(offsets: list[int]) -> int:
        return max(o + b.size for o, b in zip(offsets, buffers, strict=True))

    indices = range(len(buffers))
    return min(
        (first_fit(buffers, sorted(indices, key=lambda i: key(buffers[i]))) for key in ORDERS),
        key=height,
    )
