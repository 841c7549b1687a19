# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements: shapes, slices, joins, padding, resizing."""

from __future__ import annotations

import math

import numpy as np
import tflite

from ...frontends.common import MAX_TENSOR_BYTES, SMALLER, require
from ...frontends.tflite.file import FileOp
from .layers import channels_last, image
from .writer import Writer, rule


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


def _split_into(w: Writer, value: str, axis: int, sizes: list[int]) -> list[str]:
    if len(sizes) == 1:
        return [w.add("Identity", [value])]
    inputs = [value, w.integers(sizes, "sizes")]
    return w.add_several("Split", inputs, len(sizes), axis=axis)


@rule("SPLIT")
def _split(w: Writer, op: FileOp) -> list[str]:
    shape, count = w.shape(op.inputs[1]), len(op.outputs)
    axis = w.importer.integers(op, 0, "axis")[0]
    require(-len(shape) <= axis < len(shape), f"axis {axis} of {list(shape)}")
    require(shape[axis] % count == 0, f"{shape[axis]} elements in {count} parts")
    return _split_into(w, w.read(op.inputs[1]), axis, [shape[axis] // count] * count)


@rule("SPLIT_V")
def _split_v(w: Writer, op: FileOp) -> list[str]:
    shape = w.shape(op.inputs[0])
    axis = w.importer.integers(op, 2, "axis")[0]
    sizes = w.importer.integers(op, 1, "sizes")
    require(len(sizes) == len(op.outputs), f"{len(sizes)} sizes for {len(op.outputs)} outputs")
    rest = shape[axis] - sum(size for size in sizes if size >= 0)
    sizes = [rest if size < 0 else size for size in sizes]
    return _split_into(w, w.read(op.inputs[0]), axis, sizes)


def _sliced(w: Writer, value: str, parts: list[slice]) -> str:
    """Slices along each axis, whose bounds are positions and None for the end of a reversed one."""
    last = -(2**31) + 1
    steps = [part.step for part in parts]
    ends = [last if part.stop is None else part.stop for part in parts]
    names = [
        w.integers(numbers, what)
        for numbers, what in (
            ([part.start for part in parts], "starts"),
            (ends, "ends"),
            (range(len(parts)), "axes"),
            (steps, "steps"),
        )
    ]
    return w.add("Slice", [value, *names])


@rule("SLICE")
def _slice(w: Writer, op: FileOp) -> str:
    shape = w.shape(op.inputs[0])
    begins = w.importer.integers(op, 1, "begins")
    sizes = w.importer.integers(op, 2, "sizes")
    bounds = zip(begins, sizes, shape, strict=True)
    parts = [slice(b, whole if size < 0 else b + size, 1) for b, size, whole in bounds]
    return _sliced(w, w.read(op.inputs[0]), parts)


@rule("STRIDED_SLICE")
def _strided_slice(w: Writer, op: FileOp) -> str:
    options = op.options(tflite.StridedSliceOptions)
    shape, to = w.shape(op.inputs[0]), w.shape(op.outputs[0])
    masks = options.EllipsisMask() or options.NewAxisMask() or options.Offset()
    require(not masks, "an ellipsis, a new axis or an offset", "slice each axis by its number")
    begins, ends, steps = (w.importer.integers(op, place, "bounds") for place in (1, 2, 3))
    parts = []
    for axis, whole in enumerate(shape):
        if axis >= len(begins):
            parts.append(slice(0, whole, 1))
            continue
        bit = 1 << axis
        if options.ShrinkAxisMask() & bit:
            place = begins[axis] + whole * (begins[axis] < 0)
            parts.append(slice(place, place + 1, 1))
            continue
        begin = None if options.BeginMask() & bit else begins[axis]
        end = None if options.EndMask() & bit else ends[axis]
        start, stop, step = slice(begin, end, steps[axis]).indices(whole)
        parts.append(slice(start, None if stop < 0 else stop, step))
    value = _sliced(w, w.read(op.inputs[0]), parts)
    return w.reshaped(value, to) if options.ShrinkAxisMask() else value


@rule("REVERSE_V2")
def _reverse(w: Writer, op: FileOp) -> str:
    shape = w.shape(op.inputs[0])
    axes = {axis % len(shape) for axis in w.importer.integers(op, 1, "axes")}
    parts = [
        slice(size - 1, None, -1) if axis in axes else slice(0, size, 1)
        for axis, size in enumerate(shape)
    ]
    return _sliced(w, w.read(op.inputs[0]), parts)


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


@rule("UNPACK")
def _unpack(w: Writer, op: FileOp) -> list[str]:
    shape = w.shape(op.inputs[0])
    axis = op.options(tflite.UnpackOptions).Axis() % len(shape)
    to = [*shape[:axis], *shape[axis + 1 :]]
    parts = _split_into(w, w.read(op.inputs[0]), axis, [1] * len(op.outputs))
    return [w.reshaped(part, to) for part in parts]


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
