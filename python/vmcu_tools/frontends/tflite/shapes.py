# SPDX-License-Identifier: Apache-2.0
"""Tensors of any number of dimensions as images (H, W, C), row-major order kept.

(1, H, W, C) is (H, W, C), (1, M, K) and (M, K) are (M, 1, K), (K,) is (1, 1, K). Whatever else
lies in front of the last two axes becomes part of H: no operator of the graph knows batches, and
those that do in a file look at its shape before.
"""

from __future__ import annotations

import math

import numpy as np

from ...graph import Shape
from ..common import require

Groups = tuple[list[int], list[int], list[int]]


def groups_of(shape: tuple[int, ...]) -> Groups:
    """The axes that make up H, W and C."""
    axes = list(range(len(shape)))
    if len(shape) >= 3:
        while len(axes) > 4 and shape[axes[0]] == 1:
            axes = axes[1:]
        if shape[axes[0]] == 1:
            axes = axes[1:]
    if len(axes) >= 3:
        return axes[:-2], axes[-2:-1], axes[-1:]
    return axes[:-1], [], axes[-1:]


def image_shape(shape: tuple[int, ...]) -> Shape:
    """(H, W, C). Raises UnsupportedError for a shape that is empty or not known."""
    require(all(d > 0 for d in shape), f"shape {list(shape)} is empty or dynamic", "fix all sizes")
    height, width, channels = (math.prod(shape[a] for a in part) for part in groups_of(shape))
    return height, width, channels


def require_image(shape: tuple[int, ...]) -> None:
    """Raises UnsupportedError for a shape in the file that is not (1, H, W, C)."""
    require(len(shape) == 4, f"the input has {len(shape)} dimensions instead of four")
    require(shape[0] == 1, f"batch size {shape[0]} in shape {list(shape)}", "use batch size 1")


def place_of(axis: int, shape: tuple[int, ...]) -> int | None:
    """Which of H, W and C axis `axis` is, None if it is only a part of one."""
    for place, part in enumerate(groups_of(shape)):
        if axis in part and all(shape[a] == 1 for a in part if a != axis):
            return place
    return None


def spread(shape: tuple[int, ...], to: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which `shape` has to be repeated so that an image operator can repeat it to
    `to` along H, W and C; mostly itself, with ones in front."""
    full = (1,) * (len(to) - len(shape)) + shape
    sizes = list(full)
    for part in groups_of(to):
        if not all(full[a] == 1 for a in part):
            for a in part:
                sizes[a] = to[a]
    return tuple(sizes)


def as_image(shape: tuple[int, ...], to: tuple[int, ...]) -> Shape:
    """(H, W, C) of a spread shape, its axes grouped as those of `to`."""
    height, width, channels = (math.prod(shape[a] for a in part) for part in groups_of(to))
    return height, width, channels


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an element-wise operator's output."""
    pairs = list(zip(a[::-1], b[::-1], strict=False))
    require(
        all(m == n or 1 in (m, n) for m, n in pairs), f"cannot concatenate {list(a)} and {list(b)}"
    )
    return np.broadcast_shapes(a, b)
