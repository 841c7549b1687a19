# SPDX-License-Identifier: Apache-2.0
"""Import rules for operators that reduce, resize, normalise or search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...graph import Op, Shape, Tensor, Window
from ...ops.arg_max import ArgMax
from ...ops.lookup import Lookup
from ...ops.max_pooling import MaxPool2D
from ...ops.resize import Resize
from ...ops.transpose_conv import TransposeConv2D
from ...quant import INT8_MAX, INT8_MIN
from ..common import axis_of, fixed_point, present, require
from ..movement import file_index
from .channels import scaled_channels
from .context import Context, rule
from .dense import bias_of, constant_weights, float_scale, narrow_channels
from .file import FileNode
from .means import columns, lines, reduced, reduced_axes, whole_axes
from .moves import nearest, resize_places, resize_sizes
from .ops import pair, spatial
from .values import (
    Args,
    Indices,
    Pending,
    Value,
    laid_out,
    result_of,
)


@rule("ReduceMax", "ReduceMin", constraints="constant axes")
def _reduce_extreme(context: Context, node: FileNode, args: Args) -> Value:
    x = context.activation(args[0])
    axes = reduced_axes(context, node, args, len(x.shape))
    tensor, over = lines(context, x, axes)
    if over[2]:
        tensor, over = columns(context, x, axes)
    form = reduced(node, x, tensor, axes, over)
    window = whole_axes(tensor, over)
    keeps = tensor.scale, tensor.zero_point
    if node.op == "ReduceMin":
        height, width, channels = form[1].shape
        tensor = _least(context, node, tensor, window, (height, width, channels))

    def make(out: Tensor) -> Op:
        if node.op == "ReduceMax":
            return MaxPool2D(window)
        return Lookup(_NEGATED)

    return result_of(node, x, (tensor,), make, form, keeps=keeps, copies=True)


# -1 - q, so that zero points fit.
_NEGATED = np.arange(INT8_MAX, INT8_MIN - 1, -1).astype(np.int8)


def _least(context: Context, node: FileNode, x: Tensor, window: Window, memory: Shape) -> Tensor:
    """The greatest of the negated values."""
    name = node.outputs[0]
    steps: list[tuple[str, Op, Shape]] = [
        (f"{name}/negated", Lookup(_NEGATED), x.shape),
        (f"{name}/greatest", MaxPool2D(window), memory),
    ]
    negated = replace(x, zero_point=-1 - x.zero_point)
    return context.builder.add_steps(node.name, negated, steps)


@rule("ArgMax", "ArgMin", constraints="the result must be a model output")
def _arg_max(context: Context, node: FileNode, args: Args) -> Value:
    x = context.activation(args[0])
    axis = axis_of(int(node.attributes.get("axis", 0)), len(x.shape))
    lines = np.moveaxis(file_index(x.shape), axis, -1).reshape(-1, 1, x.shape[axis])
    at_hand = x.tensor.shape[2] == x.shape[axis] and np.array_equal(
        laid_out(x).ravel(), lines.ravel()
    )
    tensor = x.tensor if at_hand else context.arranged(x, lines)
    name = node.outputs[0]
    out = context.builder.add_tensor(Tensor(name, (*tensor.shape[:2], 4), 1.0, 0))
    last = bool(node.attributes.get("select_last_index"))
    op = ArgMax(smallest=node.op == "ArgMin", last=last)
    context.builder.add_node(node.name, op, [tensor.name], name)
    shape = list(x.shape)
    shape[axis : axis + 1] = [1] if node.attributes.get("keepdims", 1) else []
    return Indices(out, tuple(shape))


@rule(
    "Resize",
    constraints="nearest, or linear along H and W with batch 1; no axes, antialias, "
    "keep_aspect_ratio_policy or tf_crop_and_resize",
)
def _resize(context: Context, node: FileNode, args: Args) -> Value:
    x = context.activation(args[0])
    target, scales = resize_sizes(context, node, args, x)
    mode = node.attributes.get("mode", b"nearest").decode()
    if mode == "nearest":
        index = file_index(x.shape)
        for axis, (size, scale) in enumerate(zip(target, scales, strict=True)):
            if size != x.shape[axis]:
                index = index.take(nearest(node, x.shape[axis], size, scale), axis)
        return context.moved(node, x, index)
    require(mode == "linear", f"unsupported mode {mode}", "use nearest or linear")
    same = target[:2] == list(x.shape[:2]) and len(target) in (3, 4)
    require(same, f"linear resizing of {list(x.shape)} to {target} is not supported")
    x = context.image(x)
    axes = range(2, len(target))
    taps = [_taps(node, x.shape[a], target[a], scales[a]) for a in axes]
    taps += [np.array([[0, 0, 0]], np.int32)] * (2 - len(taps))
    shape = tuple(target)
    keeps = x.tensor.scale, x.tensor.zero_point

    def make(out: Tensor) -> Op:
        factor = None
        if (out.scale, out.zero_point) != keeps:
            factor = fixed_point(np.float64(keeps[0]) / np.float64(out.scale) / (1 << 20))
        return Resize(taps[0], taps[1], factor)

    return replace(spatial(node, x, shape, make), keeps=keeps)


def _taps(node: FileNode, size: int, target: int, scale: float) -> np.ndarray:
    """int32 (target, 3), see graph.Resize."""
    at = np.clip(resize_places(node, size, target, scale), 0, size - 1).astype(np.float64)
    lower = np.floor(at).astype(np.int64)
    upper = np.minimum(lower + 1, size - 1)
    weight = np.rint((at - lower) * 1024).astype(np.int64)
    return np.stack([lower, upper, weight], axis=1).astype(np.int32)


@rule(
    "ConvTranspose",
    constraints="1-D or 2-D; constant int8 or uint8 weights, per tensor or per output channel; "
    "no auto_pad or output_shape",
)
def _conv_transpose(context: Context, node: FileNode, args: Args) -> Value:
    x = context.image(args[0])
    if int(node.attributes.get("group", 1)) == 1:
        x, args = narrow_channels(context, node, x, args, 0)
    constant = constant_weights(args, 1, 1)
    weights, scales = constant.ints, constant.scales
    axes = len(x.shape) - 2
    require(weights.ndim == len(x.shape), f"the weights have {weights.ndim} dimensions")
    groups = int(node.attributes.get("group", 1))
    depth_all, per_group, *kernel = weights.shape
    fits = groups >= 1 and depth_all == x.shape[1] and depth_all % groups == 0
    require(fits, f"{x.shape[1]} channels, {groups} groups, weights {list(weights.shape)}")
    stride, dilation = node.ints("strides", [1] * axes), node.ints("dilations", [1] * axes)
    extra, pads = node.ints("output_padding", [0] * axes), node.ints("pads", [0] * 2 * axes)
    same = len(stride) == len(dilation) == len(extra) == axes and len(pads) == 2 * axes
    require(same and min(*stride, *dilation) >= 1 and min(*pads, *extra) >= 0, "invalid window")
    require("output_shape" not in node.attributes, "output_shape is not supported", "use pads")
    require(
        node.attributes.get("auto_pad", b"NOTSET") == b"NOTSET",
        "auto_pad is not supported",
        "use pads",
    )
    sizes = [
        (x.shape[2 + a] - 1) * stride[a]
        + (kernel[a] - 1) * dilation[a]
        + 1
        + extra[a]
        - pads[a]
        - pads[a + axes]
        for a in range(axes)
    ]
    require(min(sizes) >= 1, f"invalid output size {sizes}")
    count, depth = per_group * groups, depth_all // groups
    # All groups have the same ones.
    scales = np.tile(scales, groups) if scales.size > 1 else scales
    # (group, channel in, channel out, kernel) to (channel out, kernel, channel in).
    grouped = weights.reshape(groups, depth, per_group, *kernel, *[1] * (2 - axes))
    kernels = np.ascontiguousarray(
        grouped.transpose(0, 2, 3, 4, 1).reshape(count, *kernel, *[1] * (2 - axes), depth)
    )
    bias = bias_of(args, 2, x, np.broadcast_to(scales, count), count)
    steps, spread = (pair(values + [1] * (2 - axes)) for values in (stride, dilation))
    before = pair(pads[:axes] + [0] * (2 - axes))

    def make(out: Tensor) -> Op:
        requant = float_scale(x, scales, out, count)
        return TransposeConv2D(kernels, bias, steps, before, requant, groups, spread)

    return spatial(node, x, (1, count, *sizes), make)


@rule("BatchNormalization", constraints="inference mode; constant parameters")
def _batch_normalization(context: Context, node: FileNode, args: Args) -> Value:
    require(not node.attributes.get("training_mode"), "training mode is not supported")
    names = ("scale", "offset", "mean", "variance")
    given = [context.constant(args, place, name) for place, name in enumerate(names, 1)]
    arrays = [present(array, "a parameter is missing") for array in given]
    gain, offset, mean, variance = (array.astype(np.float64).ravel() for array in arrays)
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    with np.errstate(all="ignore"):
        gain = gain / np.sqrt(variance + epsilon)
    value = args[0]
    if isinstance(value, Pending) and value.affine is not None:
        return value.affine(gain, offset - mean * gain, node.outputs[0])
    activation = context.activation(value)
    flat = len(activation.shape) == 2
    x = context.usual(activation) if flat else context.image(activation)
    require(x.tensor.shape[2] == gain.size, f"{gain.size} factors for {list(x.shape)}")
    return scaled_channels(node, x, gain, offset - mean * gain)
