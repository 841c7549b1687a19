# SPDX-License-Identifier: Apache-2.0
"""Import rules for the operators that stand between DequantizeLinear and QuantizeLinear.

To add an operator, add a function here; its QOperator form, if there is one, is a row of the
table in onnx_qoperator.py.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..graph import (
    AveragePool2D,
    Concat,
    Conv2D,
    DepthwiseConv2D,
    MaxPool2D,
    Op,
    Pad,
    Softmax,
    Tensor,
    Window,
)
from ..quant import INT8_MAX, INT8_MIN
from .common import KEEP_QUANTISATION, add_op, fixed_point, require, rescale, same_padding
from .onnx_context import Context, clamp, rule
from .onnx_dense import bias_of, constant_weights, float_scale
from .onnx_file import FileNode
from .onnx_values import (
    Activation,
    Constant,
    FloatInput,
    Order,
    Pending,
    QuantConstant,
    Value,
    explicit,
    same_order,
    simplify,
    tensor_axis,
)
from .softmax import onnx_table

_SEPARATE = "Remove the transposition or reshaping before it."
# sum * 256 has to stay within 32 bits.
_MAX_POOL_TAPS = 1 << 15
_MIN_SOFTMAX_SCALE = 2.0**-16


def _image(context: Context, value: Value | None) -> Activation:
    """A (1, C, H, W) activation whose bytes lie channels last."""
    require(value is not None, "its input is absent")
    x = context.activation(value)
    require(len(x.shape) == 4, f"its input has the shape {list(x.shape)}, not (1, C, H, W)")
    require(x.order is None, "its input's elements lie in another order in memory", _SEPARATE)
    return x


def _window(node: FileNode, x: Activation, kernel: list[int]) -> Window:
    """The window of a convolution or pooling node; `auto_pad` and `ceil_mode` become padding."""
    stride, dilation = node.ints("strides", [1, 1]), node.ints("dilations", [1, 1])
    pads = node.ints("pads", [0, 0, 0, 0])
    require(len(kernel) == len(stride) == len(dilation) == 2 and len(pads) == 4, "it is not 2-D")
    positive = min(*kernel, *stride, *dilation) >= 1 and min(pads) >= 0
    require(positive, f"bad {kernel=}, {stride=}, {dilation=} or {pads=}")
    auto = node.attributes.get("auto_pad", b"NOTSET").decode()
    sizes = x.shape[2:]
    if auto == "VALID":
        pads = [0, 0, 0, 0]
    elif auto != "NOTSET":
        require(auto in ("SAME_UPPER", "SAME_LOWER"), f"its auto_pad is {auto}")
        for axis in range(2):
            pair = same_padding(sizes[axis], kernel[axis], stride[axis], dilation[axis])
            pads[axis], pads[axis + 2] = pair if auto == "SAME_UPPER" else pair[::-1]
    elif node.attributes.get("ceil_mode"):
        _round_up(pads, sizes, kernel, stride, dilation)
    window = Window(tuple(kernel), tuple(stride), tuple(dilation), tuple(pads))
    out = [window.out_size(axis, sizes[axis]) for axis in range(2)]
    require(min(out) >= 1, f"its output is empty: {kernel=} on {list(sizes)}")
    return window


def _round_up(
    pads: list[int],
    sizes: tuple[int, ...],
    kernel: list[int],
    stride: list[int],
    dilation: list[int],
) -> None:
    """Adds to the end padding what ceil_mode's extra output needs. A last window that starts
    beyond the image and its padding does not count."""
    for axis in range(2):
        span = sizes[axis] + pads[axis] + pads[axis + 2] - (kernel[axis] - 1) * dilation[axis] - 1
        out = -(-span // stride[axis]) + 1
        if (out - 1) * stride[axis] >= sizes[axis] + pads[axis]:
            out -= 1
        pads[axis + 2] += max((out - 1) * stride[axis] - span, 0)


def _windowed(window: Window, x: Activation, channels: int) -> tuple[int, ...]:
    return 1, channels, *(window.out_size(axis, x.shape[axis + 2]) for axis in range(2))


@rule("Conv")
def _conv(context: Context, node: FileNode, args: list[Value | None]) -> Value:
    x = _image(context, args[0])
    weights, scales = constant_weights(args, 1, 0)
    require(weights.ndim == 4, f"its weights have {weights.ndim} dimensions")
    count, depth, *kernel = weights.shape
    groups = int(node.attributes.get("group", 1))
    channels = x.shape[1]
    fits = groups >= 1 and depth * groups == channels and count % groups == 0
    require(fits, f"{channels} channels, {groups} groups, weights {list(weights.shape)}")
    require(node.ints("kernel_shape", kernel) == kernel, "its kernel_shape is not its weights'")
    window = _window(node, x, kernel)
    bias = bias_of(args, 2, x, scales, count)

    def make(out: Tensor, act_min: int, act_max: int) -> Op:
        common = {"bias": bias, "window": window, "act_min": act_min, "act_max": act_max}
        common["requant"] = float_scale(x, scales, out, count)
        if depth == 1 and groups > 1:
            kernel_last = np.ascontiguousarray(weights[:, 0].transpose(1, 2, 0))
            return DepthwiseConv2D(weights=kernel_last, multiplier=count // groups, **common)
        kernel_first = np.ascontiguousarray(weights.transpose(0, 2, 3, 1))
        return Conv2D(weights=kernel_first, groups=groups, **common)

    shape = _windowed(window, x, count)
    return Pending(node.outputs[0], node.name, shape, None, (x.tensor,), make, x.dtype)


@rule("MaxPool")
def _max_pool(context: Context, node: FileNode, args: list[Value | None]) -> Value:
    x = _image(context, args[0])
    require(len(node.outputs) == 1 or not node.outputs[1], "it has an index output")
    return _keeping_pool(node, x, _window(node, x, node.ints("kernel_shape", [])))


@rule("GlobalMaxPool")
def _global_max_pool(context: Context, node: FileNode, args: list[Value | None]) -> Value:
    x = _image(context, args[0])
    return _keeping_pool(node, x, Window(x.shape[2:]))


def _keeping_pool(node: FileNode, x: Activation, window: Window) -> Pending:
    return Pending(
        node.outputs[0],
        node.name,
        _windowed(window, x, x.shape[1]),
        None,
        (x.tensor,),
        lambda out, low, high: MaxPool2D(window, act_min=low, act_max=high),
        x.dtype,
        (x.tensor.scale, x.tensor.zero_point),
        copies=True,
    )


@rule("AveragePool")
def _average_pool(context: Context, node: FileNode, args: list[Value | None]) -> Value:
    x = _image(context, args[0])
    window = _window(node, x, node.ints("kernel_shape", []))
    padded = bool(node.attributes.get("count_include_pad")) and any(window.pad)
    ceiling = bool(node.attributes.get("ceil_mode"))
    require(not (padded and ceiling), "ceil_mode with count_include_pad is not supported")
    require(window.dilation == (1, 1), "a dilated average is not supported")
    return _mean(node, x, window, _windowed(window, x, x.shape[1]), padded)


@rule("GlobalAveragePool")
def _global_average_pool(context: Context, node: FileNode, args: list[Value | None]) -> Value:
    x = _image(context, args[0])
    return _mean(node, x, Window(x.shape[2:]), (1, x.shape[1], 1, 1))


@rule("ReduceMean")
def _reduce_mean(context: Context, node: FileNode, args: list[Value | None]) -> Value:
    x = _image(context, args[0])
    axes = context.constant(args, 1, "axes")
    axes = node.ints("axes", []) if axes is None else [int(a) for a in axes.ravel()]
    require({a % 4 for a in axes} == {2, 3}, "only a mean over H and W is supported")
    kept = bool(node.attributes.get("keepdims", 1))
    shape = (1, x.shape[1], 1, 1) if kept else (1, x.shape[1])
    return _mean(node, x, Window(x.shape[2:]), shape)


def _mean(
    node: FileNode, x: Activation, window: Window, shape: tuple[int, ...], padded: bool = False
) -> Pending:
    taps = math.prod(window.kernel)
    require(taps <= _MAX_POOL_TAPS, f"it averages {taps} elements, {_MAX_POOL_TAPS} at most")

    def make(out: Tensor, act_min: int, act_max: int) -> Op:
        factor = np.float64(x.tensor.scale) / np.float64(out.scale) / 256
        requant = fixed_point(factor)
        return AveragePool2D(window, requant, padded, act_min=act_min, act_max=act_max)

    return Pending(node.outputs[0], node.name, shape, None, (x.tensor,), make, x.dtype)


@rule("Add")
def _add(context: Context, node: FileNode, args: list[Value | None]) -> Value:
    for value, other in (args[:2], args[1::-1]):
        if isinstance(value, Pending) and value.rebias and isinstance(other, Constant):
            return value.rebias(other.array, node.outputs[0])
    constant = any(isinstance(arg, (Constant, QuantConstant)) for arg in args)
    require(
        not constant,
        "it adds a constant",
        "Run onnxruntime.quantization.shape_inference.quant_pre_process before quantising; it "
        "merges additions into the layer before.",
    )
    a, b = (context.activation(arg) for arg in args)
    broadcast = f"it broadcasts {list(a.shape)} and {list(b.shape)}"
    require(a.shape == b.shape, broadcast, "Use equal shapes.")
    require(same_order(a.order, b.order), "its inputs' elements lie in different orders", _SEPARATE)

    def make(out: Tensor, act_min: int, act_max: int) -> Op:
        return add_op(a.tensor.scale, b.tensor.scale, out.scale, act_min, act_max)

    inputs = (a.tensor, b.tensor)
    return Pending(node.outputs[0], node.name, a.shape, a.order, inputs, make, a.dtype)


@rule("Relu")
def _relu(context: Context, node: FileNode, args: list[Value | None]) -> Value:
    return _clamped(context, node, args[0], 0.0, np.inf)


@rule("Clip")
def _clip(context: Context, node: FileNode, args: list[Value | None]) -> Value:
    low, high = context.constant(args, 1, "minimum"), context.constant(args, 2, "maximum")
    low = node.attributes.get("min", -np.inf) if low is None else float(low.ravel()[0])
    high = node.attributes.get("max", np.inf) if high is None else float(high.ravel()[0])
    require(not isinstance(args[0], Activation), "it clips int8 values", KEEP_QUANTISATION)
    return _clamped(context, node, args[0], low, high)


def _clamped(
    context: Context, node: FileNode, value: Value | None, low: float, high: float
) -> Pending:
    name = node.outputs[0]
    require(value is not None, "its input is absent")
    require(not isinstance(value, FloatInput), "it reads a float input", KEEP_QUANTISATION)
    if not isinstance(value, Pending):
        return clamp(context.activation(value), name, node.name, low, high)
    # The new bounds are themselves held within the old ones: Relu after Clip(-2, -1) yields 0.
    bounds = np.clip([value.low, value.high], low, high)
    return replace(value, name=name, low=float(bounds[0]), high=float(bounds[1]), rebias=None)


@rule("Concat")
def _concat(context: Context, node: FileNode, args: list[Value | None]) -> Value:
    inputs = [context.activation(arg) for arg in args]
    first = inputs[0]
    rank = len(first.shape)
    axis = int(node.attributes["axis"])
    axis = axis + rank if axis < 0 else axis
    require(0 <= axis < rank, f"axis {axis} of {rank} dimensions")
    for x in inputs:
        others = len(x.shape) == rank and all(
            x.shape[i] == first.shape[i] for i in range(rank) if i != axis
        )
        require(others, f"it joins {list(first.shape)} and {list(x.shape)} along axis {axis}")
    shape = list(first.shape)
    shape[axis] = sum(x.shape[axis] for x in inputs)
    order = _joined_order(inputs, tuple(shape), axis)
    place = tensor_axis(axis, rank) if order is None else 2
    keeps = {(x.tensor.scale, x.tensor.zero_point) for x in inputs}

    def make(out: Tensor, act_min: int, act_max: int) -> Op:
        requants = tuple(
            None
            if (x.tensor.scale, x.tensor.zero_point) == (out.scale, out.zero_point)
            else rescale(x.tensor.scale, out.scale)
            for x in inputs
        )
        return Concat(place, requants, act_min=act_min, act_max=act_max)

    return Pending(
        node.outputs[0],
        node.name,
        tuple(shape),
        order,
        tuple(x.tensor for x in inputs),
        make,
        first.dtype,
        keeps.pop() if len(keeps) == 1 else None,
        clamps=False,
    )


def _joined_order(inputs: list[Activation], shape: tuple[int, ...], axis: int) -> Order:
    """The order of a concatenation. Vectors may come from flattened images, each in its order."""
    if all(x.order is None for x in inputs):
        return None
    vectors = axis == len(shape) - 1 and math.prod(shape) == shape[-1]
    flat = vectors and all(math.prod(x.tensor.shape) == x.tensor.shape[2] for x in inputs)
    require(flat, "its inputs' elements lie in another order in memory", _SEPARATE)
    starts = np.cumsum([0, *(x.shape[axis] for x in inputs[:-1])])
    parts = [explicit(x.shape, x.order) + start for x, start in zip(inputs, starts, strict=True)]
    return simplify(shape, np.concatenate(parts))


@rule("Softmax")
def _softmax(context: Context, node: FileNode, args: list[Value | None]) -> Value:
    require(args[0] is not None, "its input is absent")
    x = context.activation(args[0])
    opset = int(node.attributes.get("opset", context.model.opset))
    rank = len(x.shape)
    axis = int(node.attributes.get("axis", 1 if opset < 13 else -1)) % max(rank, 1)
    # Before opset 13 all axes from `axis` on count as one.
    spread = math.prod(x.shape[axis:]) if opset < 13 else x.shape[axis]
    channels = x.tensor.shape[2]
    whole = spread == math.prod(x.shape) == channels
    along = x.order is None and tensor_axis(axis, rank) == 2 and spread == channels
    require(whole or along, f"it does not work along the channels: axis {axis}", _SEPARATE)

    def make(out: Tensor, act_min: int, act_max: int) -> Op:
        fits = _MIN_SOFTMAX_SCALE <= out.scale <= 1
        require(fits, f"its output scale is {out.scale}", KEEP_QUANTISATION)
        # ONNX Runtime, contrib_ops/cpu/quantization/qlinear_softmax.cc, cuts 1 / scale to an
        # integer: 254 for the usual 1 / 255.
        gain = float(np.floor(np.float32(1) / np.float32(out.scale)))
        table = onnx_table(x.tensor.scale)
        return Softmax(table, "onnx", 1 / gain, act_min=act_min, act_max=act_max)

    return Pending(node.outputs[0], node.name, x.shape, x.order, (x.tensor,), make, x.dtype)


@rule("Pad")
def _pad(context: Context, node: FileNode, args: list[Value | None]) -> Value:
    require(args[0] is not None, "its input is absent")
    x = context.activation(args[0])
    require(x.order is None, "its input's elements lie in another order in memory", _SEPARATE)
    require(node.attributes.get("mode", b"constant") == b"constant", "its mode is not constant")
    rank = len(x.shape)
    pads = context.constant(args, 1, "amounts")
    pads = node.ints("pads", []) if pads is None else [int(p) for p in pads.ravel()]
    axes = context.constant(args, 3, "axes")
    axes = list(range(rank)) if axes is None else [int(a) % rank for a in axes.ravel()]
    require(len(pads) == 2 * len(axes) and min(pads) >= 0, f"its amounts are {pads}")
    amounts, shape = [(0, 0)] * 3, list(x.shape)
    for axis, before, after in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        if before or after:
            amounts[tensor_axis(axis, rank)] = (before, after)
            shape[axis] += before + after
    value = _pad_value(context, node, args, x)
    return Pending(
        node.outputs[0],
        node.name,
        tuple(shape),
        None,
        (x.tensor,),
        lambda out, low, high: Pad(tuple(amounts), value, act_min=low, act_max=high),
        x.dtype,
        (x.tensor.scale, x.tensor.zero_point),
        copies=True,
        clamps=False,
    )


def _pad_value(context: Context, node: FileNode, args: list[Value | None], x: Activation) -> int:
    value = context.constant(args, 2, "value")
    if isinstance(args[0], Activation):
        raw = 0 if value is None else int(value.ravel()[0])
        return raw - 128 if x.dtype == "uint8" else raw
    real = node.attributes.get("value", 0.0) if value is None else float(value.ravel()[0])
    # Clipped before it becomes an integer: an infinity pads with the extreme.
    q = np.rint(np.float32(real) / np.float32(x.tensor.scale)) + np.float32(x.tensor.zero_point)
    return int(np.clip(q, INT8_MIN, INT8_MAX))
