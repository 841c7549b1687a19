# SPDX-License-Identifier: Apache-2.0
"""Import rules for TensorFlow Lite operators that reduce, resize, or multiply activations."""

from __future__ import annotations

import math

import numpy as np
import tflite

from ...graph import Op, Tensor, Window
from ...ops.arg_max import ArgMax
from ...ops.average_pooling import AveragePool2D
from ...ops.conv2d import Conv2D
from ...ops.fully_connected import FullyConnected
from ...ops.l2_norm import L2Norm
from ...ops.log_softmax import LogSoftmaxPolynomial
from ...ops.lookup import Lookup
from ...ops.matmul import MatMul
from ...ops.max_pooling import MaxPool2D
from ...ops.resize import Resize
from ...ops.transpose_conv import TransposeConv2D
from ...quant import INT8_MAX, INT8_MIN, FixedPoint
from ..common import KEEP_QUANTISATION, axis_of, double_scale, fixed_point, require, rescale
from ..movement import file_index
from ..softmax import differences, tflite_table
from .file import FileOp
from .ops import SAME_SCALE, WEIGHTS, Importer, bias_of, dense_scale, image_of, rule, weights_of
from .shapes import place_of


def _reduced(importer: Importer, op: FileOp) -> tuple[Tensor, tuple[bool, bool, bool]]:
    """The input, and along which of H, W and C it is reduced. Where the axes are none of these,
    the input is rearranged so that they are its channels."""
    x, shape = importer.activation(op.inputs[0]), importer.shape(op.inputs[0])
    gone = _gone(importer, op)
    places = {place_of(a, shape) for a in gone}
    if None in places:
        return _lines(importer, op, gone), (False, False, True)
    return x, (0 in places, 1 in places, 2 in places)


def _gone(importer: Importer, op: FileOp) -> list[int]:
    """The axes that a reduction makes shorter."""
    shape = importer.shape(op.inputs[0])
    axes = {axis_of(axis, len(shape)) for axis in importer.integers(op, 1, "axes")}
    return sorted(axis for axis in axes if shape[axis] != 1)


def _lines(importer: Importer, op: FileOp, gone: list[int]) -> Tensor:
    """The input with some of its axes as its channels, and all others as its rows."""
    x, shape = importer.activation(op.inputs[0]), importer.shape(op.inputs[0])
    kept = [a for a in range(len(shape)) if a not in gone]
    depth = math.prod(shape[a] for a in gone)
    name = f"{importer.model.tensors[op.outputs[0]].name}/lines"
    index = file_index(shape).transpose([*kept, *gone])
    return importer.arranged(x, index, (x.bytes // depth, 1, depth), name)


def _summed(x: Tensor, over: tuple[bool, bool, bool], requant: FixedPoint) -> Op:
    """The sum of (q - zero point) along axes, requantised; over channels a convolution with
    ones."""
    height, width, channels = x.shape
    window = Window((height if over[0] else 1, width if over[1] else 1))
    if over[2]:
        ones = np.ones((1, *window.kernel, channels), np.int8)
        return Conv2D(ones, np.zeros(1, np.int32), window, requant)
    return AveragePool2D(window, requant, of_sum=True)


def _emit_reduced(
    importer: Importer, op: FileOp, x: Tensor, over: tuple[bool, bool, bool], kind: Op
) -> None:
    """The reduced tensor, which may lie under another shape in the file: axes are dropped."""
    height, width, channels = (
        1 if gone else size for gone, size in zip(over, x.shape, strict=True)
    )
    importer.emit_as(op, kind, [x], (height, width, channels))


@rule("MEAN", constraints="constant axes")
def _mean(importer: Importer, op: FileOp) -> None:
    """TensorFlow Lite, kernels/internal/reference/reduce.h, QuantizedMeanOrSum: the multiplier is
    divided by the count in integers, so the constants differ from those of in / out / count."""
    x, over = _reduced(importer, op)
    out = importer.activation(op.outputs[0])
    count = int(np.prod([n for gone, n in zip(over, x.shape, strict=True) if gone], dtype=np.int64))
    ratio = rescale(x.scale, out.scale)
    multiplier, shift = int(ratio.multiplier[0]), int(ratio.shift[0])
    scaling = min(count.bit_length() - 1, 31 + shift)
    requant = FixedPoint(
        np.array([(multiplier << scaling) // count], np.int32),
        np.array([shift - scaling], np.int32),
    )
    _emit_reduced(importer, op, x, over, _summed(x, over, requant))


@rule("SUM", constraints="constant axes")
def _sum(importer: Importer, op: FileOp) -> None:
    x, over = _reduced(importer, op)
    out = importer.activation(op.outputs[0])
    _emit_reduced(importer, op, x, over, _summed(x, over, rescale(x.scale, out.scale)))


@rule("REDUCE_MAX", "REDUCE_MIN", constraints=f"constant axes; {SAME_SCALE}")
def _reduce_extreme(importer: Importer, op: FileOp) -> None:
    """The minimum is the maximum of -1 - q, whose order is the opposite one."""
    x, over = _reduced(importer, op)
    out = importer.activation(op.outputs[0])
    same = (x.scale, x.zero_point) == (out.scale, out.zero_point)
    require(same, "the input and output have different scales or zero points", KEEP_QUANTISATION)
    name = f"{out.name}/{op.op.lower()}"
    if over[2]:
        # Elements of channels become those of rows.
        x = _lines(importer, op, _gone(importer, op))
        turned = x.shape[0], x.shape[2], 1
        x = importer.arranged(x, file_index(x.shape), turned, f"{name}/pixels")
        over = (False, True, False)
    kind = MaxPool2D(Window((x.shape[0] if over[0] else 1, x.shape[1] if over[1] else 1)))
    if op.op == "REDUCE_MAX":
        _emit_reduced(importer, op, x, over, kind)
        return
    opposite = Lookup(np.arange(INT8_MIN, INT8_MAX + 1)[::-1].astype(np.int8))
    height, width, _ = (1 if gone else d for gone, d in zip(over, x.shape, strict=True))
    most = height, width, x.shape[2]
    steps = (f"{name}/turned", opposite, x.shape), (f"{name}/most", kind, most)
    x = importer.builder.add_steps(name, x, steps)
    importer.emit_as(op, opposite, [x], x.shape)


@rule("ARG_MAX", "ARG_MIN", constraints="constant axis; the result must be a model output")
def _arg_max(importer: Importer, op: FileOp) -> None:
    """TensorFlow Lite takes the first of equal elements."""
    x, out = importer.activation(op.inputs[0]), op.outputs[0]
    shape = importer.shape(op.inputs[0])
    axis = axis_of(importer.integers(op, 1, "axis")[0], len(shape))
    last = np.moveaxis(file_index(shape), axis, -1)
    if axis != len(shape) - 1:
        lines = last.size // last.shape[-1]
        name = f"{importer.model.tensors[out].name}/lines"
        x = importer.arranged(x, last, (lines, 1, last.shape[-1]), name)
    kind = ArgMax(smallest=op.op == "ARG_MIN")
    importer.emit_indices(op, kind, x, (x.shape[0], x.shape[1], 4))


def _taps(size: int, target: int, align: bool, half: bool) -> np.ndarray:
    """int32 (target, 3): lower and upper input index, and the upper one's weight in 1/1024.

    TensorFlow Lite, kernels/internal/reference/resize_bilinear.h.
    """
    scale = (1024 * size + target // 2) // target
    if align and target > 1:
        scale = (1024 * (size - 1) + (target - 1) // 2) // (target - 1)
    at = np.arange(target, dtype=np.int64) * scale + (scale // 2 - 512 if half else 0)
    # Integer division of a negative number cuts towards zero, and the result is cut at zero.
    lower = np.maximum(at, 0) // 1024
    upper = np.minimum((at + 1023) // 1024, size - 1)
    upper = np.maximum(upper, 0)
    lower = np.minimum(lower, size - 1)
    return np.stack([lower, upper, at - 1024 * lower], axis=1).astype(np.int32)


@rule("RESIZE_BILINEAR", constraints=f"4-D, batch 1; constant size; {SAME_SCALE}")
def _resize_bilinear(importer: Importer, op: FileOp) -> None:
    x, out = image_of(importer, op.inputs[0]), importer.activation(op.outputs[0])
    same = (x.scale, x.zero_point) == (out.scale, out.zero_point)
    require(same, "the input and output have different scales or zero points", KEEP_QUANTISATION)
    options = op.options(tflite.ResizeBilinearOptions)
    size = importer.integers(op, 1, "size")
    require(tuple(size) == out.shape[:2], f"invalid size {size} for the output {out.shape}")
    modes = bool(options.AlignCorners()), bool(options.HalfPixelCenters())
    rows, columns = (_taps(x.shape[axis], size[axis], *modes) for axis in (0, 1))
    importer.emit(op, Resize(rows, columns), [x], (*out.shape[:2], x.shape[2]))


@rule("TRANSPOSE_CONV", constraints=f"4-D, batch 1; {WEIGHTS}; no fused activation")
def _transpose_conv(importer: Importer, op: FileOp) -> None:
    options = op.options(tflite.TransposeConvOptions)
    require(len(op.inputs) >= 3, f"{len(op.inputs)} inputs instead of three")
    x, out = image_of(importer, op.inputs[2]), importer.activation(op.outputs[0])
    weights = weights_of(importer, op, 4, 0)
    count, kh, kw, depth = weights.shape
    require(depth == x.shape[2], f"{x.shape[2]} input channels for weights of depth {depth}")
    stride = options.StrideH(), options.StrideW()
    require(min(stride) >= 1, f"bad {stride=}")
    fused = options.FusedActivationFunction() if hasattr(options, "FusedActivationFunction") else 0
    require(
        fused == 0, "a fused activation is not supported", "make the activation a layer of its own"
    )
    padding = options.Padding()
    pads = [_cut_before(out.shape[axis], (kh, kw)[axis], stride[axis], padding) for axis in (0, 1)]
    for axis in (0, 1):
        reach = (x.shape[axis] - 1) * stride[axis] + (kh, kw)[axis]
        fits = out.shape[axis] + pads[axis] < reach + stride[axis]
        require(fits, f"the output is {out.shape} for an input of {x.shape}")
    kind = TransposeConv2D(
        weights=weights.values,
        bias=bias_of(importer, op, count, 3),
        stride=stride,
        pad=(pads[0], pads[1]),
        requant=double_scale(x.scale, np.broadcast_to(weights.scales, count), out.scale),
    )
    importer.emit(op, kind, [x], (*out.shape[:2], count))


def _cut_before(size: int, kernel: int, stride: int, padding: int) -> int:
    """TensorFlow Lite, kernels/padding.h, ComputePaddingHeightWidth of the output."""
    if padding == tflite.Padding.SAME:
        windows = -(-size // stride)
    else:
        windows = (size - kernel + stride) // stride
    return max((windows - 1) * stride + kernel - size, 0) // 2


@rule(
    "BATCH_MATMUL",
    constraints="two activations of equal batch; or one constant int8 matrix for all batches, "
    "with one scale and zero point 0",
)
def _batch_matmul(importer: Importer, op: FileOp) -> None:
    """TensorFlow Lite, micro/kernels/batch_matmul.cc."""
    options = op.options(tflite.BatchMatMulOptions)
    out = importer.activation(op.outputs[0])
    x = _matrix(importer, op, 0, bool(options.AdjX()))
    if importer.is_constant(op.inputs[1]):
        _constant_matmul(importer, op, x, bool(options.AdjY()))
        return
    y = _matrix(importer, op, 1, not options.AdjY())
    batch, lines, depth = x.shape
    require(y.shape[0] == batch and y.shape[2] == depth, f"cannot multiply {x.shape} and {y.shape}")
    factor = np.float64(x.scale) * np.float64(y.scale) / np.float64(out.scale)
    kind = MatMul(fixed_point(factor), transposed=True)
    shape = batch, lines, y.shape[1]
    importer.emit_as(op, kind, [x, y], shape)


def _matrix(importer: Importer, op: FileOp, place: int, turned: bool) -> Tensor:
    """An operand as (batch, lines, columns), its last two axes exchanged if `turned`."""
    x = importer.activation(op.inputs[place])
    shape = importer.shape(op.inputs[place])
    require(len(shape) >= 2, f"the input has {len(shape)} dimensions")
    index = file_index(shape).reshape(-1, *shape[-2:])
    if turned:
        index = index.transpose(0, 2, 1)
    name = f"{importer.model.tensors[op.outputs[0]].name}/operand{place}"
    return importer.arranged(x, index, (index.shape[0], index.shape[1], index.shape[2]), name)


def _constant_matmul(importer: Importer, op: FileOp, x: Tensor, turned: bool) -> None:
    weights = importer.constant(op, 1, ("INT8",), "weights")
    single = weights.values.ndim >= 2 and weights.values.size == np.prod(weights.shape[-2:])
    require(single, "the constant operand differs from batch to batch")
    require(len(weights.scales) == 1, "the constant operand is quantised per channel")
    require(not weights.zero_points.any(), "the constant operand has a zero point")
    matrix = weights.values.reshape(weights.shape[-2:])
    matrix = np.ascontiguousarray(matrix if turned else matrix.T)
    count, depth = matrix.shape
    require(x.shape[2] == depth, f"{x.shape[2]} columns times {depth} rows")
    out = importer.activation(op.outputs[0])
    requant = dense_scale(x, weights, count, out)
    kind = FullyConnected(matrix, np.zeros(count, np.int32), requant)
    importer.emit_as(op, kind, [x], (*x.shape[:2], count))


# Sums of squares, and of exponentials, within int32.
_MOST_SQUARES, _MOST_EXPONENTIALS = (2**31 - 1) // 255**2, 4095


@rule(
    "L2_NORMALIZATION",
    constraints=f"last axis, at most {_MOST_SQUARES:,} elements; output scale 1/128, zero point "
    "0; no fused activation",
)
def _l2_normalization(importer: Importer, op: FileOp) -> None:
    """TensorFlow Lite, micro/kernels/l2norm.cc, along the last axis."""
    x, out = importer.activation(op.inputs[0]), importer.activation(op.outputs[0])
    expected = out.scale == 1.0 / 128 and out.zero_point == 0
    require(expected, "the output does not have scale 1/128 and zero point 0", KEEP_QUANTISATION)
    fused = op.options(tflite.L2NormOptions).FusedActivationFunction() if op.table else 0
    require(
        fused == 0, "a fused activation is not supported", "make the activation a layer of its own"
    )
    few = x.shape[2] <= _MOST_SQUARES
    require(few, f"{x.shape[2]} squares are added; the maximum is {_MOST_SQUARES}")
    importer.emit(op, L2Norm(), [x], x.shape)


@rule(
    "LOG_SOFTMAX",
    constraints=f"last axis, at most {_MOST_EXPONENTIALS:,} elements; output scale 1/16, zero "
    "point 127",
)
def _log_softmax(importer: Importer, op: FileOp) -> None:
    """TensorFlow Lite, micro/kernels/log_softmax.cc, along the last axis."""
    x, out = importer.activation(op.inputs[0]), importer.activation(op.outputs[0])
    expected = out.scale == 16.0 / 256 and out.zero_point == INT8_MAX
    require(expected, "the output does not have scale 1/16 and zero point 127", KEEP_QUANTISATION)
    require(x.scale * (1 << 26) > 1, f"unsupported input scale {x.scale}", KEEP_QUANTISATION)
    few = x.shape[2] <= _MOST_EXPONENTIALS
    require(few, f"{x.shape[2]} exponentials are added; the maximum is {_MOST_EXPONENTIALS}")
    kind = LogSoftmaxPolynomial(tflite_table(x.scale, 1.0), differences(x.scale))
    importer.emit(op, kind, [x], x.shape)
