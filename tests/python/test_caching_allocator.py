# SPDX-License-Identifier: Apache-2.0
"""The replay of PyTorch's caching allocator follows the rules of its source."""

from __future__ import annotations

import pytest
from vmcu_lab.placement.caching_allocator import CachingAllocator, replay
from vmcu_lab.placement.problem import Buffer, Instance

KB, MB = 1 << 10, 1 << 20


def reserved(*sizes: int) -> int:
    """The bytes of all segments with requests that are alive together."""
    allocator = CachingAllocator()
    for size in sizes:
        allocator.allocate(size)
    return allocator.reserved


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((1,), 2 * MB),
        ((MB, MB - 512, 512), 2 * MB),
        ((MB, MB - 512, 513), 4 * MB),
        ((MB + 1,), 20 * MB),
        ((MB + 1, 18 * MB), 20 * MB),
        ((MB + 1, 19 * MB), 39 * MB + MB),
        ((10 * MB - 512, 10 * MB - 512), 20 * MB),
        ((10 * MB,), 10 * MB),
        ((10 * MB + 1,), 12 * MB),
        ((19 * MB - 512, 2 * MB), 40 * MB),
        ((9 * MB, 10 * MB, MB + 512), 40 * MB),
        ((9 * MB, 9 * MB, MB + 512), 20 * MB),
    ],
)
def test_segments(sizes: tuple[int, ...], expected: int) -> None:
    assert reserved(*sizes) == expected


@pytest.mark.parametrize(
    ("size", "expected"),
    [(1, 512), (MB, MB), (19 * MB, 20 * MB), (19 * MB - 512, 19 * MB - 512)],
)
def test_a_rest_of_one_megabyte_stays_with_a_large_block(size: int, expected: int) -> None:
    allocator = CachingAllocator()
    allocator.free(allocator.allocate(20 * MB))
    assert allocator.allocate(size).size == expected


def test_the_smallest_block_that_is_large_enough() -> None:
    allocator = CachingAllocator()
    large, small = allocator.allocate(30 * MB), allocator.allocate(12 * MB)
    allocator.free(large)
    allocator.free(small)
    assert allocator.allocate(11 * MB) is small
    assert allocator.allocate(28 * MB) is large
    assert allocator.reserved == 42 * MB


def test_free_neighbours_merge() -> None:
    allocator = CachingAllocator()
    blocks = [allocator.allocate(size) for size in (6 * MB, 6 * MB, 8 * MB)]
    for number in (0, 2, 1):
        allocator.free(blocks[number])
    allocator.allocate(20 * MB)
    assert allocator.reserved == 20 * MB


def test_no_block_of_the_other_pool() -> None:
    allocator = CachingAllocator()
    allocator.free(allocator.allocate(9 * MB))
    allocator.allocate(KB)
    assert allocator.reserved == 22 * MB


def test_buffers_are_freed_before_those_of_the_next_moment() -> None:
    buffers = (
        Buffer("a", 0, 2, 30 * MB),
        Buffer("b", 2, 3, 30 * MB),
        Buffer("c", 1, 3, 700),
        Buffer("empty", 0, 3, 0),
    )
    found = replay(Instance(buffers))
    assert (found.allocated, found.reserved) == (30 * MB + KB, 32 * MB)
    assert found.fragmentation == 1 - (30 * MB + KB) / (32 * MB)
    both = replay(Instance((Buffer("a", 0, 3, 30 * MB), *buffers[1:])))
    assert (both.allocated, both.reserved) == (60 * MB + KB, 62 * MB)
