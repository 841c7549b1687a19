# SPDX-License-Identifier: Apache-2.0
"""Pools: circles of addresses, and the memories that several are in, see doc/memories.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

# Where a pool begins, of several, is a multiple of this in a plan, as it is on a device.
POOL_ALIGN = 8
# VMCU_MOST_POOLS and VMCU_POOL_NUMBER: where an address in tables has the number of its pool. Twice
# a pool's size, to which a ring's byte comes before it is taken around, must stay below.
MOST_POOLS, POOL_NUMBER = 4, 28
MOST_OF_SEVERAL = 1 << (POOL_NUMBER - 1)


class Pool(NamedTuple):
    """Bytes [start, start + size) of a plan's addresses, the last followed by the first."""

    start: int
    size: int

    def around(self, at: int) -> int:
        """An address that may lie beyond either end, within."""
        return self.start + (at - self.start) % self.size

    @property
    def stop(self) -> int:
        """Behind its last byte."""
        return self.start + self.size


@dataclass(frozen=True)
class Region:
    """One of several memories that a plan has a pool in. pool_bytes: of that pool; capacity: of
    the memory; wait: the cycles of an access beyond those in a memory without wait states."""

    name: str
    capacity: int
    wait: float
    pool_bytes: int = 0

    def __str__(self) -> str:
        return f"{self.name}={self.capacity}:{self.wait:g}"


def pools_of(sizes: Sequence[int]) -> tuple[Pool, ...]:
    """Places pools of these sizes, in bytes, one after the other."""
    pools, start = [], 0
    for size in sizes:
        pools.append(Pool(start, size))
        start += -(-size // POOL_ALIGN) * POOL_ALIGN
    return tuple(pools)


def pool_at(circles: Sequence[Pool], at: int) -> Pool | None:
    """The one that has an address."""
    return next((one for one in circles if one.start <= at < one.stop), None)
