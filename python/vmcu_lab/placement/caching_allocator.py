# SPDX-License-Identifier: Apache-2.0
"""The bytes that PyTorch's caching allocator for CUDA reserves for buffers with given lifetimes.

Input: an Instance. Output: Replay. The rules are those of c10/cuda/CUDACachingAllocator.cpp in
PyTorch 2.14 with its default settings (no expandable segments, no largest split size), on one
stream and with enough memory: a request uses the smallest free block that is large enough, and a
block splits if enough is left. Nothing is returned to the device. Without workspaces of libraries.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

from .problem import Instance

VERSION = "2.14"
BLOCK_BYTES = 512  # sizes are multiples of it
SMALL_BYTES = 1 << 20  # larger requests use the large pool
SMALL_SEGMENT_BYTES = 2 << 20
LARGE_SEGMENT_BYTES = 20 << 20
OWN_SEGMENT_BYTES = 10 << 20  # requests from here on get a segment of their size
SEGMENT_STEP_BYTES = 2 << 20  # such sizes are multiples of it


@dataclass(frozen=True)
class Replay:
    """`allocated`: the peak bytes of blocks in use, in multiples of BLOCK_BYTES; `reserved`: the
    bytes of all segments, which the device has lost to the process."""

    allocated: int
    reserved: int

    @property
    def fragmentation(self) -> float:
        """The share of the reserved bytes that no block uses at the peak of those in use."""
        return 1 - self.allocated / self.reserved if self.reserved else 0.0


@dataclass
class CachedBlock:
    """`start`, `size`: bytes; `before`, `after`: its neighbours in the segment."""

    start: int
    size: int
    is_free: bool = False
    before: CachedBlock | None = None
    after: CachedBlock | None = None


@dataclass
class BlockPool:
    """Free blocks of the small or the large pool. `free`: their (size, start) in rising order."""

    is_small: bool
    free: list[tuple[int, int]] = field(default_factory=list)
    blocks: dict[int, CachedBlock] = field(default_factory=dict)

    def smallest(self, size: int) -> CachedBlock | None:
        """Removes the smallest free block of at least `size` bytes, if there is one."""
        place = bisect_left(self.free, (size, -1))
        if place == len(self.free):
            return None
        block = self.blocks[self.free.pop(place)[1]]
        block.is_free = False
        return block

    def split(self, block: CachedBlock, size: int) -> None:
        """Shortens a block to `size` bytes and frees the rest, if that is worth a block."""
        rest = block.size - size
        if rest < BLOCK_BYTES if self.is_small else rest <= SMALL_BYTES:
            return
        after = CachedBlock(block.start + size, rest, False, block, block.after)
        if block.after:
            block.after.before = after
        block.size, block.after = size, after
        self.blocks[after.start] = after
        self.release(after)

    def release(self, block: CachedBlock) -> None:
        """Frees a block, merged with free neighbours."""
        if block.before and block.before.is_free:
            self.free.remove((block.before.size, block.before.start))
            block = self.merged(block.before, block)
        if block.after and block.after.is_free:
            self.free.remove((block.after.size, block.after.start))
            block = self.merged(block, block.after)
        block.is_free = True
        insort(self.free, (block.size, block.start))

    def merged(self, first: CachedBlock, second: CachedBlock) -> CachedBlock:
        """Two neighbours as one block."""
        del self.blocks[second.start]
        first.size, first.after = first.size + second.size, second.after
        if second.after:
            second.after.before = first
        return first


class CachingAllocator:
    """`reserved`: bytes of all segments."""

    def __init__(self) -> None:
        self.reserved = 0
        self._pools = (BlockPool(False), BlockPool(True))

    def allocate(self, size: int) -> CachedBlock:
        """A block for a request of `size` bytes."""
        size = rounded(size)
        pool = self._pools[size <= SMALL_BYTES]
        block = pool.smallest(size)
        if block is None:
            # Addresses only break ties, so segments follow each other.
            block = CachedBlock(self.reserved, segment_bytes(size))
            pool.blocks[block.start] = block
            self.reserved += block.size
        pool.split(block, size)
        return block

    def free(self, block: CachedBlock) -> None:
        """Returns a block to the pool of its segment."""
        small = self._pools[True]
        owner = small if small.blocks.get(block.start) is block else self._pools[False]
        owner.release(block)


def rounded(size: int) -> int:
    """The bytes of the block for a request."""
    return max(BLOCK_BYTES, -(-size // BLOCK_BYTES) * BLOCK_BYTES)


def segment_bytes(size: int) -> int:
    """The bytes of a new segment for a request."""
    if size <= SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    if size < OWN_SEGMENT_BYTES:
        return LARGE_SEGMENT_BYTES
    return -(-size // SEGMENT_STEP_BYTES) * SEGMENT_STEP_BYTES


def replay(instance: Instance) -> Replay:
    """Allocates each buffer at its first moment and frees it after its last one. Buffers of a
    moment are allocated in their order in the instance; those of no bytes are not allocated."""
    allocator = CachingAllocator()
    blocks: dict[str, CachedBlock] = {}
    events = []
    for number, buffer in enumerate(instance.buffers):
        if buffer.size:
            events.append((buffer.lower, True, number))
            events.append((buffer.upper, False, number))
    now = peak = 0
    for _, is_begin, number in sorted(events):
        buffer = instance.buffers[number]
        if is_begin:
            blocks[buffer.id] = allocator.allocate(buffer.size)
            now += rounded(buffer.size)
        else:
            allocator.free(blocks.pop(buffer.id))
            now -= rounded(buffer.size)
        peak = max(peak, now)
    return Replay(peak, allocator.reserved)
