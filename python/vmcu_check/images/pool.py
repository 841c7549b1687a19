# SPDX-License-Identifier: Apache-2.0
"""A pool that knows which byte of which tensor each of its bytes is.

Bytes of tensors have keys: the tensor's number and the byte's, counted from the tensor's beginning.
Addresses in a pool that rotates count from its origin and are taken modulo its circle. So one
replay proves all origins, if the overhang is as long as the bytes that must be contiguous.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .elf import prove
from .tables import WORD, ImageModel, ImageTensor

POOL_NUMBER = 28
TENSOR_KEY = 1 << 44
# Keys of bytes of no tensor, MARKS less for each stage or layer.
EMPTY, SCRATCH, PROGRESS, SUMS, MARKS = -1, -2, -3, -4, 4
NAMES = "nothing yet", "scratch memory", "the progress of stage {}", "sums of layer {}"
LATE = np.iinfo(np.int64).max


@dataclass(frozen=True)
class PoolKeys:
    """All pools, one behind another. keys: int64, what each byte is; when: the step at which the
    running call writes a byte."""

    model: ImageModel
    keys: np.ndarray
    when: np.ndarray

    @classmethod
    def of(cls, model: ImageModel) -> PoolKeys:
        """Returns empty pools; raises FaultError if the overhang of one that rotates is short."""
        size = sum(model.pools)
        pool = cls(model, np.full(size, EMPTY, np.int64), np.full(size, LATE, np.int64))
        prove(model.circle <= size, f"a circle of {model.circle} bytes in a pool of {size}")
        for tensor in model.tensors if model.circle else ():
            begins, most = np.zeros(1, np.int64), tensor.ring
            if tensor.ring > size - model.circle + 1:
                begins = np.arange(tensor.height) * tensor.row + tensor.phase
                begins, most = np.append(begins, 0) % max(tensor.ring, 1), tensor.row
            for begin in np.unique(begins):
                run = min(most, tensor.ring - int(begin))
                pool.contiguous(tensor.base + int(begin), run, f"tensor {tensor.number}")
        return pool

    def circle(self, at: int) -> tuple[int, int, int]:
        """Returns the start and the size of the pool of an address, and the offset in it."""
        pools = self.model.pools
        number = at >> POOL_NUMBER if len(pools) > 1 else 0
        prove(number < len(pools), f"there is no pool {number}")
        size = self.model.circle or pools[number]
        return sum(pools[:number]), size, at - (number << POOL_NUMBER)

    def places(self, tensor: ImageTensor, at: np.ndarray) -> np.ndarray:
        """Returns the places of bytes of a tensor."""
        start, size, base = self.circle(tensor.base)
        is_inside = tensor.phase < tensor.ring <= size and base < size
        prove(is_inside, f"tensor {tensor.number} is outside the pool of {size} bytes")
        places: np.ndarray = start + (base + (at + tensor.phase) % tensor.ring) % size
        return places

    def distances(self, places: np.ndarray) -> np.ndarray:
        """Returns the bytes from each place to the next one. In a pool that rotates, the end of the
        circle is between no bytes."""
        steps = np.diff(places)
        return steps % self.model.circle if self.model.circle else steps

    def contiguous(self, at: int, size: int, what: str) -> np.ndarray:
        """Returns the places of contiguous bytes; raises FaultError if they are none."""
        start, end, at = self.circle(at)
        behind = at + size - end
        if self.model.circle:
            # Origins are multiples of a unit, and the farthest one is in front of the end.
            unit = math.gcd(self.model.step, end)
            behind = size - unit + at % unit - (self.model.pools[0] - end)
        prove(behind <= 0 and at < end + (size == 0), f"{what} ends {behind} bytes behind the pool")
        return start + (at + np.arange(size)) % end

    def check_ends(self) -> None:
        """Raises FaultError if the last bytes of a pool are used for nothing."""
        start = 0
        for size in (self.model.circle,) if self.model.circle else self.model.pools:
            keys = self.keys[start : start + size]
            end = 1 + max(np.flatnonzero(keys != EMPTY), default=-1)
            # A stage's progress, and a pool that rotates, may be whole words.
            is_mark = end > 0 and keys[end - 1] < 0 and -keys[end - 1] % MARKS == -PROGRESS
            ends = end, -(-end // WORD) * WORD if is_mark or self.model.circle else end
            prove(size in ends, f"nothing uses the last {size - end} of {size} bytes of a pool")
            start += size

    def name(self, key: int) -> str:
        """Describes a byte of the pool."""
        if key >= 0:
            return f"byte {key % TENSOR_KEY} of tensor {key // TENSOR_KEY}"
        return NAMES[(-1 - key) % MARKS].format((-1 - key) // MARKS)
