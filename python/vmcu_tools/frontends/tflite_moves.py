# SPDX-License-Identifier: Apache-2.0
"""Import rules for TensorFlow Lite operators that rearrange elements."""

from __future__ import annotations

import math

import numpy as np
import tflite

from ..graph import Concat, Tensor
from .common import KEEP_QUANTISATION, MAX_TENSOR_BYTES, hwc, hwc_axis, require
from .movement import depth_to_space, file_index, move, space_to_depth
from .tflite_file import FileOp
from .tflite_ops import Importer, rule

# Repetition must not turn a small file into a large graph.
_MAX_ELEMENTS = MAX_TENSOR_BYTES


def _source(importer: Importer, op: FileOp, place: int = 0) -> tuple[Tensor, np.ndarray]:
    """The activation, and its elements' places in the file's shape."""
    x = importer.activation(op.inputs[place])
    return x, file_index(importer.shape(op.inputs[place]))


def _emit(importer: Importer, op: FileOp, x: Tensor, index: np.ndarray, output: int = 0) -> None:
    out = importer.activation(op.outputs[output])
    same = (x.scale, x.zero_point) == (out.scale, out.zero_point)
    require(same, "its input and output have different scales or zero points", KEEP_QUANTISATION)
    fits = index.size == out.bytes
    require(fits, f"its output is {out.shape} in the file but computes {list(index.shape)}")
    importer.builder.spend(index.size)
    importer.emit(op, move(index.reshape(out.shape), x.bytes), [x], out.shape, output)


def _axis(axis: int, rank: int) -> int:
    require(-rank <= axis < rank, f"axis {axis} of a tensor with {rank} dimensions")
    return axis % rank


@rule("TRANSPOSE")
def _transpose(importer: Importer, op: FileOp) -> None:
    x, index = _source(importer, op)
    order = importer.integers(op, 1, "permutation")
    require(sorted(order) == list(range(index.ndim)), f"its permutation is {order}")
    _emit(importer, op, x, index.transpose(order))


@rule("SLICE")
def _slice(importer: Importer, op: FileOp) -> None:
    x, index = _source(importer, op)
    begin, size = importer.integers(op, 1, "starts"), importer.integers(op, 2, "sizes")
    require(len(begin) == len(size) == index.ndim, f"it slices {begin}, {size}")
    ends = [n if s == -1 else b + s for b, s, n in zip(begin, size, index.shape, strict=True)]
    bounds = zip(begin, ends, index.shape, strict=True)
    inside = all(0 <= b < e <= n for b, e, n in bounds)
    require(inside, f"it slices {begin} to {ends} of {list(index.shape)}")
    _emit(importer, op, x, index[tuple(slice(b, e) for b, e in zip(begin, ends, strict=True))])


@rule("STRIDED_SLICE")
def _strided_slice(importer: Importer, op: FileOp) -> None:
    x, index = _source(importer, op)
    options = op.options(tflite.StridedSliceOptions)
    plain = not options.EllipsisMask() and not options.NewAxisMask()
    require(plain, "it has an ellipsis or a new axis", "Write the slice out for every axis.")
    begin, end, steps = (
        importer.integers(op, place, what)
        for place, what in ((1, "starts"), (2, "ends"), (3, "steps"))
    )
    fits = len(begin) == len(end) == len(steps) <= index.ndim and 0 not in steps
    require(fits, f"it slices {begin} to {end} by {steps}")
    cut = []
    for axis, (start, stop, step) in enumerate(zip(begin, end, steps, strict=True)):
        bit = 1 << axis
        if options.ShrinkAxisMask() & bit:
            start += index.shape[axis] if start < 0 else 0
            require(0 <= start < index.shape[axis], f"it takes element {start} of axis {axis}")
            cut.append(slice(start, start + 1))
        else:
            first = None if options.BeginMask() & bit else start
            cut.append(slice(first, None if options.EndMask() & bit else stop, step))
    _emit(importer, op, x, index[tuple(cut)])


def _parts(importer: Importer, op: FileOp, place: int, axis: int, sizes: list[int]) -> None:
    """One output for each stretch of an axis."""
    x, index = _source(importer, op, place)
    axis = _axis(axis, index.ndim)
    whole = min(sizes, default=0) > 0 and sum(sizes) == index.shape[axis]
    require(whole and len(sizes) == len(op.outputs), f"it splits {index.shape[axis]} into {sizes}")
    starts = np.cumsum([0, *sizes[:-1]])
    for output, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        _emit(importer, op, x, index.take(range(start, start + size), axis), output)


@rule("SPLIT")
def _split(importer: Importer, op: FileOp) -> None:
    axis = importer.integers(op, 0, "axis")[0]
    shape, count = importer.shape(op.inputs[1]), len(op.outputs)
    size = shape[_axis(axis, len(shape))]
    require(count > 0 and size % count == 0, f"it splits {size} into {count}")
    _parts(importer, op, 1, axis, [size // count] * count)


@rule("SPLIT_V")
def _split_v(importer: Importer, op: FileOp) -> None:
    sizes, axis = importer.integers(op, 1, "sizes"), importer.integers(op, 2, "axis")[0]
    shape = importer.shape(op.inputs[0])
    if sizes.count(-1) == 1:
        rest = shape[_axis(axis, len(shape))] - sum(sizes) - 1
        sizes[sizes.index(-1)] = rest
    _parts(importer, op, 0, axis, sizes)


@rule("UNPACK")
def _unpack(importer: Importer, op: FileOp) -> None:
    axis = op.options(tflite.UnpackOptions).Axis()
    size = importer.shape(op.inputs[0])[_axis(axis, len(importer.shape(op.inputs[0])))]
    _parts(importer, op, 0, axis, [1] * size)


@rule("PACK")
def _pack(importer: Importer, op: FileOp) -> None:
    """A concatenation along a new axis."""
    shape = importer.shape(op.outputs[0])
    axis = _axis(op.options(tflite.PackOptions).Axis(), len(shape))
    out = importer.activation(op.outputs[0])
    part = hwc(tuple(1 if i == axis else d for i, d in enumerate(shape)))
    parts = []
    for number, i in enumerate(op.inputs):
        x = importer.activation(i)
        same = (x.scale, x.zero_point) == (out.scale, out.zero_point)
        require(same, f"input '{x.name}' and its output have different scales", KEEP_QUANTISATION)
        require(x.bytes == math.prod(part), f"it packs {x.shape} into {list(shape)}")
        parts.append(importer.arranged(x, file_index(x.shape), part, f"{out.name}/part{number}"))
    place = hwc_axis(axis, len(shape))
    importer.emit(op, Concat(place, (None,) * len(parts)), parts, out.shape)


@rule("GATHER")
def _gather(importer: Importer, op: FileOp) -> None:
    x, index = _source(importer, op)
    options = op.options(tflite.GatherOptions)
    require(options.BatchDims() == 0, "it gathers by batches")
    axis = _axis(options.Axis(), index.ndim)
    picks = importer.constant(op, 1, ("INT32", "INT64"), "indices").data
    inside = picks.size > 0 and int(picks.min()) >= 0 and int(picks.max()) < index.shape[axis]
    require(inside, f"its indices lie outside of {index.shape[axis]}")
    _limit(index.size // index.shape[axis] * picks.size)
    _emit(importer, op, x, index.take(picks, axis))


def _limit(elements: int) -> None:
    require(elements <= _MAX_ELEMENTS, f"its output has {elements} elements")


@rule("BROADCAST_TO")
def _broadcast_to(importer: Importer, op: FileOp) -> None:
    x, index = _source(importer, op)
    shape = importer.integers(op, 1, "shape")
    _limit(math.prod(shape))
    _emit(importer, op, x, np.broadcast_to(index, shape))


@rule("REVERSE_V2")
def _reverse(importer: Importer, op: FileOp) -> None:
    x, index = _source(importer, op)
    axes = [_axis(a, index.ndim) for a in importer.integers(op, 1, "axes")]
    _emit(importer, op, x, np.flip(index, axes))


@rule("MIRROR_PAD")
def _mirror_pad(importer: Importer, op: FileOp) -> None:
    x, index = _source(importer, op)
    pairs = importer.integers(op, 1, "padding amounts")
    require(len(pairs) == 2 * index.ndim and min(pairs) >= 0, f"its amounts are {pairs}")
    mode = op.options(tflite.MirrorPadOptions).Mode()
    edge = 1 if mode == tflite.MirrorPadMode.SYMMETRIC else 0
    amounts = np.reshape(pairs, (-1, 2)).tolist()
    _limit(math.prod(n + sum(pair) for pair, n in zip(amounts, index.shape, strict=True)))
    within = all(max(pair) <= n - 1 + edge for pair, n in zip(amounts, index.shape, strict=True))
    require(within, f"it mirrors {amounts} of {list(index.shape)}")
    _emit(importer, op, x, np.pad(index, amounts, "symmetric" if edge else "reflect"))


@rule("DEPTH_TO_SPACE")
def _depth_to_space(importer: Importer, op: FileOp) -> None:
    x, index = _source(importer, op)
    require(index.ndim == 4, f"its input has {index.ndim} dimensions instead of four")
    block = op.options(tflite.DepthToSpaceOptions).BlockSize()
    _emit(importer, op, x, depth_to_space(index, block))


@rule("SPACE_TO_DEPTH")
def _space_to_depth(importer: Importer, op: FileOp) -> None:
    x, index = _source(importer, op)
    require(index.ndim == 4, f"its input has {index.ndim} dimensions instead of four")
    block = op.options(tflite.SpaceToDepthOptions).BlockSize()
    _emit(importer, op, x, space_to_depth(index, block))


def _nearest(size: int, target: int, align: bool, half: bool) -> np.ndarray:
    """TensorFlow Lite, kernels/internal/reference/resize_nearest_neighbor.h, in float32."""
    scale = np.float32(size) / np.float32(target)
    if align and target > 1:
        scale = np.float32(size - 1) / np.float32(target - 1)
    at = (np.arange(target, dtype=np.float32) + np.float32(0.5 if half else 0)) * scale
    index = np.floor(at + np.float32(0.5)) if align else np.floor(at)
    return np.clip(index.astype(np.int64), 0, size - 1)


@rule("RESIZE_NEAREST_NEIGHBOR")
def _resize_nearest(importer: Importer, op: FileOp) -> None:
    x, index = _source(importer, op)
    require(index.ndim == 4, f"its input has {index.ndim} dimensions instead of four")
    options = op.options(tflite.ResizeNearestNeighborOptions)
    size = importer.integers(op, 1, "size")
    require(len(size) == 2 and min(size) > 0, f"its size is {size}")
    _limit(math.prod(size) * index.shape[3])
    modes = bool(options.AlignCorners()), bool(options.HalfPixelCenters())
    rows, columns = (_nearest(index.shape[1 + a], size[a], *modes) for a in (0, 1))
    _emit(importer, op, x, index[:, rows][:, :, columns])
