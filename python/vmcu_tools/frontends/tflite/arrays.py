# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite operators that rearrange elements, as functions of numpy arrays.

The same function moves the places of an activation's elements, folds a constant and returns the
shape of a result. Each takes the operator, its main input and the others as arrays of integers, and
raises UnsupportedError for unsupported arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import tflite

from ..common import MAX_TENSOR_BYTES, Rules, axis_of, require
from ..movement import depth_to_space, space_to_depth
from .file import FileOp
from .shapes import require_image

Mover = Callable[..., np.ndarray]
# The import rule of an operator adds its constraints to those of all movers.
MOVERS: Rules[Mover] = Rules()
mover, CONSTRAINTS = MOVERS.rule, MOVERS.constraints


def limit(elements: int) -> None:
    """Repetition must not turn a small file into a large graph."""
    require(0 <= elements <= MAX_TENSOR_BYTES, f"the output has {elements} elements")


def numbers(array: np.ndarray) -> list[int]:
    return [int(v) for v in array.ravel()]


@mover("RESHAPE")
def _reshape(op: FileOp, x: np.ndarray, shape: np.ndarray | None = None) -> np.ndarray:
    to = numbers(op.options(tflite.ReshapeOptions).NewShapeAsNumpy() if shape is None else shape)
    rest = math.prod(d for d in to if d != -1)
    fits = to.count(-1) <= 1 and rest > 0 and x.size % rest == 0
    require(fits and (-1 in to or rest == x.size), f"cannot reshape {list(x.shape)} to {to}")
    return x.reshape(to)


@mover("SQUEEZE")
def _squeeze(op: FileOp, x: np.ndarray) -> np.ndarray:
    options = op.options(tflite.SqueezeOptions)
    axes = numbers(options.SqueezeDimsAsNumpy()) if options.SqueezeDimsLength() else None
    named = range(x.ndim) if axes is None else [axis_of(a, x.ndim) for a in axes]
    ones = all(x.shape[a] == 1 for a in named) or axes is None
    require(ones, f"cannot remove axes {axes} from shape {list(x.shape)}")
    return x.reshape([d for a, d in enumerate(x.shape) if d != 1 or a not in named])


@mover("EXPAND_DIMS")
def _expand_dims(op: FileOp, x: np.ndarray, axis: np.ndarray) -> np.ndarray:
    return np.expand_dims(x, axis_of(numbers(axis)[0], x.ndim + 1))


@mover("TRANSPOSE", constraints="constant permutation")
def _transpose(op: FileOp, x: np.ndarray, order: np.ndarray) -> np.ndarray:
    axes = numbers(order)
    require(sorted(axes) == list(range(x.ndim)), f"invalid permutation {axes}")
    return x.transpose(axes)


@mover("SLICE", constraints="constant starts and sizes")
def _slice(op: FileOp, x: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    begin, size = numbers(starts), numbers(sizes)
    require(len(begin) == len(size) == x.ndim, f"cannot slice {begin}, {size}")
    ends = [n if s == -1 else b + s for b, s, n in zip(begin, size, x.shape, strict=True)]
    inside = all(0 <= b < e <= n for b, e, n in zip(begin, ends, x.shape, strict=True))
    require(inside, f"cannot slice {begin} to {ends} of {list(x.shape)}")
    return x[tuple(slice(b, e) for b, e in zip(begin, ends, strict=True))]


@mover("STRIDED_SLICE", constraints="constant starts, ends and steps; no ellipsis or new axis")
def _strided_slice(
    op: FileOp, x: np.ndarray, starts: np.ndarray, ends: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    options = op.options(tflite.StridedSliceOptions)
    begin, end, by = numbers(starts), numbers(ends), numbers(steps)
    fits = len(begin) == len(end) == len(by) and 0 not in by
    require(fits, f"cannot slice {begin} to {end} by {by}")
    plain = not options.EllipsisMask() and not options.NewAxisMask()
    require(
        plain, "an ellipsis or a new axis is not supported", "write the slice out for every axis"
    )
    require(len(begin) <= x.ndim, f"cannot slice {list(x.shape)} from {begin}")
    cut: list[slice | int] = []
    for axis, (start, stop, step) in enumerate(zip(begin, end, by, strict=True)):
        bit = 1 << axis
        if options.ShrinkAxisMask() & bit:
            size = x.shape[axis]
            require(-size <= start < size, f"there is no element {start} on axis {axis}")
            cut.append(start)
        else:
            first = None if options.BeginMask() & bit else start
            cut.append(slice(first, None if options.EndMask() & bit else stop, step))
    return x[tuple(cut)]


@mover(
    "GATHER",
    constraints="constant indices, none negative; or an int32 model input and a constant int8 "
    "table, 2-D; batch_dims 0",
)
def _gather(op: FileOp, x: np.ndarray, picks: np.ndarray) -> np.ndarray:
    options = op.options(tflite.GatherOptions)
    require(options.BatchDims() == 0, "batch dimensions are not supported")
    axis = axis_of(options.Axis(), x.ndim)
    inside = picks.size > 0 and int(picks.min()) >= 0 and int(picks.max()) < x.shape[axis]
    require(inside, f"an index is outside of {x.shape[axis]}")
    limit(x.size // x.shape[axis] * picks.size)
    return x.take(picks, axis)


@mover("GATHER_ND", constraints="constant indices, none negative")
def _gather_nd(op: FileOp, x: np.ndarray, picks: np.ndarray) -> np.ndarray:
    depth = picks.shape[-1] if picks.ndim else 0
    require(0 < depth <= x.ndim, f"the indices have {depth} parts")
    sizes = np.array(x.shape[:depth])
    inside = picks.size > 0 and bool(((picks >= 0) & (picks < sizes)).all())
    require(inside, f"an index is outside of {sizes.tolist()}")
    limit(picks.size // depth * math.prod(x.shape[depth:]))
    gathered: np.ndarray = x[tuple(np.moveaxis(picks, -1, 0))]
    return gathered


@mover("TILE", constraints="constant multiples")
def _tile(op: FileOp, x: np.ndarray, times: np.ndarray) -> np.ndarray:
    counts = numbers(times)
    require(len(counts) == x.ndim and min(counts, default=1) > 0, f"cannot repeat {counts} times")
    limit(x.size * math.prod(counts))
    return np.tile(x, counts)


@mover("BROADCAST_TO", constraints="constant shape")
def _broadcast_to(op: FileOp, x: np.ndarray, to: np.ndarray) -> np.ndarray:
    shape = numbers(to)
    limit(math.prod(shape))
    pairs = zip(x.shape[::-1], shape[::-1], strict=False)
    fits = len(shape) >= x.ndim and all(n in (1, d) for n, d in pairs)
    require(fits, f"cannot repeat {list(x.shape)} to {shape}")
    return np.broadcast_to(x, shape)


@mover("REVERSE_V2", constraints="constant axes")
def _reverse(op: FileOp, x: np.ndarray, axes: np.ndarray) -> np.ndarray:
    return np.flip(x, tuple(axis_of(a, x.ndim) for a in set(numbers(axes))))


@mover("MIRROR_PAD", constraints="constant amounts, none negative")
def _mirror_pad(op: FileOp, x: np.ndarray, pads: np.ndarray) -> np.ndarray:
    pairs = numbers(pads)
    fits = len(pairs) == 2 * x.ndim and min(pairs, default=0) >= 0
    require(fits, f"invalid padding {pairs}")
    mode = op.options(tflite.MirrorPadOptions).Mode()
    edge = 1 if mode == tflite.MirrorPadMode.SYMMETRIC else 0
    amounts = np.reshape(pairs, (-1, 2)).tolist()
    limit(math.prod(n + sum(pair) for pair, n in zip(amounts, x.shape, strict=True)))
    within = all(max(pair) <= n - 1 + edge for pair, n in zip(amounts, x.shape, strict=True))
    require(within, f"cannot mirror-pad by {amounts} the shape {list(x.shape)}")
    return np.pad(x, amounts, "symmetric" if edge else "reflect")


def _image(x: np.ndarray) -> np.ndarray:
    require_image(x.shape)
    return x


@mover("DEPTH_TO_SPACE", constraints="4-D, batch 1")
def _depth_to_space(op: FileOp, x: np.ndarray) -> np.ndarray:
    return depth_to_space(_image(x), op.options(tflite.DepthToSpaceOptions).BlockSize())


@mover("SPACE_TO_DEPTH", constraints="4-D, batch 1")
def _space_to_depth(op: FileOp, x: np.ndarray) -> np.ndarray:
    return space_to_depth(_image(x), op.options(tflite.SpaceToDepthOptions).BlockSize())


def _nearest(size: int, target: int, align: bool, half: bool) -> np.ndarray:
    """TensorFlow Lite, kernels/internal/reference/resize_nearest_neighbor.h, in float32."""
    scale = np.float32(size) / np.float32(target)
    if align and target > 1:
        scale = np.float32(size - 1) / np.float32(target - 1)
    at = (np.arange(target, dtype=np.float32) + np.float32(0.5 if half else 0)) * scale
    index = np.floor(at + np.float32(0.5)) if align else np.floor(at)
    nearest: np.ndarray = np.clip(index.astype(np.int64), 0, size - 1)
    return nearest


@mover("RESIZE_NEAREST_NEIGHBOR", constraints="4-D, batch 1; constant size")
def _resize_nearest(op: FileOp, x: np.ndarray, to: np.ndarray) -> np.ndarray:
    options, size = op.options(tflite.ResizeNearestNeighborOptions), numbers(to)
    require(len(size) == 2 and min(size) > 0, f"invalid size {size}")
    limit(math.prod(size) * _image(x).shape[3])
    modes = bool(options.AlignCorners()), bool(options.HalfPixelCenters())
    rows, columns = (_nearest(x.shape[1 + a], size[a], *modes) for a in (0, 1))
    return x[:, rows][:, :, columns]
