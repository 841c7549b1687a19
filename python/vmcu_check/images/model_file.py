# SPDX-License-Identifier: Apache-2.0
"""The nodes of a model file whose constants are compared with those of an image, read with the
packages of the formats alone."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tflite
from onnx import numpy_helper
from tflite import ActivationFunctionType, TensorType

from .elf import ImageError
from .scaling import INT8_MAX, INT8_MIN
from .tables import POINT, Axes

# Real bounds of an output.
Bounds = tuple[float, float]
UNBOUNDED: Bounds = (-math.inf, math.inf)
NO_WEIGHTS = np.zeros((0, 0), np.int64)


@dataclass(frozen=True)
class FileTensor:
    """A quantised tensor. values: int64, None for an activation; scale, zero: by channel, or one.
    Values and zeros of uint8 are those of int8."""

    values: np.ndarray | None
    scale: np.ndarray
    zero: np.ndarray
    is_unsigned: bool

    @classmethod
    def of(
        cls, values: np.ndarray | None, scale: np.ndarray, zero: np.ndarray, is_unsigned: bool
    ) -> FileTensor:
        """Returns a tensor of uint8 or int8 as int8."""
        shift = 128 * is_unsigned
        values = None if values is None else values.astype(np.int64) - shift
        zero = np.atleast_1d(zero).astype(np.int64) - shift
        return cls(values, np.atleast_1d(scale), zero, is_unsigned)


@dataclass(frozen=True)
class FileNode:
    """A node of the file. kind: "sum", "mean", "max", "softmax", "lstm", or of a layer with weights
    "conv", "depthwise" or "dense".

    scales, zeros: of its inputs and its output, zeros as int8; of softmax, the first scale times
    beta. is_float: factors are float32, as in .onnx; is_unsigned: its bytes are uint8 in the file.

    Of a layer with weights, scales are factors of sums, by channel: float64, or float32 of .onnx.
    weights: int64 (channels, taps), taps by row, column and input channel of the window; bias:
    int64 (channels,), in units of input scale times weight scale, without the input's zero point.
    bounds: of the output, as int8; None where nodes behind it may narrow them.
    """

    kind: str
    name: str
    scales: np.ndarray
    zeros: tuple[int, ...]
    is_float: bool
    is_unsigned: bool
    axes: Axes
    weights: np.ndarray
    bias: np.ndarray
    bounds: tuple[int, ...] | None

    @classmethod
    def of(
        cls, kind: str, name: str, ends: Sequence[FileTensor], axes: Axes, bounds: Bounds | None
    ) -> FileNode:
        """Returns a node without weights. Scales of float32 are those of .onnx."""
        scales, limits = np.array([end.scale[0] for end in ends]), None
        zeros = tuple(int(end.zero[0]) for end in ends)
        if bounds is not None:
            real = np.rint(np.array(bounds) / float(scales[-1])) + zeros[-1]
            limits = tuple(np.clip(real, INT8_MIN, INT8_MAX).astype(int).tolist())
        flags = scales.dtype == np.float32, ends[0].is_unsigned
        return cls(kind, name, scales, zeros, *flags, axes, NO_WEIGHTS, NO_WEIGHTS, limits)

    def with_weights(self, weights: FileTensor, bias: np.ndarray | None) -> FileNode:
        """Returns a node with one input with its weights (channels, ...)."""
        assert weights.values is not None
        count = len(weights.values)
        bias = np.zeros(1, np.int64) if bias is None else bias.astype(np.int64).ravel()
        return replace(
            self,
            scales=np.broadcast_to(self.scales[0] * weights.scale / self.scales[1], count),
            weights=weights.values.reshape(count, -1) - weights.zero.reshape(-1, 1),
            bias=np.broadcast_to(bias, count),
        )

    @property
    def taps(self) -> np.ndarray:
        """int64 (channels, places of the window, channels of an input)."""
        (rows, *_), (columns, *_) = self.axes
        return self.weights.reshape(len(self.weights), rows * columns, -1)


# Between DequantizeLinear and QuantizeLinear: the kind, and inputs that are tensors.
ONNX_KINDS = {
    "Add": ("sum", 2),
    "Softmax": ("softmax", 1),
    "MaxPool": ("max", 1),
    **dict.fromkeys(("AveragePool", "GlobalAveragePool", "ReduceMean"), ("mean", 1)),
    **dict.fromkeys(("Conv", "Gemm", "MatMul"), ("", 2)),
}
# Inputs of operators with weights: of the output's scale, and of the bias.
ONNX_WEIGHTED = {"QLinearConv": (6, 8), "QLinearMatMul": (6, 9), "QGemm": (7, 6)}
# Nodes that change no byte of what they get, or only cut it.
ONNX_CUTTING = {"Relu", "Clip", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"}
ONNX_CUTTING |= {"Transpose"}
MOST_BETWEEN = 8
# Inputs and output; the bias; bounds of the output.
Parts = tuple[list[FileTensor], np.ndarray | None, Bounds]


class OnnxFile:
    """Convolutions and matrix products between DequantizeLinear and QuantizeLinear nodes, those of
    the operators QLinearConv, QLinearMatMul and QGemm, and nodes without weights. Methods raise
    KeyError where a tensor is not quantised."""

    def __init__(self, data: bytes):
        graph = onnx.load_model_from_string(data).graph
        self.parts: Sequence[Any] = graph.node
        self.constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
        shapes = [one.type.tensor_type.shape.dim for one in graph.input]
        self.inputs = [math.prod(size.dim_value or 1 for size in shape) for shape in shapes]
        self.makers = {name: node for node in graph.node for name in node.output}
        self.users: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
            for name in node.input:
                self.users[name].append(node)

    def _tensor(self, names: Sequence[str]) -> FileTensor:
        """Returns a tensor of these inputs: values, scale and zero point."""
        values, scale = self.constants.get(names[0]), self.constants[names[1]].astype(np.float32)
        zero = np.zeros((), np.uint8 if values is None else values.dtype)
        zero = self.constants[names[2]] if len(names) > 2 else zero
        return FileTensor.of(values, scale, zero, zero.dtype == np.uint8)

    def _source(self, name: str) -> FileTensor:
        """Returns the tensor that DequantizeLinear reads."""
        node = self.makers[name]
        while node.op_type in ONNX_CUTTING:
            node = self.makers[node.input[0]]
        if node.op_type != "DequantizeLinear":
            raise KeyError(name)
        return self._tensor(node.input)

    def _target(self, name: str) -> tuple[FileTensor, str, Bounds]:
        """Returns the tensor of the QuantizeLinear behind a value, past nodes that only cut it and
        one Add; the Add's addend, and real bounds."""
        addend, bounds = "", UNBOUNDED
        for _ in range(MOST_BETWEEN):
            if len(self.users[name]) != 1:
                break
            (user,) = self.users[name]
            if user.op_type == "QuantizeLinear":
                return self._tensor(["", *user.input[1:]]), addend, bounds
            if user.op_type == "Add" and not addend:
                addend = next((one for one in user.input if one != name), "")
            elif user.op_type not in ONNX_CUTTING:
                break
            if user.op_type == "Relu":
                bounds = (0.0, math.inf)
            elif user.op_type == "Clip":
                ends = (self.constants.get(one) for one in (*user.input[1:], "", "")[:2])
                pairs = zip(ends, UNBOUNDED, strict=True)
                low, high = (none if end is None else float(end) for end, none in pairs)
                bounds = low, high
            name = user.output[0]
        raise KeyError(name)

    def _operator(self, node: onnx.NodeProto) -> Parts:
        """Returns the tensors of one of ONNX_WEIGHTED, the bias and bounds."""
        names, (at, of_bias) = [*node.input], ONNX_WEIGHTED[node.op_type]
        ends = [self._tensor(some) for some in (names[:3], names[3:6], ["", *names[at : at + 2]])]
        bias = self.constants[names[of_bias]] if len(names) > of_bias else None
        return ends, bias, UNBOUNDED

    def _dequantized(self, node: onnx.NodeProto) -> Parts:
        """Returns the tensors around a node, the bias of one with weights, and bounds."""
        ends = [self._source(name) for name in node.input[: ONNX_KINDS[node.op_type][1]]]
        out, addend, bounds = self._target(node.output[0])
        name = (*node.input, addend, addend)[2]
        bias = self.constants.get(name)
        if bias is not None:
            bias = np.rint(bias / (ends[0].scale.astype(np.float64) * ends[1].scale))
        elif name:
            bias = self._source(name).values
        return [*ends, out], bias, bounds

    def read(self, node: onnx.NodeProto) -> Iterator[FileNode]:
        """Yields a node if its operator is known and its tensors are quantised."""
        kind, is_operator = ONNX_KINDS.get(node.op_type, ("", 2))[0], node.op_type in ONNX_WEIGHTED
        parts = self._operator if is_operator else self._dequantized
        try:
            ends, bias, bounds = parts(node)
        except KeyError:
            return
        if not kind and ends[1].values is not None:
            kind, axes, values = _form(node, ends[1].values)
            plain = FileNode.of(kind, node.name or node.output[0], ends[::2], axes, bounds)
            yield plain.with_weights(replace(ends[1], values=values), bias)
        elif kind and all(end.values is None and len(end.scale) == 1 for end in ends):
            yield FileNode.of(kind, node.name, ends, _window(node), bounds)


def _window(node: onnx.NodeProto, taps: tuple[int, ...] = ()) -> Axes:
    """Returns the window of a node; of one without a size, a pixel."""
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    names = "kernel_shape", "strides", "dilations"
    sizes = [[1, 1, *given.get(name, ())][-2:] for name in names]
    pads = given.get("pads", ())
    pads = [0, 0, *pads[: len(pads) // 2]][-2:]
    return tuple(zip(taps or sizes[0], *sizes[1:], pads, strict=True))


def _form(node: onnx.NodeProto, values: np.ndarray) -> tuple[str, Axes, np.ndarray]:
    """Returns the kind and the window of a layer, and its weights (channels, ...)."""
    given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    if "Conv" not in node.op_type:
        return "dense", POINT, values if given.get("transB", 0) else values.T
    values = values[:, :, None] if values.ndim == 3 else values
    is_depthwise = given.get("group", 1) > 1 and values.shape[1] == 1
    axes = _window(node, values.shape[2:])
    return "depthwise" if is_depthwise else "conv", axes, values.transpose(0, 2, 3, 1)


CUTTING = {"RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "MAXIMUM", "MINIMUM"}
PLAIN = {"ADD": "sum", "MEAN": "mean", "SOFTMAX": "softmax"}
PLAIN |= {"AVERAGE_POOL_2D": "mean", "MAX_POOL_2D": "max"}
BOUNDS: dict[int, Bounds] = {
    ActivationFunctionType.NONE: UNBOUNDED,
    ActivationFunctionType.RELU: (0.0, math.inf),
    ActivationFunctionType.RELU6: (0.0, 6.0),
}
WEIGHTED = {
    "CONV_2D": tflite.Conv2DOptions,
    "DEPTHWISE_CONV_2D": tflite.DepthwiseConv2DOptions,
    "FULLY_CONNECTED": tflite.FullyConnectedOptions,
}
BYTES = TensorType.INT8, TensorType.UINT8
# Of a gate's sum, 16 bits of which 12 are behind the point.
LSTM_GATE = np.float32(1 << 12)
DTYPES = dict(zip(BYTES, ("i1", "u1"), strict=True)) | {
    TensorType.INT16: "<i2",
    TensorType.INT32: "<i4",
    TensorType.INT64: "<i8",
}


class TfliteFile:
    """Convolutions and fully connected layers of all subgraphs, and nodes without weights."""

    def __init__(self, data: bytes):
        self.model = tflite.Model.GetRootAs(data)
        codes = (self.model.OperatorCodes(i) for i in range(self.model.OperatorCodesLength()))
        numbers = (max(code.BuiltinCode(), code.DeprecatedBuiltinCode()) for code in codes)
        self.codes = [tflite.BUILTIN_OPCODE2NAME.get(number) for number in numbers]
        self.cuts = bool({*self.codes} & CUTTING)
        graph = self.model.Subgraphs(0)
        inputs = [graph.Tensors(graph.Inputs(i)) for i in range(graph.InputsLength())]
        self.inputs = [math.prod(one.ShapeAsNumpy().tolist()) for one in inputs]
        self.parts = [self.model.Subgraphs(i) for i in range(self.model.SubgraphsLength())]

    def read(self, graph: tflite.SubGraph) -> Iterator[FileNode]:
        """Yields the nodes of a subgraph."""
        # Of a Pad in front: bytes by axis.
        padded: dict[int, np.ndarray] = {}
        for number in range(graph.OperatorsLength()):
            one = graph.Operators(number)
            name = self.codes[one.OpcodeIndex()]
            numbers = [int(i) for i in one.InputsAsNumpy() if i >= 0]
            tensors = [graph.Tensors(number) for number in (*numbers, one.Outputs(0))]
            if name in PLAIN:
                yield from self._plain(one, name, tensors)
            elif name in WEIGHTED:
                yield from self._weighted(one, name, tensors, padded.get(numbers[0]))
            elif name == "UNIDIRECTIONAL_SEQUENCE_LSTM":
                yield from self._lstm(graph, [int(i) for i in one.InputsAsNumpy()])
            elif name in ("PAD", "PADV2"):
                before = self._tensor(tensors[1]).values
                if before is not None and before.shape == (4, 2):
                    padded[one.Outputs(0)] = before[1:3, 0]

    def _plain(self, one: tflite.Operator, name: str, tensors: list[Any]) -> Iterator[FileNode]:
        """Yields a node without weights if its tensors are int8 or uint8."""
        del tensors[1 : 2 if name == "MEAN" else 1]
        ends = [self._tensor(tensor) for tensor in tensors]
        if name == "SOFTMAX":
            beta = _options(one, tflite.SoftmaxOptions).Beta()
            ends[0] = replace(ends[0], scale=ends[0].scale * beta)
        axes, types = POINT, {tensor.Type() for tensor in tensors}
        bounds = None if self.cuts else UNBOUNDED
        if name.endswith("POOL_2D"):
            options = _options(one, tflite.Pool2DOptions)
            bounds = self._bounds(options)
            axes = _axes(options, (options.FilterHeight(), options.FilterWidth()), tensors)
        if len(types) == 1 and types <= {*BYTES} and all(len(end.scale) for end in ends):
            yield FileNode.of(PLAIN[name], name, ends, axes, bounds)

    def _tensor(self, tensor: tflite.Tensor) -> FileTensor:
        data, kind = self.model.Buffers(tensor.Buffer()).DataAsNumpy(), tensor.Type()
        shape = [tensor.Shape(i) for i in range(tensor.ShapeLength())]
        values = None
        if kind == TensorType.INT4 and not isinstance(data, int):
            halves = np.stack([data.astype(np.int8) << 4, data.astype(np.int8)], axis=1) >> 4
            values = halves.ravel()[: int(np.prod(shape))].reshape(shape)
        elif kind in DTYPES and not isinstance(data, int) and len(data):
            values = np.frombuffer(data.tobytes(), DTYPES[kind]).reshape(shape)
        of = tensor.Quantization()
        scale = np.zeros(0) if of is None else np.asarray(of.ScaleAsNumpy(), np.float64)
        zero = np.zeros(1) if of is None else of.ZeroPointAsNumpy()
        return FileTensor.of(values, scale, zero, kind == TensorType.UINT8)

    def _weighted(
        self, one: tflite.Operator, name: str, tensors: list[Any], pads: np.ndarray | None
    ) -> Iterator[FileNode]:
        into, weights, *biases, out = (self._tensor(tensor) for tensor in tensors)
        if weights.values is None or tensors[0].Type() not in BYTES:
            return
        values, axes, kind = weights.values, POINT, "dense"
        options = _options(one, WEIGHTED[name])
        if name != "FULLY_CONNECTED":
            axes = _axes(options, values.shape[1:3], tensors, (0, 0) if pads is None else pads)
            kind = "conv" if axes != POINT else "dense"
        if name == "DEPTHWISE_CONV_2D":
            values, kind = values.reshape(-1, values.shape[3]).T, "depthwise"
        weights = replace(weights, values=values, zero=weights.zero[:1])
        text = (tensors[-1].Name() or b"").decode("utf-8", "replace")
        node = FileNode.of(kind, text, [into, out], axes, self._bounds(options))
        yield node.with_weights(weights, biases[0].values if biases else None)

    def _lstm(self, graph: tflite.SubGraph, numbers: list[int]) -> Iterator[FileNode]:
        """Yields an LSTM. Its weights are bytes by unit, and biases by unit, of the inputs and of
        the units, and gate; scales are factors of sums, in the order of the operator's inputs."""
        x, *weights, i, f, c, o, h = (
            self._tensor(graph.Tensors(numbers[n])) for n in (*range(9), *range(12, 16), 18)
        )
        if any(one.values is None for one in (*weights, i, f, c, o)):
            return
        ends = [x] * 4 + [h] * 4
        gates = [np.asarray(one.values, np.int64) for one in weights]
        sums = [-end.zero[0] * gate.sum(axis=1) for end, gate in zip(ends, gates, strict=True)]
        sums[:4] = [a + b.values for a, b in zip(sums, (i, f, c, o), strict=False)]
        units = [
            np.concatenate([_in_fours(np.stack(unit[:4])), _in_fours(np.stack(unit[4:]))])
            for unit in zip(*gates, strict=True)
        ]
        # TensorFlow Lite Micro multiplies these in float32.
        real = [np.float32(end.scale[0]) for end in (*ends, *weights)]
        scales = [a * b * LSTM_GATE for a, b in zip(real[:8], real[8:], strict=True)]
        node = FileNode.of("lstm", "LSTM", [x, h], POINT, None)
        bias = np.stack(sums, axis=1)
        yield replace(node, scales=np.array(scales), weights=np.stack(units), bias=bias)

    def _bounds(self, options: Any) -> Bounds | None:
        """Returns the bounds of a fused activation."""
        bounds = BOUNDS.get(options.FusedActivationFunction(), (-1.0, 1.0))
        return None if self.cuts and bounds == UNBOUNDED else bounds


def _in_fours(gates: np.ndarray) -> np.ndarray:
    """Returns weights (gates, taps) of a unit by four taps, gate and tap, and the rest by gate."""
    taps = gates.shape[1] // 4 * 4
    fours = gates[:, :taps].reshape(len(gates), -1, 4).swapaxes(0, 1)
    return np.concatenate([fours.ravel(), gates[:, taps:].ravel()])


def _options(one: tflite.Operator, kind: type) -> Any:
    options, table = kind(), one.BuiltinOptions()
    options.Init(table.Bytes, table.Pos)
    return options


def _axes(options: Any, taps: Sequence[int], tensors: list[Any], pads: Any = (0, 0)) -> Axes:
    """The axes of a window between the first and the last tensor. pads: of a node in front."""
    strides, dilations = (options.StrideH(), options.StrideW()), (1, 1)
    if hasattr(options, "DilationHFactor"):
        dilations = options.DilationHFactor(), options.DilationWFactor()
    axes = []
    for axis, *sizes, pad in zip((1, 2), taps, strides, dilations, pads, strict=True):
        size, stride, dilation = sizes
        before, behind = (tensors[end].Shape(axis) for end in (0, -1))
        over = (behind - 1) * stride + (size - 1) * dilation + 1 - before
        is_same = options.Padding() == tflite.Padding.SAME
        axes.append((size, stride, dilation, int(pad) + is_same * (max(over, 0) // 2)))
    return tuple(axes)


def read(path: Path) -> tuple[list[FileNode], list[int]]:
    """Returns the nodes of a file, in its order, and the values in each of its inputs.

    Raises ImageError if the file is neither .tflite nor .onnx, or damaged.
    """
    try:
        data = path.read_bytes()
        file = (TfliteFile if data[4:8] == b"TFL3" else OnnxFile)(data)
        return [node for part in file.parts for node in file.read(part)], file.inputs
    except Exception as error:  # Readers of damaged files raise whatever they like.
        reason = f"'{path}' cannot be read: {error}"
        raise ImageError(reason, "pass the .tflite or .onnx") from error
