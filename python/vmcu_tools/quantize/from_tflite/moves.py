# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements: shapes, slices, joins, padding, resizing."""

from __future__ import annotations

import math

import numpy as np
import tflite

from ...frontends.common import MAX_TENSOR_BYTES, SMALLER, require
from ...frontends.movement import file_index
from ...frontends.tflite.arrays import MOVERS
from ...frontends.tflite.file import FileOp
from ...frontends.tflite.moves import stretches
from .layers import channels_last, image
from .writer import Writer, rule

# The end of a reversed slice that has the first element.
_BEFORE_ALL = -(2**31) + 1


@rule("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
def _reshape(w: Writer, op: FileOp) -> str:
    shape, to = w.shape(op.inputs[0]), w.shape(op.outputs[0])
    require(math.prod(shape) == math.prod(to), f"cannot reshape {list(shape)} to {list(to)}")
    x = w.read(op.inputs[0])
    return x if shape == to else w.reshaped(x, to)


@rule("TRANSPOSE")
def _transpose(w: Writer, op: FileOp) -> str:
    return w.transposed(w.read(op.inputs[0]), *w.importer.integers(op, 1, "axes"))


@rule("CONCATENATION")
def _concatenation(w: Writer, op: FileOp) -> str:
    options = op.options(tflite.ConcatenationOptions)
    value = w.add("Concat", [w.read(index) for index in op.inputs], axis=options.Axis())
    return w.activated(value, options.FusedActivationFunction())


@rule("SPLIT", "SPLIT_V", "UNPACK")
def _split(w: Writer, op: FileOp) -> list[str]:
    place, axis, sizes = stretches(w.importer, op)
    value = w.read(op.inputs[place])
    if len(sizes) == 1:
        parts = [w.add("Identity", [value])]
    else:
        inputs = [value, w.integers(sizes, "sizes")]
        parts = w.add_several("Split", inputs, len(sizes), axis=axis)
    if op.op != "UNPACK":
        return parts
    return [w.reshaped(part, w.shape(op.outputs[0])) for part in parts]


@rule("SLICE", "STRIDED_SLICE", "REVERSE_V2")
def _slice(w: Writer, op: FileOp) -> str:
    shape, axes = w.shape(op.inputs[0]), range(len(w.shape(op.inputs[0])))
    others = (w.importer.integers(op, place, "bounds") for place in range(1, len(op.inputs)))
    index = MOVERS[op.op](op, file_index(shape), *map(np.array, others))
    require(index.size > 0, "the output is empty")
    bounds = [_bounds(places) for places in np.unravel_index(index, shape)]
    starts, ends, steps = zip(*bounds, strict=True)
    parts = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    names = [w.integers(numbers, what) for what, numbers in parts.items()]
    value = w.add("Slice", [w.read(op.inputs[0]), *names])
    return value if index.ndim == len(shape) else w.reshaped(value, w.shape(op.outputs[0]))


def _bounds(places: np.ndarray) -> tuple[int, int, int]:
    """Start, end and step of the places along an axis that the elements of a slice have, which
    change along one axis of the result at most."""
    places = np.atleast_1d(places)
    sizes = enumerate(places.shape)
    lines = (np.moveaxis(places, axis, 0).reshape(size, -1)[:, 0] for axis, size in sizes)
    line = max(lines, key=np.ptp)
    step = int(line[1] - line[0]) if np.ptp(line) else 1
    end = int(line[-1]) + (1 if step > 0 else -1)
    return int(line[0]), end if end >= 0 else _BEFORE_ALL, step


@rule("GATHER")
def _gather(w: Writer, op: FileOp) -> str:
    options = op.options(tflite.GatherOptions)
    require(options.BatchDims() == 0, "it gathers by batch", "use one index for the whole batch")
    return w.add("Gather", [w.read(op.inputs[0]), w.read(op.inputs[1])], axis=options.Axis())


@rule("GATHER_ND")
def _gather_nd(w: Writer, op: FileOp) -> str:
    indices = w.add("Cast", [w.read(op.inputs[1])], to=7)
    return w.add("GatherND", [w.read(op.inputs[0]), indices])


@rule("PACK")
def _pack(w: Writer, op: FileOp) -> str:
    out = w.shape(op.outputs[0])
    axis = op.options(tflite.PackOptions).Axis() % len(out)
    one = [*out[:axis], 1, *out[axis + 1 :]]
    return w.add("Concat", [w.reshaped(w.read(index), one) for index in op.inputs], axis=axis)


def _amounts(w: Writer, op: FileOp) -> list[tuple[int, int]]:
    amounts = w.importer.integers(op, 1, "padding amounts")
    shape = w.shape(op.inputs[0])
    require(len(amounts) == 2 * len(shape), f"{len(amounts)} amounts for {list(shape)}")
    require(min(amounts, default=0) >= 0, "negative padding is not supported")
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))
    whole = math.prod(size + sum(pair) for size, pair in zip(shape, pairs, strict=True))
    require(whole <= MAX_TENSOR_BYTES, f"it pads to {whole} elements", SMALLER)
    return pairs


@rule("PAD", "PADV2")
def _pad(w: Writer, op: FileOp) -> str:
    pairs = _amounts(w, op)
    pads = w.integers([*(p[0] for p in pairs), *(p[1] for p in pairs)], "pads")
    inputs = [w.read(op.inputs[0]), pads]
    if len(op.inputs) > 2 and op.inputs[2] >= 0:
        value = w.read(op.inputs[2])
        inputs.append(value if w.shape(op.inputs[2]) == () else w.reshaped(value, []))
    return w.add("Pad", inputs)


@rule("MIRROR_PAD")
def _mirror_pad(w: Writer, op: FileOp) -> str:
    reflect = op.options(tflite.MirrorPadOptions).Mode() == tflite.MirrorPadMode.REFLECT
    value = w.read(op.inputs[0])
    sizes = w.shape(op.inputs[0])
    for axis, (pair, size) in enumerate(zip(_amounts(w, op), sizes, strict=True)):
        require(max(pair) <= size - reflect, f"{pair} mirrored elements of {size}")
        if any(pair):
            places = np.pad(np.arange(size), pair, "reflect" if reflect else "symmetric")
            value = w.add("Gather", [value, w.integers(places.tolist(), "places")], axis=axis)
    return value


@rule("TILE")
def _tile(w: Writer, op: FileOp) -> str:
    w.shape(op.outputs[0])
    return w.add(
        "Tile", [w.read(op.inputs[0]), w.integers(w.importer.integers(op, 1, "times"), "times")]
    )


@rule("BROADCAST_TO")
def _broadcast_to(w: Writer, op: FileOp) -> str:
    return w.add("Expand", [w.read(op.inputs[0]), w.integers(w.shape(op.outputs[0]), "shape")])


@rule("DEPTH_TO_SPACE")
def _depth_to_space(w: Writer, op: FileOp) -> str:
    size = op.options(tflite.DepthToSpaceOptions).BlockSize()
    return channels_last(w, w.add("DepthToSpace", [image(w, op.inputs[0])], blocksize=size))


@rule("SPACE_TO_DEPTH")
def _space_to_depth(w: Writer, op: FileOp) -> str:
    size = op.options(tflite.SpaceToDepthOptions).BlockSize()
    return channels_last(w, w.add("SpaceToDepth", [image(w, op.inputs[0])], blocksize=size))


@rule("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def _resize(w: Writer, op: FileOp) -> str:
    linear = op.op == "RESIZE_BILINEAR"
    kind = tflite.ResizeBilinearOptions if linear else tflite.ResizeNearestNeighborOptions
    options = op.options(kind)
    mode = "asymmetric"
    if options.AlignCorners():
        mode = "align_corners"
    elif options.HalfPixelCenters():
        mode = "half_pixel"
    shape, out = w.shape(op.inputs[0]), w.shape(op.outputs[0])
    require(len(out) == 4, f"the output has {len(out)} dimensions")
    sizes = w.integers([shape[0], shape[3], *out[1:3]], "sizes")
    more = {} if linear else {"nearest_mode": _nearest(mode)}
    value = w.add(
        "Resize",
        [image(w, op.inputs[0]), "", "", sizes],
        mode="linear" if linear else "nearest",
        coordinate_transformation_mode=mode,
        **more,
    )
    return channels_last(w, value)


def _nearest(mode: str) -> str:
    """The rounding of TensorFlow Lite's coordinates; half_pixel: it rounds down before it takes
    half a pixel away."""
    return "floor" if mode == "asymmetric" else "round_prefer_ceil"
