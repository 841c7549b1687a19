# SPDX-License-Identifier: Apache-2.0
"""Import rules for the operators that stand between DequantizeLinear and QuantizeLinear.

To add an operator, add a function here; its QOperator form, if there is one, is a row of the
table in qoperator.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from ...graph import Op, Tensor, Window
from ...ops.conv2d import Conv2D
from ...ops.depthwise import DepthwiseConv2D
from ...ops.max_pooling import MaxPool2D
from ...ops.pad import Pad
from ...quant import INT8_MIN
from .. import tables
from ..common import MAX_TENSOR_BYTES, check_window, quantised, require
from ..movement import file_index
from .context import Context, clamp, rule
from .dense import (
    Weights,
    bias_of,
    constant_weights,
    float_scale,
    narrow_channels,
    quantise_bias,
)
from .file import FileNode
from .grouped import grouped_conv
from .values import (
    Activation,
    Args,
    BlockedConstant,
    Pending,
    Value,
    channels_last,
    explicit,
    result_of,
    tensor_axis,
)

# The modes of Pad that repeat elements, as numpy calls them.
_MIRRORS: dict[str, Literal["reflect", "edge", "wrap"]] = {
    "reflect": "reflect",
    "edge": "edge",
    "wrap": "wrap",
}


def pair(values: Sequence[int]) -> tuple[int, int]:
    """The numbers of both spatial axes."""
    first, second = values
    return first, second


def window_of(
    context: Context, node: FileNode, x: Activation, kernel: list[int]
) -> tuple[Activation, Window]:
    """The window of a convolution or pooling node and its input: `auto_pad` and `ceil_mode`
    become padding, and a crop of x. One spatial axis becomes H, and W has the size one."""
    axes = len(x.shape) - 2
    stride, dilation = node.ints("strides", [1] * axes), node.ints("dilations", [1] * axes)
    pads = node.ints("pads", [0] * (2 * axes))
    same = len(kernel) == len(stride) == len(dilation) == axes and len(pads) == 2 * axes
    require(same, f"the window does not have {axes} axes as its input has")
    positive = min(*kernel, *stride, *dilation) >= 1 and min(pads) >= 0
    require(positive, f"invalid {kernel=}, {stride=}, {dilation=} or {pads=}")
    sizes = [*x.shape[2:], *[1] * (2 - axes)]
    if axes == 1:
        pads = [pads[0], 0, pads[1], 0]
        kernel, stride, dilation = ([*values, 1] for values in (kernel, stride, dilation))
    auto = auto_pad(node)
    if auto.startswith("SAME"):
        each_axis = zip(sizes, kernel, stride, dilation, strict=True)
        sides = [_same_padding(node, *each) for each in each_axis]
        x = _cropped_image(context, node, x, [max(-before, 0) for before, _ in sides])
        sizes = [*x.shape[2:], *[1] * (2 - axes)]
        pads = [max(side[end], 0) for end in (0, 1) for side in sides]
    elif auto == "VALID":
        pads = [0, 0, 0, 0]
    if not auto.startswith("SAME") and node.attributes.get("ceil_mode"):
        _round_up(pads, sizes, kernel, stride, dilation)
    top, left, bottom, right = pads
    window = Window(pair(kernel), pair(stride), pair(dilation), (top, left, bottom, right))
    out = [window.out_size(axis, sizes[axis]) for axis in range(2)]
    require(min(out) >= 1, f"the output is empty: {kernel=} on {list(sizes)}")
    return x, check_window(window, sizes, x.shape[1])


def auto_pad(node: FileNode) -> str:
    auto: str = node.attributes.get("auto_pad", b"NOTSET").decode()
    known = auto in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    require(known, f"invalid auto_pad {auto}")
    return auto


def _same_padding(
    node: FileNode, size: int, kernel: int, stride: int, dilation: int
) -> tuple[int, int]:
    """(before, after) of SAME_UPPER or SAME_LOWER; negative ones crop.

    ONNX Runtime, core/providers/common.h, ComputePad() of convolutions, and
    core/providers/cpu/nn/pool_attributes.h, which takes no heed of the dilation.
    """
    convolves = "Conv" in node.op
    extent = (kernel - 1) * dilation + 1 if convolves else kernel
    total = (-(-size // stride) - 1) * stride + extent - size
    if total < 0:
        reason = "auto_pad gives a negative padding, which ONNX Runtime does not run"
        require(convolves or "Max" not in node.op, reason, "use pads")
        total += convolves
    # In C++, division cuts towards zero.
    before = int((total + (auto_pad(node) == "SAME_LOWER")) / 2)
    return before, total - before


def _cropped_image(
    context: Context, node: FileNode, x: Activation, amounts: list[int]
) -> Activation:
    """An image or a line without its first rows and columns."""
    if not any(amounts):
        return x
    cut = (slice(None), slice(None), *(slice(amount, None) for amount in amounts))
    inner = replace(node, outputs=(f"{node.outputs[0]}/cropped",))
    index = file_index(x.shape)[cut[: len(x.shape)]]
    return context.image(context.moved(inner, x, index))


def _round_up(
    pads: list[int],
    sizes: list[int],
    kernel: list[int],
    stride: list[int],
    dilation: list[int],
) -> None:
    """Adds to the end padding the rows and columns of ceil_mode's extra output. A last window
    that starts beyond the image and its padding does not count."""
    for axis in range(2):
        span = sizes[axis] + pads[axis] + pads[axis + 2] - (kernel[axis] - 1) * dilation[axis] - 1
        out = -(-span // stride[axis]) + 1
        if (out - 1) * stride[axis] >= sizes[axis] + pads[axis]:
            out -= 1
        pads[axis + 2] += max((out - 1) * stride[axis] - span, 0)


def windowed(window: Window, x: Activation, channels: int) -> tuple[int, ...]:
    """The output's shape in the file."""
    sizes = x.shape[2:]
    return 1, channels, *(window.out_size(axis, size) for axis, size in enumerate(sizes))


def whole_window(x: Activation) -> Window:
    """The window that covers all of an image or a line."""
    return Window((x.shape[2], x.shape[3] if len(x.shape) == 4 else 1))


@rule(
    "Conv",
    constraints="1-D or 2-D; constant weights of 8 or 4 bits, per tensor, per output channel, or "
    "in blocks of inputs",
)
def _conv(context: Context, node: FileNode, args: Args) -> Value:
    if len(args) > 1 and isinstance(args[1], BlockedConstant):
        given, image = args[2] if len(args) > 2 else None, context.image(args[0])
        kernel = list(args[1].ints.shape[2:])
        image, window = window_of(context, node, image, kernel)
        return grouped_conv(context, node, image, args[1], given, window)
    x, args = narrow_channels(context, node, context.image(args[0]), args, 1)
    constant = constant_weights(args, 1, 0)
    weights = constant.ints
    fits = weights.ndim == len(x.shape)
    require(fits, f"the weights have {weights.ndim} dimensions, its input {len(x.shape)}")
    count, depth, *kernel = weights.shape
    if weights.ndim == 3:
        weights = weights[..., None]
    groups = int(node.attributes.get("group", 1))
    channels = x.shape[1]
    fits = groups >= 1 and depth * groups == channels and count % groups == 0
    require(fits, f"{channels} channels, {groups} groups, weights {list(weights.shape)}")
    require(node.ints("kernel_shape", kernel) == kernel, "the kernel_shape is not its weights'")
    x, window = window_of(context, node, x, kernel)
    bias = bias_of(args, 2, x, constant.scales, count)
    laid = replace(constant, ints=weights, scales=np.broadcast_to(constant.scales, count))
    return _convolution(node, x, laid, bias, window, groups)


def _convolution(
    node: FileNode,
    x: Activation,
    weights: Weights,
    bias: np.ndarray,
    window: Window,
    groups: int,
) -> Pending:
    """weights (Cout, Cin / groups, kh, kw) with Cout scales, bias int32 (Cout,)."""
    ints, scales = weights.ints, weights.scales
    count, depth = ints.shape[:2]

    def make(out: Tensor) -> Op:
        requant = float_scale(x, scales, out, count)
        op: Op
        if depth == 1 and groups > 1:
            kernel_last = np.ascontiguousarray(ints[:, 0].transpose(1, 2, 0))
            op = DepthwiseConv2D(kernel_last, bias, window, requant, count // groups)
        else:
            kernel_first = np.ascontiguousarray(ints.transpose(0, 2, 3, 1))
            op = Conv2D(kernel_first, bias, window, requant, groups)
        return replace(op, weight_bits=weights.bits)

    def affine(gain: np.ndarray, offset: np.ndarray, name: str) -> Pending:
        require(gain.size == count and bool(gain.all()), "a channel's factor is zero")
        product = np.float32(x.tensor.scale) * scales
        scaled = (scales * gain).astype(np.float32)
        real = bias * product.astype(np.float64) * gain + offset
        wanted = quantise_bias(real, np.float32(x.tensor.scale) * scaled, count)
        inner = replace(node, outputs=(name,))
        return _convolution(inner, x, replace(weights, scales=scaled), wanted, window, groups)

    return replace(spatial(node, x, windowed(window, x, count), make), affine=affine)


def spatial(
    node: FileNode,
    x: Activation,
    shape: tuple[int, ...],
    make: Callable[[Tensor], Op],
    keeps: tuple[float, int] | None = None,
) -> Pending:
    """A result (1, C, ...) whose bytes lie channels last."""
    form, copies = (shape, channels_last(shape)), keeps is not None
    return result_of(node, x, (x.tensor,), make, form, keeps=keeps, copies=copies)


@rule("MaxPool", constraints="1-D or 2-D; no index output; SAME padding must not crop")
def _max_pool(context: Context, node: FileNode, args: Args) -> Value:
    x = context.image(args[0])
    require(len(node.outputs) == 1 or not node.outputs[1], "an index output is not supported")
    return _keeping_pool(node, *window_of(context, node, x, node.ints("kernel_shape", [])))


@rule("GlobalMaxPool", constraints="1-D or 2-D")
def _global_max_pool(context: Context, node: FileNode, args: Args) -> Value:
    x = context.image(args[0])
    return _keeping_pool(node, x, whole_window(x))


def _keeping_pool(node: FileNode, x: Activation, window: Window) -> Pending:
    shape, keeps = windowed(window, x, x.shape[1]), natural_of(x.tensor)
    return spatial(node, x, shape, lambda out: MaxPool2D(window), keeps)


def natural_of(x: Tensor) -> tuple[float, int]:
    """Returns the scale and zero point of values between those of x, such as an average: x's
    own."""
    return x.scale, x.zero_point


@rule(
    "Pad",
    constraints="modes constant, reflect, edge and wrap; constant amounts; mode constant: not "
    "the batch axis",
)
def _pad(context: Context, node: FileNode, args: Args) -> Value:
    x = context.activation(args[0])
    rank = len(x.shape)
    given = context.constant(args, 1, "amounts")
    pads = node.ints("pads", []) if given is None else [int(p) for p in given.ravel()]
    chosen = context.constant(args, 3, "axes")
    axes = list(range(rank)) if chosen is None else [int(a) % rank for a in chosen.ravel()]
    require(len(pads) == 2 * len(axes), f"invalid padding {pads}")
    pairs = list(zip(pads[: len(axes)], pads[len(axes) :], strict=True))
    if min(pads, default=0) < 0:
        x, pairs = _cropped(context, node, x, axes, pairs)
    mode = node.attributes.get("mode", b"constant").decode()
    if mode != "constant":
        return _mirrored(context, node, x, mode, dict(zip(axes, pairs, strict=True)))
    x = context.image(x) if rank == 3 and x.order is not None else context.usual(x)
    amounts, shape = [(0, 0)] * 3, list(x.shape)
    for axis, (before, after) in zip(axes, pairs, strict=True):
        if before or after:
            place = tensor_axis(axis, x.shape) if x.order is None else {1: 2, 2: 0}.get(axis, -1)
            require(place >= 0, f"cannot pad axis {axis} of {list(x.shape)}", "use batch size 1")
            amounts[place] = (before, after)
            shape[axis] += before + after
    whole = tuple(shape)
    order = None if x.order is None else channels_last(whole).ravel()
    memory = [size + sum(pair) for size, pair in zip(x.tensor.shape, amounts, strict=True)]
    form = whole, explicit(whole, order).reshape(memory)
    rows, columns, channels = amounts
    keeps = x.tensor.scale, x.tensor.zero_point

    def padded(tensor: Tensor) -> Pending:
        op = Pad((rows, columns, channels), _pad_value(context, node, args, x, tensor))
        more = {"keeps": natural_of(tensor), "copies": True, "clamps": False}
        return result_of(node, x, (tensor,), lambda out: op, form, **more)

    def resolve(scale: float, zero: int) -> Pending:
        whole = padded(x.tensor)
        if (scale, zero) == keeps:
            return whole
        out = replace(x.tensor, scale=scale, zero_point=zero)
        byte = _pad_value(context, node, args, x, x.tensor)
        rescaled = int(tables.quantised(tables.real_values(x.tensor), out)[byte - INT8_MIN])
        if rescaled == _pad_value(context, node, args, x, out):
            return whole
        # The value is none of the input's bytes: the input comes to the result's scale first.
        name = context.hidden_name(node.outputs[0])
        early = context.quantise(clamp(x, name, node.name), scale, zero, name, x.dtype)
        return padded(early.tensor)

    return replace(padded(x.tensor), resolve=None if isinstance(args[0], Activation) else resolve)


def _cropped(
    context: Context,
    node: FileNode,
    x: Activation,
    axes: list[int],
    pairs: list[tuple[int, int]],
) -> tuple[Activation, list[tuple[int, int]]]:
    """x without the elements that negative amounts remove, and the amounts that are left."""
    cut = [slice(None)] * len(x.shape)
    for axis, (before, after) in zip(axes, pairs, strict=True):
        cut[axis] = slice(max(-before, 0), x.shape[axis] - max(-after, 0))
    inner = replace(node, outputs=(f"{node.outputs[0]}/cropped",))
    index = file_index(x.shape)[tuple(cut)]
    left = [(max(before, 0), max(after, 0)) for before, after in pairs]
    return context.activation(context.moved(inner, x, index)), left


def _mirrored(
    context: Context, node: FileNode, x: Activation, mode: str, pairs: dict[int, tuple[int, int]]
) -> Pending:
    require(mode in _MIRRORS, f"unsupported mode {mode}")
    amounts = [pairs.get(axis, (0, 0)) for axis in range(len(x.shape))]
    sizes = [n + sum(pair) for n, pair in zip(x.shape, amounts, strict=True)]
    require(math.prod(sizes) <= MAX_TENSOR_BYTES, f"invalid padded shape {sizes}")
    return context.moved(node, x, np.pad(file_index(x.shape), amounts, _MIRRORS[mode]))


def _pad_value(context: Context, node: FileNode, args: Args, x: Activation, tensor: Tensor) -> int:
    """The byte of a tensor that stands for the value, which int8 tensors of a file give as such."""
    value = context.constant(args, 2, "value")
    if isinstance(args[0], Activation):
        raw = 0 if value is None else int(value.ravel()[0])
        return raw - 128 if x.dtype == "uint8" else raw
    real = node.attributes.get("value", 0.0) if value is None else float(value.ravel()[0])
    return quantised(real, tensor)
