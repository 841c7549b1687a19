# SPDX-License-Identifier: Apache-2.0
"""Where bytes go: operators that only rearrange, as an array of source indices.

A rule applies the operator to `file_index(shape)`, the array that holds every element's own
place, with numpy; the result says for each output element where it comes from.
"""

from __future__ import annotations

import numpy as np

from ..graph import Op
from ..ops.move import Move
from ..ops.reshape import Reshape
from .common import UnsupportedError, require


def file_index(shape: tuple[int, ...]) -> np.ndarray:
    """Each element's row-major place, int64 of the given shape."""
    return np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.int64).reshape(shape)


def move(index: np.ndarray, size: int) -> Op:
    """The op that takes byte index[y, x, c] of `size` bytes for each output byte (H, W, C).

    A Reshape where nothing moves. Raises UnsupportedError for what Move cannot say.
    """
    if index.size == size and np.array_equal(index.ravel(), np.arange(size)):
        return Reshape()
    op = Move.of(index)
    if op is None:
        raise UnsupportedError(
            "this rearrangement of elements is not supported",
            "split it into simpler steps",
        )
    return op


def depth_to_space(index: np.ndarray, block: int, column_first: bool = False) -> np.ndarray:
    """(1, H, W, C) to (1, H b, W b, C / b b). column_first: a block is the slower of the two parts
    of a channel's number being the output channel (ONNX mode CRD)."""
    _, height, width, channels = index.shape
    require(
        block >= 1 and channels % (block * block) == 0, f"{channels} channels in blocks of {block}"
    )
    depth = channels // (block * block)
    if column_first:
        parts = index.reshape(height, width, depth, block, block).transpose(0, 3, 1, 4, 2)
    else:
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
