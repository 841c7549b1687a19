# SPDX-License-Identifier: Apache-2.0
"""Import rules for operators that pick, repeat or rearrange elements."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..common import KEEP_QUANTISATION, MAX_TENSOR_BYTES, UnsupportedError, present, require
from ..movement import depth_to_space, file_index, space_to_depth
from ..tables import Function
from .context import Context, rule
from .embedding import embedded
from .file import FileNode
from .values import Activation, Args, Indices, Value

# Repetition must not turn a small file into a large graph.
MAX_ELEMENTS = MAX_TENSOR_BYTES


def _source(context: Context, args: Args) -> tuple[Activation, np.ndarray]:
    """The activation, and its elements' places in the file's shape."""
    x = context.activation(args[0])
    return x, file_index(x.shape)


def axis_of(axis: int, rank: int) -> int:
    require(-rank <= axis < rank, f"axis {axis} of {rank} dimensions")
    return axis % rank


def _numbers(
    context: Context, node: FileNode, args: Args, place: int, name: str
) -> list[int] | None:
    """Integers given as an input or, in older opsets, as an attribute."""
    if name in node.attributes:
        return node.ints(name, [])
    array = context.constant(args, place, name)
    return None if array is None else [int(v) for v in array.ravel()]


_SLICED = ((1, "starts"), (2, "ends"))


@rule("Slice", constraints="constant starts, ends, axes and steps")
def _slice(context: Context, node: FileNode, args: Args) -> Value:
    x, index = _source(context, args)
    given = [_numbers(context, node, args, place, name) for place, name in _SLICED]
    starts, ends = (present(numbers, "starts or ends are missing") for numbers in given)
    axes = _numbers(context, node, args, 3, "axes") or list(range(len(starts)))
    steps = _numbers(context, node, args, 4, "steps") or [1] * len(starts)
    same = len(starts) == len(ends) == len(axes) == len(steps) <= index.ndim
    require(same and 0 not in steps, f"cannot slice {starts} to {ends} by {steps}")
    cut = [slice(None)] * index.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = index.shape[axis_of(axis, index.ndim)]
        # Python counts a stop below -size from the end as well; ONNX cuts it to "before the first".
        stop = None if step < 0 and end < -size else end
        cut[axis_of(axis, index.ndim)] = slice(start, stop, step)
    return context.moved(node, x, index[tuple(cut)])


@rule("Split", constraints="constant sizes")
def _split(context: Context, node: FileNode, args: Args) -> list[Value]:
    x, index = _source(context, args)
    axis = axis_of(int(node.attributes.get("axis", 0)), index.ndim)
    sizes = _numbers(context, node, args, 1, "split")
    if sizes is None:
        count = int(node.attributes.get("num_outputs", len(node.outputs)))
        require(count > 0, "there are no parts to split into")
        size = -(-index.shape[axis] // count)
        sizes = [size] * (count - 1) + [index.shape[axis] - size * (count - 1)]
    whole = sum(sizes) == index.shape[axis] and min(sizes, default=0) > 0
    require(
        whole and len(sizes) >= len(node.outputs), f"cannot split {index.shape[axis]} into {sizes}"
    )
    starts = np.cumsum([0, *sizes[:-1]])
    return [
        context.moved(node, x, index.take(range(start, start + size), axis), output)
        for output, (start, size) in enumerate(zip(starts, sizes, strict=True))
        if output < len(node.outputs)
    ]


@rule("Gather", constraints="constant integer indices; or a constant table, 2-D, axis 0")
def _gather(context: Context, node: FileNode, args: Args) -> Value:
    if len(args) > 1 and isinstance(args[1], Indices):
        return embedded(context, node, args, args[1])
    x, index = _source(context, args)
    axis = axis_of(int(node.attributes.get("axis", 0)), index.ndim)
    picks = _indices(context, args, "the indices are not integers")
    size = index.shape[axis]
    inside = picks.size > 0 and -size <= int(picks.min()) and int(picks.max()) < size
    require(inside, f"an index is outside of {size}")
    _limit(index.size // size * picks.size)
    return context.moved(node, x, index.take(picks % size, axis))


@rule(
    "GatherND",
    constraints="constant integer indices; or a constant table, 2-D, and one index for each row; "
    "batch_dims 0",
)
def _gather_nd(context: Context, node: FileNode, args: Args) -> Value:
    unfit = "the indices do not match the input's shape"
    indices = args[1] if len(args) > 1 else None
    if isinstance(indices, Indices):
        single = indices.shape[-1:] == (1,) and not node.attributes.get("batch_dims")
        require(single, unfit, "pick whole rows of a constant table, by a Gather")
        return embedded(context, node, args, replace(indices, shape=indices.shape[:-1]))
    x, index = _source(context, args)
    picks = _indices(context, args, unfit)
    require(not node.attributes.get("batch_dims"), unfit)
    require(picks.ndim > 0 and picks.shape[-1] <= index.ndim, unfit)
    sizes = np.array(index.shape[: picks.shape[-1]])
    inside = bool(((-sizes <= picks) & (picks < sizes)).all())
    require(inside, f"an index is outside of {list(index.shape)}")
    _limit(picks.size * index.size)
    return context.moved(node, x, index[tuple(np.moveaxis(picks, -1, 0))])


def _indices(context: Context, args: Args, reason: str) -> np.ndarray:
    picks = present(context.constant(args, 1, "indices"), reason)
    require(picks.dtype.kind in "iu", reason)
    return picks


def _limit(elements: int) -> None:
    require(elements <= MAX_ELEMENTS, f"the output has {elements} elements")


@rule("Expand", constraints="constant shape")
def _expand(context: Context, node: FileNode, args: Args) -> Value:
    x, index = _source(context, args)
    to = present(_numbers(context, node, args, 1, "shape"), "the shape is missing")
    require(min(to, default=1) > 0, f"invalid shape {to}")
    _limit(math.prod(to) * index.size)
    try:
        shape = np.broadcast_shapes(index.shape, tuple(to))
    except ValueError as error:
        raise UnsupportedError(f"cannot expand {list(index.shape)} to {to}") from error
    return context.moved(node, x, np.broadcast_to(index, shape))


@rule("Tile", constraints="constant repeats")
def _tile(context: Context, node: FileNode, args: Args) -> Value:
    x, index = _source(context, args)
    repeats = present(_numbers(context, node, args, 1, "repeats"), "the repeats are missing")
    fits = len(repeats) == index.ndim and min(repeats, default=1) > 0
    require(fits, f"cannot repeat {repeats} times")
    _limit(math.prod(repeats) * index.size)
    return context.moved(node, x, np.tile(index, repeats))


def _channels_last(index: np.ndarray) -> np.ndarray:
    require(index.ndim == 4 and index.shape[0] == 1, f"unsupported input shape {list(index.shape)}")
    return index.transpose(0, 2, 3, 1)


@rule("DepthToSpace", constraints="4-D, batch 1")
def _depth_to_space(context: Context, node: FileNode, args: Args) -> Value:
    x, index = _source(context, args)
    block = int(node.attributes.get("blocksize", 0))
    column_first = node.attributes.get("mode", b"DCR") == b"CRD"
    moved = depth_to_space(_channels_last(index), block, column_first)
    return context.moved(node, x, moved.transpose(0, 3, 1, 2))


@rule("SpaceToDepth", constraints="4-D, batch 1")
def _space_to_depth(context: Context, node: FileNode, args: Args) -> Value:
    x, index = _source(context, args)
    block = int(node.attributes.get("blocksize", 0))
    return context.moved(
        node, x, space_to_depth(_channels_last(index), block).transpose(0, 3, 1, 2)
    )


def resize_sizes(
    context: Context, node: FileNode, args: Args, x: Activation
) -> tuple[list[int], list[float]]:
    """The output's size along every axis, and the scales that places are computed with."""
    plain = "axes" not in node.attributes and not node.attributes.get("antialias")
    policy = node.attributes.get("keep_aspect_ratio_policy", b"stretch")
    require(
        plain and policy == b"stretch",
        "axes, antialias and keep_aspect_ratio_policy are not supported",
    )
    scales = context.constant(args, 2, "scales")
    sizes = context.constant(args, 3, "sizes")
    rank = len(x.shape)
    if sizes is not None and sizes.size:
        target = [int(v) for v in sizes.ravel()]
        require(len(target) == rank and min(target) > 0, f"invalid sizes {target}")
        factors = [t / s for t, s in zip(target, x.shape, strict=True)]
    else:
        if scales is None or scales.size != rank:
            raise UnsupportedError("there is not one scale for each axis")
        factors = [float(v) for v in scales.ravel()]
        sane = all(math.isfinite(v) and 0 < v < 1e4 for v in factors)
        require(sane, f"invalid scales {factors}")
        target = [math.floor(s * f) for s, f in zip(x.shape, factors, strict=True)]
    _limit(math.prod(target))
    require(min(target) > 0, f"invalid output size {target}", KEEP_QUANTISATION)
    return target, factors


def resize_places(node: FileNode, size: int, target: int, scale: float) -> np.ndarray:
    """Maps each output index to its place on the input's axis, float32 as in ONNX Runtime."""
    mode = node.attributes.get("coordinate_transformation_mode", b"half_pixel").decode()
    at = np.arange(target, dtype=np.float32)
    factor = np.float32(scale)
    if mode == "align_corners":
        if target == 1:
            return np.zeros(1, np.float32)
        return at * np.float32(size - 1) / np.float32(target - 1)
    if mode == "asymmetric":
        return at / factor
    if mode == "pytorch_half_pixel" and target == 1:
        return np.zeros(1, np.float32)
    known = mode in ("half_pixel", "pytorch_half_pixel")
    require(known, f"unsupported coordinate_transformation_mode {mode}", "use half_pixel")
    return (at + np.float32(0.5)) / factor - np.float32(0.5)


def nearest(node: FileNode, size: int, target: int, scale: float) -> np.ndarray:
    """The input index for each output index."""
    at = resize_places(node, size, target, scale)
    mode = node.attributes.get("nearest_mode", b"round_prefer_floor").decode()
    rounding: dict[str, Function] = {
        "round_prefer_floor": lambda v: np.ceil(v - np.float32(0.5)),
        "round_prefer_ceil": lambda v: np.floor(v + np.float32(0.5)),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    require(mode in rounding, f"unsupported nearest_mode {mode}")
    indices: np.ndarray = np.clip(rounding[mode](at), 0, size - 1).astype(np.int64)
    return indices
