# SPDX-License-Identifier: Apache-2.0
"""Operators that only rearrange bytes, as an array of source indices.

A rule applies the operator to `file_index(shape)`, the array that holds every element's own
place, with numpy; the result says for each output element where it comes from.
"""

from __future__ import annotations

import math

import numpy as np

from ..graph import Op, Shape, Tensor
from ..ops.move import Move
from ..ops.reshape import Reshape
from .common import GraphBuilder, present, require

# Numbers in the tables of one rearrangement, four bytes each.
MAX_PLACES = 1 << 16


def file_index(shape: tuple[int, ...]) -> np.ndarray:
    """Each element's row-major place, int64 of the given shape."""
    return np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.int64).reshape(shape)


def move(index: np.ndarray, size: int) -> Op | None:
    """The op that takes byte index[y, x, c] of `size` bytes for each output byte (H, W, C).

    A Reshape where nothing moves, None for an order that Move does not have in this shape.
    """
    if index.size == size and np.array_equal(index.ravel(), np.arange(size)):
        return Reshape()
    return Move.of(index)


def rearranged(builder: GraphBuilder, x: Tensor, index: np.ndarray) -> tuple[Tensor, Op]:
    """The op that takes byte index[y, x, c] of `x` for each output byte (H, W, C), and its input:
    `x`, or all of its bytes in their new order under another shape.

    Raises UnsupportedError if that needs larger tables than a device may hold.
    """
    builder.spend(index.size)
    op = move(index, x.bytes)
    if op is not None:
        return x, op
    shape = _loops(index.ravel())
    reason = f"this order of {index.size:,} elements needs more than {MAX_PLACES:,} offsets"
    op = Move.of(index.reshape(shape)) if sum(shape) <= MAX_PLACES else None
    op = present(op, reason, "rearrange smaller tensors")
    name = f"{x.name}/order {len(builder.nodes)}"
    other = builder.add_tensor(Tensor(name, shape, x.scale, x.zero_point))
    builder.add_node(name, op, [x.name], name)
    return other, Reshape()


def _loops(flat: np.ndarray) -> Shape:
    """(H, W, C) of fewest tables in which Move can say the order `flat`, int64 (elements,)."""
    best = len(flat), 1, 1
    for inner in _divisors(len(flat)):
        if not _repeats(flat, inner):
            continue
        starts = flat[::inner]
        for middle in _divisors(len(starts)):
            shape = len(starts) // middle, middle, inner
            if sum(shape) < sum(best) and _repeats(starts, middle):
                best = shape
    return best


def _repeats(flat: np.ndarray, count: int) -> bool:
    """Whether each `count` neighbours are the first ones, moved on."""
    rows = flat.reshape(-1, count)
    steps = rows[0] - rows[0, 0]
    return all(bool((part - part[:, :1] == steps).all()) for part in (rows[:2], rows))


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def depth_to_space(index: np.ndarray, block: int) -> np.ndarray:
    """(1, H, W, C) to (1, H b, W b, C / b b)."""
    _, height, width, channels = index.shape
    require(
        block >= 1 and channels % (block * block) == 0, f"{channels} channels in blocks of {block}"
    )
    depth = channels // (block * block)
    parts = index.reshape(height, width, block, block, depth).transpose(0, 2, 1, 3, 4)
    return parts.reshape(1, height * block, width * block, depth)


def space_to_depth(index: np.ndarray, block: int) -> np.ndarray:
    """(1, H, W, C) to (1, H / b, W / b, b b C)."""
    _, height, width, depth = index.shape
    require(
        block >= 1 and height % block == 0 and width % block == 0,
        f"{height} x {width} pixels in blocks of {block}",
    )
    parts = index.reshape(height // block, block, width // block, block, depth)
    return parts.transpose(0, 2, 1, 3, 4).reshape(1, height // block, width // block, -1)
