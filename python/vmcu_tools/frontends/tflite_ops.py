# SPDX-License-Identifier: Apache-2.0
"""One import rule per TensorFlow Lite operator. To add an operator, add a function here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tflite

from ..graph import (
    AveragePool2D,
    Concat,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    MaxPool2D,
    Op,
    Pad,
    Requantize,
    Reshape,
    Shape,
    Softmax,
    Tensor,
    Window,
)
from ..quant import FixedPoint
from .common import (
    KEEP_QUANTISATION,
    GraphBuilder,
    check_weight_scales,
    clamp_range,
    double_scale,
    fixed_point,
    hwc_axis,
    require,
    rescale,
    same_padding,
)
from .movement import move
from .softmax import tflite_table
from .tflite_file import FileModel, FileOp, FileTensor

_ACTIVATIONS = {
    tflite.ActivationFunctionType.NONE: (-np.inf, np.inf),
    tflite.ActivationFunctionType.RELU: (0.0, np.inf),
    tflite.ActivationFunctionType.RELU_N1_TO_1: (-1.0, 1.0),
    tflite.ActivationFunctionType.RELU6: (0.0, 6.0),
}


AT_THE_END = "Let the model end with it."


@dataclass
class Importer:
    """What a rule works with: the file, the graph under construction, and tensor access."""

    model: FileModel
    builder: GraphBuilder
    activation: Callable[[int], Tensor]
    # Float graph outputs and the int8 tensors that they are dequantised from.
    dequantised: dict[int, int] = field(default_factory=dict)
    # Graph outputs that are int32 in the file, and the tensors that hold their bytes.
    indices: dict[int, Tensor] = field(default_factory=dict)

    def constant(self, op: FileOp, place: int, kinds: tuple[str, ...], what: str) -> FileTensor:
        """Input `place` of `op`, which must be a constant of one of the given types."""
        require(place < len(op.inputs) and op.inputs[place] >= 0, f"its {what} are absent")
        tensor = self.model.tensors[op.inputs[place]]
        require(
            tensor.type in kinds,
            f"its {what} are {tensor.type.lower()}, not {' or '.join(kinds).lower()}",
            KEEP_QUANTISATION,
        )
        require(
            tensor.data is not None,
            f"its {what} are not constant (or sparse)",
            "Freeze the model so that they are stored in the file.",
        )
        return tensor

    def emit(
        self, op: FileOp, kind: Op, inputs: list[Tensor], shape: Shape, output: int = 0
    ) -> None:
        """Adds the node, after checking the file's output shape against the computed one."""
        out = self.activation(op.outputs[output])
        require(out.shape == shape, f"its output is {out.shape} in the file but computes {shape}")
        self.builder.add_node(out.name, kind, [t.name for t in inputs], out.name)

    def emit_as(self, op: FileOp, kind: Op, inputs: list[Tensor], shape: Shape) -> None:
        """Adds the node, whose result may have another shape of as many bytes than the file's
        output: then a Reshape follows."""
        out = self.activation(op.outputs[0])
        if out.shape == shape or out.bytes != shape[0] * shape[1] * shape[2]:
            self.emit(op, kind, inputs, shape)
            return
        name = f"{out.name}/{op.op.lower()}"
        inner = self.builder.add_tensor(Tensor(name, shape, out.scale, out.zero_point))
        self.builder.add_node(name, kind, [t.name for t in inputs], name)
        self.emit(op, Reshape(), [inner], out.shape)

    def emit_indices(self, op: FileOp, kind: Op, x: Tensor, shape: Shape) -> None:
        """Adds a node whose result is int32, which only the caller of the model can read."""
        index = op.outputs[0]
        require(index in self.model.outputs, "its result is used inside the model", AT_THE_END)
        name = self.model.tensors[index].name
        require(self.model.tensors[index].type == "INT32", "its result is not int32", AT_THE_END)
        out = self.builder.add_tensor(Tensor(name, shape, 1.0, 0))
        self.builder.add_node(name, kind, [x.name], name)
        self.indices[index] = out

    def shape(self, index: int) -> tuple[int, ...]:
        """A tensor's shape in the file."""
        return self.model.tensors[index].shape

    def is_constant(self, index: int) -> bool:
        return self.model.tensors[index].data is not None

    def integers(self, op: FileOp, place: int, what: str) -> list[int]:
        """Input `place` of `op` as numbers."""
        data = self.constant(op, place, ("INT32", "INT64"), what).data
        return [int(v) for v in data.ravel()]

    def arranged(self, x: Tensor, index: np.ndarray, shape: Shape, name: str) -> Tensor:
        """`x` with its bytes in another order and under another shape, as a tensor of its own.
        index: the source of each byte, of as many elements as `shape` has."""
        self.builder.spend(index.size)
        kind = move(index.reshape(shape), x.bytes)
        if isinstance(kind, Reshape) and x.shape == shape:
            return x
        result = self.builder.add_tensor(Tensor(name, shape, x.scale, x.zero_point))
        self.builder.add_node(name, kind, [x.name], name)
        return result


Rule = Callable[[Importer, FileOp], None]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers an import rule under the operators' schema names."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def limits_of(activation: int, out: Tensor) -> dict[str, int]:
    """act_min and act_max of a fused activation."""
    require(activation in _ACTIVATIONS, f"fused activation {activation} is not supported")
    low, high = clamp_range(*_ACTIVATIONS[activation], out.scale, out.zero_point)
    return {"act_min": low, "act_max": high}


def _window(options: Any, kernel: tuple[int, int], dilation: tuple[int, int], x: Tensor) -> Window:
    stride = (options.StrideH(), options.StrideW())
    require(min(*kernel, *stride, *dilation) >= 1, f"bad {kernel=}, {stride=} or {dilation=}")
    if options.Padding() == tflite.Padding.SAME:
        top, bottom = same_padding(x.shape[0], kernel[0], stride[0], dilation[0])
        left, right = same_padding(x.shape[1], kernel[1], stride[1], dilation[1])
        return Window(kernel, stride, dilation, (top, left, bottom, right))
    return Window(kernel, stride, dilation)


def windowed(window: Window, x: Tensor, channels: int) -> Shape:
    return window.out_size(0, x.shape[0]), window.out_size(1, x.shape[1]), channels


def image_of(importer: Importer, index: int) -> Tensor:
    """An activation of four dimensions in the file."""
    tensor = importer.activation(index)
    rank = len(importer.model.tensors[index].shape)
    require(rank == 4, f"its input has {rank} dimensions instead of four")
    return tensor


def weights_of(importer: Importer, op: FileOp, rank: int, axis: int) -> FileTensor:
    """Symmetric int8 weights with `rank` dimensions, per tensor or per channel along `axis`."""
    weights = importer.constant(op, 1, ("INT8",), "weights")
    shape = weights.shape
    require(len(shape) == rank and min(shape) > 0, f"its weights have the shape {list(shape)}")
    require(
        len(weights.scales) in (1, shape[axis]),
        f"its weights have {len(weights.scales)} scales for {shape[axis]} channels",
    )
    require(
        len(weights.scales) == 1 or weights.axis == axis,
        f"its weights are quantised along axis {weights.axis} instead of {axis}",
    )
    require(not weights.zero_points.any(), "its weights have a zero point", KEEP_QUANTISATION)
    check_weight_scales(weights.scales)
    return weights


def bias_of(importer: Importer, op: FileOp, channels: int, place: int = 2) -> np.ndarray:
    """int32 (channels,) biases, zero if absent."""
    if len(op.inputs) <= place or op.inputs[place] < 0:
        return np.zeros(channels, np.int32)
    data = importer.constant(op, place, ("INT32",), "biases").data
    require(data.size == channels, f"it has {data.size} biases for {channels} channels")
    return data.reshape(channels)


@rule("CONV_2D")
def _conv(importer: Importer, op: FileOp) -> None:
    options = op.options(tflite.Conv2DOptions)
    x, out = image_of(importer, op.inputs[0]), importer.activation(op.outputs[0])
    weights = weights_of(importer, op, 4, 0)
    channels, kh, kw, depth = weights.shape
    require(x.shape[2] % depth == 0, f"{x.shape[2]} input channels for weights of depth {depth}")
    groups = x.shape[2] // depth
    require(channels % groups == 0, f"{channels} output channels in {groups} groups")
    dilation = (options.DilationHFactor(), options.DilationWFactor())
    window = _window(options, (kh, kw), dilation, x)
    scales = np.broadcast_to(weights.scales, channels)
    kind = Conv2D(
        weights=weights.data,
        bias=bias_of(importer, op, channels),
        window=window,
        requant=double_scale(x.scale, scales, out.scale),
        groups=groups,
        **limits_of(options.FusedActivationFunction(), out),
    )
    importer.emit(op, kind, [x], windowed(window, x, channels))


@rule("DEPTHWISE_CONV_2D")
def _depthwise(importer: Importer, op: FileOp) -> None:
    options = op.options(tflite.DepthwiseConv2DOptions)
    x, out = image_of(importer, op.inputs[0]), importer.activation(op.outputs[0])
    weights = weights_of(importer, op, 4, 3)
    one, kh, kw, channels = weights.shape
    require(one == 1, f"its weights have the shape {list(weights.shape)}")
    multiplier, rest = divmod(channels, x.shape[2])
    require(rest == 0, f"{channels} output channels from {x.shape[2]} input channels")
    dilation = (options.DilationHFactor(), options.DilationWFactor())
    window = _window(options, (kh, kw), dilation, x)
    scales = np.broadcast_to(weights.scales, channels)
    kind = DepthwiseConv2D(
        weights=weights.data.reshape(kh, kw, channels),
        bias=bias_of(importer, op, channels),
        window=window,
        requant=double_scale(x.scale, scales, out.scale),
        multiplier=multiplier,
        **limits_of(options.FusedActivationFunction(), out),
    )
    importer.emit(op, kind, [x], windowed(window, x, channels))


def _dense_scale(x: Tensor, weights: FileTensor, out: Tensor) -> FixedPoint:
    """TensorFlow Lite, micro/kernels/fully_connected_common.cc: per channel in double; per tensor
    the product of input and weight scale is a float32."""
    count = weights.shape[0]
    if len(weights.scales) > 1:
        return double_scale(x.scale, weights.scales, out.scale)
    product = float(np.float32(x.scale) * weights.scales[0])
    return fixed_point(np.full(count, product / out.scale))


@rule("FULLY_CONNECTED")
def _fully_connected(importer: Importer, op: FileOp) -> None:
    options = op.options(tflite.FullyConnectedOptions)
    require(options.WeightsFormat() == 0, "its weights are in a shuffled format")
    x, out = importer.activation(op.inputs[0]), importer.activation(op.outputs[0])
    weights = weights_of(importer, op, 2, 0)
    count, depth = weights.shape
    common = {
        "bias": bias_of(importer, op, count),
        "requant": _dense_scale(x, weights, out),
        **limits_of(options.FusedActivationFunction(), out),
    }
    if depth == x.shape[2]:
        kind = FullyConnected(weights=weights.data, **common)
        importer.emit(op, kind, [x], (x.shape[0], x.shape[1], count))
        return
    # The operator flattens its input; a kernel of the whole image reads the same bytes.
    require(depth == x.bytes, f"{x.bytes} inputs for weights of depth {depth}")
    kernel = weights.data.reshape(count, *x.shape)
    kind = Conv2D(weights=kernel, window=Window((x.shape[0], x.shape[1])), **common)
    importer.emit(op, kind, [x], (1, 1, count))


def _pool(importer: Importer, op: FileOp) -> tuple[Tensor, Window, dict[str, int]]:
    options = op.options(tflite.Pool2DOptions)
    x, out = image_of(importer, op.inputs[0]), importer.activation(op.outputs[0])
    # The tolerance is TensorFlow Lite Micro's own, micro/kernels/pooling_common.cc.
    require(
        abs(x.scale - out.scale) <= 1e-6 and x.zero_point == out.zero_point,
        "its input and output have different scales or zero points",
        KEEP_QUANTISATION,
    )
    window = _window(options, (options.FilterHeight(), options.FilterWidth()), (1, 1), x)
    return x, window, limits_of(options.FusedActivationFunction(), out)


@rule("AVERAGE_POOL_2D")
def _average_pool(importer: Importer, op: FileOp) -> None:
    x, window, limits = _pool(importer, op)
    importer.emit(op, AveragePool2D(window, **limits), [x], windowed(window, x, x.shape[2]))


@rule("MAX_POOL_2D")
def _max_pool(importer: Importer, op: FileOp) -> None:
    x, window, limits = _pool(importer, op)
    importer.emit(op, MaxPool2D(window, **limits), [x], windowed(window, x, x.shape[2]))


@rule("PAD", "PADV2")
def _pad(importer: Importer, op: FileOp) -> None:
    x, out = importer.activation(op.inputs[0]), importer.activation(op.outputs[0])
    rank = len(importer.model.tensors[op.inputs[0]].shape)
    pairs = importer.constant(op, 1, ("INT32", "INT64"), "padding amounts").data
    require(pairs.size == 2 * rank, f"{pairs.size} padding amounts for {rank} dimensions")
    require(bool((pairs >= 0).all()), "it has negative padding amounts")
    amounts = [(0, 0)] * 3
    for axis, (before, after) in enumerate(pairs.reshape(rank, 2).tolist()):
        if before or after:
            amounts[hwc_axis(axis, rank)] = (before, after)
    value = out.zero_point
    if len(op.inputs) > 2 and op.inputs[2] >= 0:
        value = int(importer.constant(op, 2, ("INT8",), "padding values").data.ravel()[0])
    shape = tuple(s + b + a for s, (b, a) in zip(x.shape, amounts, strict=True))
    importer.emit(op, Pad(tuple(amounts), value), [x], shape)


@rule("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
def _reshape(importer: Importer, op: FileOp) -> None:
    x, out = importer.activation(op.inputs[0]), importer.activation(op.outputs[0])
    require(x.bytes == out.bytes, f"it turns {x.bytes} elements into {out.bytes}")
    importer.emit(op, Reshape(), [x], out.shape)


@rule("SOFTMAX")
def _softmax(importer: Importer, op: FileOp) -> None:
    options = op.options(tflite.SoftmaxOptions)
    x, out = importer.activation(op.inputs[0]), importer.activation(op.outputs[0])
    require(
        out.scale == 1.0 / 256 and out.zero_point == -128,
        "its output is not quantised with scale 1/256 and zero point -128",
        KEEP_QUANTISATION,
    )
    step = options.Beta() * x.scale
    require(step * (1 << 26) > 1, f"beta times input scale is {step}")
    importer.emit(op, Softmax(tflite_table(x.scale, options.Beta()), "tflite"), [x], x.shape)


@rule("RELU", "RELU_N1_TO_1")
def _relu(importer: Importer, op: FileOp) -> None:
    """TensorFlow Lite, micro/kernels/activations_common.cc: the scale ratio is a float32."""
    x, out = importer.activation(op.inputs[0]), importer.activation(op.outputs[0])
    ratio = float(np.float32(x.scale) / np.float32(out.scale))
    kind = getattr(tflite.ActivationFunctionType, op.op)
    same = x.scale == out.scale and x.zero_point == out.zero_point
    requant = None if same else fixed_point(np.float64(ratio))
    importer.emit(op, Requantize(requant, **limits_of(kind, out)), [x], x.shape)


@rule("RELU6")
def _relu6(importer: Importer, op: FileOp) -> None:
    x, out = importer.activation(op.inputs[0]), importer.activation(op.outputs[0])
    # TensorFlow Lite Micro ignores the output's quantisation here and LiteRT does not.
    require(
        x.scale == out.scale and x.zero_point == out.zero_point,
        "its input and output have different scales or zero points",
        KEEP_QUANTISATION,
    )
    limits = limits_of(tflite.ActivationFunctionType.RELU6, out)
    importer.emit(op, Requantize(None, **limits), [x], x.shape)


@rule("CONCATENATION")
def _concat(importer: Importer, op: FileOp) -> None:
    options = op.options(tflite.ConcatenationOptions)
    out = importer.activation(op.outputs[0])
    inputs = [importer.activation(i) for i in op.inputs]
    require(len(inputs) > 0, "it has no inputs")
    require(options.FusedActivationFunction() == 0, "it has a fused activation")
    for x in inputs:
        # TensorFlow Lite Micro, micro/kernels/concatenation.cc, refuses to rescale int8.
        require(
            x.scale == out.scale and x.zero_point == out.zero_point,
            f"input '{x.name}' and its output have different scales or zero points",
            KEEP_QUANTISATION,
        )
    axis = hwc_axis(options.Axis(), len(importer.model.tensors[op.outputs[0]].shape))
    shape = list(inputs[0].shape)
    shape[axis] = sum(x.shape[axis] for x in inputs)
    for x in inputs:
        same = [a == b for i, (a, b) in enumerate(zip(x.shape, shape, strict=True)) if i != axis]
        require(all(same), f"it joins {inputs[0].shape} and {x.shape} along axis {axis}")
    kind = Concat(axis, (None,) * len(inputs))
    importer.emit(op, kind, inputs, (shape[0], shape[1], shape[2]))


@rule("QUANTIZE")
def _quantize(importer: Importer, op: FileOp) -> None:
    x, out = importer.activation(op.inputs[0]), importer.activation(op.outputs[0])
    importer.emit(op, Requantize(rescale(x.scale, out.scale)), [x], x.shape)


@rule("DEQUANTIZE")
def _dequantize(importer: Importer, op: FileOp) -> None:
    importer.activation(op.inputs[0])
    require(
        op.outputs[0] in importer.model.outputs,
        "it turns int8 into float in the middle of the model",
        KEEP_QUANTISATION,
    )
    importer.dequantised[op.outputs[0]] = op.inputs[0]
