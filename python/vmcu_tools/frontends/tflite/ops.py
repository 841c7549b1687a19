# SPDX-License-Identifier: Apache-2.0
"""One import rule per TensorFlow Lite operator. To add an operator, add a function here."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import tflite

from ...graph import Op, Shape, Tensor, Window
from ...ops.conv2d import Conv2D
from ...ops.depthwise import DepthwiseConv2D
from ...ops.fully_connected import FullyConnected
from ...ops.pad import Pad
from ...ops.reshape import Reshape
from ...quant import FixedPoint
from ..common import (
    KEEP_QUANTISATION,
    GraphBuilder,
    Rules,
    check_scale,
    check_weight_scales,
    check_window,
    clamp_range,
    double_scale,
    require,
    same_padding,
)
from ..movement import file_index, rearranged
from .file import FileModel, FileOp, FileTensor
from .shapes import image_shape, place_of, require_image

ACTIVATIONS = {
    tflite.ActivationFunctionType.NONE: (-np.inf, np.inf),
    tflite.ActivationFunctionType.RELU: (0.0, np.inf),
    tflite.ActivationFunctionType.RELU_N1_TO_1: (-1.0, 1.0),
    tflite.ActivationFunctionType.RELU6: (0.0, 6.0),
}


SEVERAL_OUTPUTS = ("SPLIT", "SPLIT_V", "UNPACK")
FOLD_CONSTANT = "fold the constant into the layer before it"
_FIXED_BATCH = "convert with a fixed batch, so that the converter computes with constants"
AT_THE_END = "let the model end with it"


@dataclass(frozen=True, eq=False)
class Derived:
    """A float or Boolean tensor that is a function of single elements of an int8 one: float32 or
    bool (256,) `values` for q = -128 .. 127 of `source`. `plain`: nothing but its real values."""

    source: Tensor
    values: np.ndarray
    plain: bool = False


class Activations(Protocol):
    """The graph's tensors by the file's tensor index; each problem with one is raised once."""

    def __call__(self, index: int) -> Tensor: ...

    def pass_over(self, outputs: tuple[int, ...]) -> None: ...


@dataclass
class Importer:
    """The state of an import for rules: the file, the graph under construction, and tensor
    access."""

    model: FileModel
    builder: GraphBuilder
    activation: Activations
    # Tensors that are not int8, and the values that they are computed from.
    derived: dict[int, Derived] = field(default_factory=dict)
    # By name of its output, the table of a node, or that it has none.
    tables: dict[str, np.ndarray | None] = field(default_factory=dict)
    # Operators that the rule of another one has taken along.
    done: set[FileOp] = field(default_factory=set)
    # Tensors of int16, int32 or int64 elements, and those of the graph that hold their bytes.
    wide: dict[int, Tensor] = field(default_factory=dict)
    # Graph inputs that are numbers of a table's rows, see embedding.py.
    numbers: dict[int, Tensor] = field(default_factory=dict)

    def constant(self, op: FileOp, place: int, kinds: tuple[str, ...], what: str) -> FileTensor:
        """Input `place` of `op`, which must be a constant of one of the given types."""
        require(place < len(op.inputs) and op.inputs[place] >= 0, f"the {what} are missing")
        tensor = self.model.tensors[op.inputs[place]]
        require(
            tensor.type in kinds,
            f"the {what} are {tensor.type.lower()}, not {' or '.join(kinds).lower()}",
            KEEP_QUANTISATION,
        )
        require(
            tensor.data is not None,
            f"the {what} are not constant (or sparse)",
            "freeze the model so that they are stored in the file",
        )
        return tensor

    def emit(
        self, op: FileOp, kind: Op, inputs: list[Tensor], shape: Shape, output: int = 0
    ) -> None:
        """Adds the node, after checking the file's output shape against the computed one."""
        out = self.activation(op.outputs[output])
        require(out.shape == shape, f"the output is {out.shape} in the file but computes {shape}")
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
        """Adds a node whose result, int32 or int64, only the caller of the model can read."""
        index = op.outputs[0]
        require(index in self.model.outputs, "the result is used inside the model", AT_THE_END)
        name = self.model.tensors[index].name
        whole = self.model.tensors[index].type in ("INT32", "INT64")
        require(whole, "the result is neither int32 nor int64", AT_THE_END)
        out = self.builder.add_tensor(Tensor(name, shape, 1.0, 0))
        self.builder.add_node(name, kind, [x.name], name)
        self.wide[index] = out

    def shape(self, index: int) -> tuple[int, ...]:
        """A tensor's shape in the file."""
        return self.model.tensors[index].shape

    def is_constant(self, index: int) -> bool:
        return self.model.tensors[index].data is not None

    def integers(self, op: FileOp, place: int, what: str) -> list[int]:
        """Input `place` of `op` as numbers."""
        data = self.constant(op, place, ("INT32", "INT64"), what).values
        return [int(v) for v in data.ravel()]

    def arranged(self, x: Tensor, index: np.ndarray, shape: Shape, name: str) -> Tensor:
        """`x` with its bytes in another order and under another shape, as a tensor of its own.
        index: the source of each byte, of as many elements as `shape` has."""
        source, kind = rearranged(self.builder, x, index.reshape(shape))
        if source is x and isinstance(kind, Reshape) and x.shape == shape:
            return x
        result = self.builder.add_tensor(Tensor(name, shape, x.scale, x.zero_point))
        self.builder.add_node(name, kind, [source.name], name)
        return result

    def move_derived(
        self, op: FileOp, derived: Derived, index: np.ndarray, output: int = 0
    ) -> None:
        """An output of the file's operator that has the elements at these places of a tensor
        computed from an int8 one: the tensor's own move."""
        tensor = self.model.tensors[op.outputs[output]]
        shape = image_shape(tensor.shape)
        fits = index.size == math.prod(shape)
        require(fits, f"the output is {shape} in the file but computes {list(index.shape)}")
        source = self.arranged(derived.source, index, shape, f"{tensor.name}/int8")
        self.derived[op.outputs[output]] = replace(derived, source=source)


Rule = Callable[[Importer, FileOp], None]
RULES: Rules[Rule] = Rules()
rule, CONSTRAINTS = RULES.rule, RULES.constraints


def limits_of(activation: int, out: Tensor) -> dict[str, int]:
    """act_min and act_max of a fused activation."""
    require(activation in ACTIVATIONS, f"fused activation {activation} is not supported")
    low, high = clamp_range(*ACTIVATIONS[activation], out.scale, out.zero_point)
    return {"act_min": low, "act_max": high}


def layer_window(
    options: Any, kernel: tuple[int, int], dilation: tuple[int, int], x: Tensor
) -> Window:
    stride = (options.StrideH(), options.StrideW())
    require(min(*kernel, *stride, *dilation) >= 1, f"invalid {kernel=}, {stride=} or {dilation=}")
    if options.Padding() == tflite.Padding.SAME:
        top, bottom = same_padding(x.shape[0], kernel[0], stride[0], dilation[0])
        left, right = same_padding(x.shape[1], kernel[1], stride[1], dilation[1])
        window = Window(kernel, stride, dilation, (top, left, bottom, right))
    else:
        window = Window(kernel, stride, dilation)
    return check_window(window, x.shape, x.shape[2])


def windowed(window: Window, x: Tensor, channels: int) -> Shape:
    return window.out_size(0, x.shape[0]), window.out_size(1, x.shape[1]), channels


def image_of(importer: Importer, index: int) -> Tensor:
    """An activation of four dimensions in the file."""
    tensor = importer.activation(index)
    require_image(importer.shape(index))
    return tensor


def quantisation_of(tensor: FileTensor) -> tuple[float, int]:
    """Scale and zero point of an activation."""
    what, count = f"tensor '{tensor.name}'", len(tensor.scales)
    require(not tensor.dynamic, f"{what} has a dynamic shape", "fix all sizes before converting")
    constant = f"{what} is a constant where an activation is needed"
    require(tensor.data is None, constant, _FIXED_BATCH)
    one = count == len(tensor.zero_points) == 1
    require(one, f"{what} has {count} scales instead of one", KEEP_QUANTISATION)
    check_scale(float(tensor.scales[0]), what)
    return float(tensor.scales[0]), int(tensor.zero_points[0])


# Bits of a weight by its type in the file.
WEIGHT_BITS = {"INT8": 8, "INT4": 4}


def weights_of(
    importer: Importer, op: FileOp, rank: int, axis: int, kinds: tuple[str, ...] = ("INT8",)
) -> FileTensor:
    """Symmetric weights with `rank` dimensions, per tensor or per channel along `axis`, of one of
    some types."""
    weights = importer.constant(op, 1, kinds, "weights")
    shape = weights.shape
    require(len(shape) == rank and min(shape) > 0, f"the weights have the shape {list(shape)}")
    require(
        len(weights.scales) in (1, shape[axis]),
        f"the weights have {len(weights.scales)} scales for {shape[axis]} channels",
    )
    require(
        len(weights.scales) == 1 or weights.axis == axis,
        f"the weights are quantised along axis {weights.axis} instead of {axis}",
    )
    require(not weights.zero_points.any(), "the weights have a zero point", KEEP_QUANTISATION)
    check_weight_scales(weights.scales)
    return weights


def bias_of(importer: Importer, op: FileOp, channels: int, place: int = 2) -> np.ndarray:
    """int32 (channels,) biases, zero if absent."""
    if len(op.inputs) <= place or op.inputs[place] < 0:
        return np.zeros(channels, np.int32)
    data = importer.constant(op, place, ("INT32",), "biases").values
    require(data.size == channels, f"{data.size} biases for {channels} channels")
    return data.reshape(channels)


WindowOf = Callable[[tuple[int, int]], Window]


def convolution_of(
    importer: Importer, op: FileOp, x: Tensor, out: Tensor, window: WindowOf
) -> Conv2D | DepthwiseConv2D:
    """The op of a CONV_2D or DEPTHWISE_CONV_2D, whose window `window` makes of its kernel."""
    channels_first = op.op == "CONV_2D"
    axis = 0 if channels_first else 3
    weights = weights_of(importer, op, 4, axis, tuple(WEIGHT_BITS))
    first, kh, kw, depth = weights.shape
    channels = weights.shape[axis]
    groups, multiplier = x.shape[2] // depth, channels // x.shape[2]
    if channels_first:
        fits = groups * depth == x.shape[2]
        require(fits, f"{x.shape[2]} input channels for weights of depth {depth}")
        require(channels % groups == 0, f"{channels} output channels in {groups} groups")
    else:
        require(first == 1, f"the weights have the shape {list(weights.shape)}")
        fits = multiplier * x.shape[2] == channels
        require(fits, f"{channels} output channels from {x.shape[2]} input channels")
    options, scales = op.options(CONVOLUTIONS[op.op]), np.broadcast_to(weights.scales, channels)
    common: dict[str, Any] = {
        "bias": bias_of(importer, op, channels),
        "window": window((kh, kw)),
        "requant": double_scale(x.scale, scales, out.scale),
        "weight_bits": WEIGHT_BITS[weights.type],
        **limits_of(options.FusedActivationFunction(), out),
    }
    if channels_first:
        return Conv2D(weights=weights.values, groups=groups, **common)
    kernel = weights.values.reshape(kh, kw, channels)
    return DepthwiseConv2D(weights=kernel, multiplier=multiplier, **common)


WEIGHTS = "constant int8 weights with zero point 0, per tensor or per output channel"
INT4 = WEIGHTS.replace("int8", "int8 or int4")
SAME_SCALE = "same scale and zero point for input and output"

CONVOLUTIONS = {
    "CONV_2D": tflite.Conv2DOptions,
    "DEPTHWISE_CONV_2D": tflite.DepthwiseConv2DOptions,
}


@rule(*CONVOLUTIONS, constraints=f"4-D, batch 1; {INT4}")
def _convolution(importer: Importer, op: FileOp) -> None:
    options = op.options(CONVOLUTIONS[op.op])
    x, out = image_of(importer, op.inputs[0]), importer.activation(op.outputs[0])
    dilation = (options.DilationHFactor(), options.DilationWFactor())
    kind = convolution_of(
        importer, op, x, out, lambda kernel: layer_window(options, kernel, dilation, x)
    )
    importer.emit(op, kind, [x], windowed(kind.window, x, kind.bias.size))


def dense_scale(x: Tensor, weights: FileTensor, count: int, out: Tensor) -> FixedPoint:
    """TensorFlow Lite Micro, micro/kernels/fully_connected_common.cc and batch_matmul_common.cc."""
    return double_scale(x.scale, np.broadcast_to(weights.scales, count), out.scale)


@rule("FULLY_CONNECTED", constraints=f"{INT4}; no shuffled weights")
def _fully_connected(importer: Importer, op: FileOp) -> None:
    options = op.options(tflite.FullyConnectedOptions)
    require(options.WeightsFormat() == 0, "the weights are in a shuffled format")
    x, out = importer.activation(op.inputs[0]), importer.activation(op.outputs[0])
    weights = weights_of(importer, op, 2, 0, tuple(WEIGHT_BITS))
    count, depth = weights.shape
    common: dict[str, Any] = {
        "bias": bias_of(importer, op, count),
        "requant": dense_scale(x, weights, count, out),
        "weight_bits": WEIGHT_BITS[weights.type],
        **limits_of(options.FusedActivationFunction(), out),
    }
    if depth == x.shape[2]:
        dense = FullyConnected(weights=weights.values, **common)
        importer.emit(op, dense, [x], (x.shape[0], x.shape[1], count))
        return
    # The operator flattens its input; a kernel of the whole image reads the same bytes.
    require(depth == x.bytes, f"{x.bytes} inputs for weights of depth {depth}")
    kernel = weights.values.reshape(count, *x.shape)
    kind = Conv2D(weights=kernel, window=Window((x.shape[0], x.shape[1])), **common)
    importer.emit(op, kind, [x], (1, 1, count))


@rule("PAD", "PADV2", constraints="constant amounts, none negative; the batch axis only alone")
def _pad(importer: Importer, op: FileOp) -> None:
    x, out = importer.activation(op.inputs[0]), importer.activation(op.outputs[0])
    pairs = importer.constant(op, 1, ("INT32", "INT64"), "padding amounts").values
    value = out.zero_point
    if len(op.inputs) > 2 and op.inputs[2] >= 0:
        value = int(importer.constant(op, 2, ("INT8",), "padding values").values.ravel()[0])
    emit_padded(importer, op, x, pairs, value)


def emit_padded(importer: Importer, op: FileOp, x: Tensor, pairs: np.ndarray, value: int) -> None:
    """`x`, the first input, with (before, after) constant elements along each axis."""
    shape = importer.shape(op.inputs[0])
    require(
        pairs.size == 2 * len(shape), f"{pairs.size} padding amounts for {len(shape)} dimensions"
    )
    require(bool((pairs >= 0).all()), "negative padding is not supported")
    by_axis = pairs.reshape(-1, 2).tolist()
    padded = [axis for axis, pair in enumerate(by_axis) if any(pair)]
    places = [place_of(axis, shape) for axis in padded]
    view, amounts = x.shape, [(0, 0)] * 3
    if len(padded) == 1 and places[0] is None:
        axis = padded[0]
        view = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
        places = [1]
    for axis, place in zip(padded, places, strict=True):
        fits = f"cannot pad the axes {padded} of {list(shape)}"
        require(place is not None, fits, "pad one at a time")
        assert place is not None
        before, after = by_axis[axis]
        amounts[place] = before, after
    name = f"{importer.model.tensors[op.outputs[0]].name}/{op.op.lower()}"
    x = importer.arranged(x, file_index(x.shape), view, f"{name}/in")
    sizes = [d + sum(pair) for d, pair in zip(view, amounts, strict=True)]
    kind = Pad((amounts[0], amounts[1], amounts[2]), value)
    importer.emit_as(op, kind, [x], (sizes[0], sizes[1], sizes[2]))


@rule("RESHAPE", "SQUEEZE", "EXPAND_DIMS", constraints="fixed output shape")
def _reshape(importer: Importer, op: FileOp) -> None:
    x, out = importer.activation(op.inputs[0]), importer.activation(op.outputs[0])
    require(x.bytes == out.bytes, f"cannot reshape {x.bytes} elements to {out.bytes}")
    importer.emit(op, Reshape(), [x], out.shape)
