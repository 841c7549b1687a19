# SPDX-License-Identifier: Apache-2.0
"""Small int8 .tflite files, one operator each, and the table of operators that tests run over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import flatbuffers
import numpy as np
from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema

_TYPES = {
    np.dtype(np.int8): schema.TensorType.INT8,
    np.dtype(np.uint8): schema.TensorType.UINT8,
    np.dtype(np.int16): schema.TensorType.INT16,
    np.dtype(np.int32): schema.TensorType.INT32,
    np.dtype(np.int64): schema.TensorType.INT64,
    np.dtype(np.float16): schema.TensorType.FLOAT16,
    np.dtype(np.float32): schema.TensorType.FLOAT32,
    np.dtype(np.bool_): schema.TensorType.BOOL,
}


class TfliteModel:
    """Builds one subgraph; tensors are referred to by index."""

    def __init__(self, seed: int = 0, int4: bool = False):
        """int4: weights have 4 bits."""
        self.rng = np.random.default_rng(seed)
        self.int4 = int4
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.operatorCodes = []
        self.model.buffers = [schema.BufferT()]
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.model.subgraphs = [self.graph]

    def activation(self, shape, scale=None, zero_point=None, dtype=np.int8) -> int:
        """An activation; a quantisation that is not given is random."""
        scale = self.rng.uniform(0.01, 0.2) if scale is None else scale
        zero_point = int(self.rng.integers(-128, 128)) if zero_point is None else zero_point
        quantised = np.dtype(dtype).kind in "iu"
        return self._tensor(shape, dtype, [scale] if quantised else [], [zero_point], 0, None)

    def like(self, index: int, shape) -> int:
        """An activation with the quantisation of another."""
        quantisation = self.graph.tensors[index].quantization
        return self.activation(shape, quantisation.scale[0], int(quantisation.zeroPoint[0]))

    def constant(self, array, scales=(), axis: int = 0, zero_point: int = 0) -> int:
        array = np.asarray(array)
        zeros = [zero_point] * len(scales)
        return self._tensor(array.shape, array.dtype, list(scales), zeros, axis, array)

    def packed(self, array, scales, axis: int) -> int:
        """A constant of int4, two elements in a byte, the first in the lower half."""
        index = self.constant(array, scales, axis)
        nibbles = np.append(array.ravel(), [0] * (array.size % 2)).astype(np.uint8) & 0xF
        tensor = self.graph.tensors[index]
        tensor.type = schema.TensorType.INT4
        self.model.buffers[tensor.buffer].data = nibbles[0::2] | nibbles[1::2] << 4
        return index

    def _tensor(self, shape, dtype, scales, zero_points, axis, data) -> int:
        tensor = schema.TensorT()
        tensor.name = f"t{len(self.graph.tensors)}"
        tensor.shape = list(shape)
        tensor.type = _TYPES[np.dtype(dtype)]
        tensor.buffer = 0
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            tensor.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        if len(scales):
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = np.array(scales, np.float32)
            tensor.quantization.zeroPoint = np.array(zero_points, np.int64)
            tensor.quantization.quantizedDimension = axis
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def scale(self, index: int) -> np.ndarray:
        return np.array(self.graph.tensors[index].quantization.scale)

    def op(self, name: str, inputs, output: int, kind: str = "", **options) -> int:
        """Adds an operator; `kind` names its options table without the word Options."""
        table = getattr(schema, f"{kind}OptionsT")() if kind else None
        for key, value in options.items() if kind else ():
            assert hasattr(table, key), key
            setattr(table, key, value)
        self.put(self.graph, name, inputs, [output], table, f"{kind}Options")
        return output

    def custom(self, name: str, inputs, output: int) -> int:
        """Adds a custom operator."""
        self.put(self.graph, "CUSTOM", inputs, [output], None, "")
        self.model.operatorCodes[-1].customCode = name
        return output

    def put(self, graph, name: str, inputs, outputs, options, kind: str) -> None:
        """Adds an operator to any of the model's graphs; `kind` names the table `options`, if there
        is one."""
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = 1
        self.model.operatorCodes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex = len(self.model.operatorCodes) - 1
        operator.inputs, operator.outputs = list(inputs), list(outputs)
        if options is not None:
            operator.builtinOptions = options
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
        graph.operators.append(operator)

    def to_bytes(self, inputs, outputs) -> bytes:
        self.graph.inputs, self.graph.outputs = list(inputs), list(outputs)
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def save(self, path: Path, inputs, outputs) -> Path:
        path.write_bytes(self.to_bytes(inputs, outputs))
        return path


Case = Callable[[TfliteModel], tuple[list[int], list[int]]]


def _out_size(size: int, kernel: int, stride: int, dilation: int, same: bool) -> int:
    extent = (kernel - 1) * dilation + 1
    return -(-size // stride) if same else (size - extent) // stride + 1


def weights(m: TfliteModel, x: int, shape, count: int, axis: int, per_channel: bool, bias: bool):
    """Weight and bias tensors, and an output scale that makes results fill the int8 range."""
    low, high = (-8, 8) if m.int4 else (-127, 128)
    values = m.rng.integers(low, high, shape).astype(np.int8)
    scales = m.rng.uniform(0.002, 0.02, count if per_channel else 1).astype(np.float32)
    if per_channel:
        scales[0] = -scales[0]  # legal, and found in real models
    depth = values.size / count
    product = m.scale(x)[0] * scales
    biases = m.rng.integers(-20000, 20000, count).astype(np.int32)
    typical = np.abs(product).mean() * np.sqrt(depth) * 0.8 * high
    out_scale = float(typical * m.rng.uniform(0.5, 1.5))
    constant = m.packed if m.int4 else m.constant
    tensors = [constant(values, scales, axis)]
    tensors.append(m.constant(biases, product, 0) if bias else -1)
    return tensors, out_scale


def conv(size, channels, count, kernel, stride=(1, 1), dilation=(1, 1), groups=1, **more) -> Case:
    """CONV_2D; more: same, per_channel, bias, activation."""

    def build(m: TfliteModel):
        same = more.get("same", True)
        x = m.activation((1, *size, channels))
        shape = (count, *kernel, channels // groups)
        per_channel, bias = more.get("per_channel", True), more.get("bias", True)
        constants, scale = weights(m, x, shape, count, 0, per_channel, bias)
        out = [_out_size(size[i], kernel[i], stride[i], dilation[i], same) for i in range(2)]
        y = m.activation((1, *out, count), scale)
        m.op(
            "CONV_2D",
            [x, *constants],
            y,
            "Conv2D",
            padding=0 if same else 1,
            strideH=stride[0],
            strideW=stride[1],
            dilationHFactor=dilation[0],
            dilationWFactor=dilation[1],
            fusedActivationFunction=more.get("activation", 0),
        )
        return [x], [y]

    return build


def depthwise(size, channels, multiplier, kernel, stride=(1, 1), dilation=(1, 1), **more) -> Case:
    def build(m: TfliteModel):
        same = more.get("same", True)
        x, count = m.activation((1, *size, channels)), channels * multiplier
        per_channel = more.get("per_channel", True)
        constants, scale = weights(m, x, (1, *kernel, count), count, 3, per_channel, True)
        out = [_out_size(size[i], kernel[i], stride[i], dilation[i], same) for i in range(2)]
        y = m.activation((1, *out, count), scale)
        m.op(
            "DEPTHWISE_CONV_2D",
            [x, *constants],
            y,
            "DepthwiseConv2D",
            padding=0 if same else 1,
            strideH=stride[0],
            strideW=stride[1],
            dilationHFactor=dilation[0],
            dilationWFactor=dilation[1],
            depthMultiplier=multiplier,
            fusedActivationFunction=more.get("activation", 0),
        )
        return [x], [y]

    return build


def dense(shape, count, per_channel=False, bias=True, activation=0, flatten=False) -> Case:
    def build(m: TfliteModel):
        x = m.activation(shape)
        depth = int(np.prod(shape)) if flatten else shape[-1]
        constants, scale = weights(m, x, (count, depth), count, 0, per_channel, bias)
        rows = () if flatten else shape[1:-1]
        y = m.activation((shape[0], *rows, count), scale)
        options = {"fusedActivationFunction": activation, "keepNumDims": not flatten}
        m.op("FULLY_CONNECTED", [x, *constants], y, "FullyConnected", **options)
        return [x], [y]

    return build


def add(shape, activation=0) -> Case:
    def build(m: TfliteModel):
        a, b = m.activation(shape), m.activation(shape)
        y = m.activation(shape, float(m.scale(a)[0] + m.scale(b)[0]))
        m.op("ADD", [a, b], y, "Add", fusedActivationFunction=activation)
        return [a, b], [y]

    return build


def pool(name, size, channels, kernel, stride, same=True, activation=0) -> Case:
    def build(m: TfliteModel):
        x = m.activation((1, *size, channels))
        out = [_out_size(size[i], kernel[i], stride[i], 1, same) for i in range(2)]
        y = m.like(x, (1, *out, channels))
        m.op(
            name,
            [x],
            y,
            "Pool2D",
            padding=0 if same else 1,
            strideH=stride[0],
            strideW=stride[1],
            filterHeight=kernel[0],
            filterWidth=kernel[1],
            fusedActivationFunction=activation,
        )
        return [x], [y]

    return build


def mean(size, channels, keep) -> Case:
    def build(m: TfliteModel):
        x = m.activation((1, *size, channels))
        scale = float(m.scale(x)[0] * m.rng.uniform(0.2, 1.1))
        y = m.activation((1, 1, 1, channels) if keep else (1, channels), scale)
        axes = m.constant(np.array([1, 2], np.int32))
        m.op("MEAN", [x, axes], y, "Reducer", keepDims=keep)
        return [x], [y]

    return build


def pad(shape, amounts, value=None) -> Case:
    def build(m: TfliteModel):
        x = m.activation(shape)
        y = m.like(x, tuple(s + sum(a) for s, a in zip(shape, amounts, strict=True)))
        inputs = [x, m.constant(np.array(amounts, np.int32))]
        if value is not None:
            zero = int(m.graph.tensors[x].quantization.zeroPoint[0])
            inputs.append(m.constant(np.array([value], np.int8), m.scale(x), 0, zero))
        m.op(
            "PAD" if value is None else "PADV2",
            inputs,
            y,
            "Pad" if value is None else "PadV2",
        )
        return [x], [y]

    return build


def reshape(shape, to) -> Case:
    def build(m: TfliteModel):
        x = m.activation(shape)
        y = m.like(x, to)
        m.op(
            "RESHAPE",
            [x, m.constant(np.array(to, np.int32))],
            y,
            "Reshape",
            newShape=list(to),
        )
        return [x], [y]

    return build


def softmax(shape, beta=1.0, scale=None) -> Case:
    def build(m: TfliteModel):
        x = m.activation(shape, scale)
        y = m.activation(shape, 1.0 / 256, -128)
        m.op("SOFTMAX", [x], y, "Softmax", beta=beta)
        return [x], [y]

    return build


def unary(name, shape, rescaled=True) -> Case:
    """RELU, RELU6 or QUANTIZE."""

    def build(m: TfliteModel):
        x = m.activation(shape)
        scale = float(m.scale(x)[0] * m.rng.uniform(0.5, 1.5))
        y = m.activation(shape, scale) if rescaled else m.like(x, shape)
        m.op(name, [x], y)
        return [x], [y]

    return build


def concat(shapes, axis) -> Case:
    def build(m: TfliteModel):
        first = m.activation(shapes[0])
        inputs = [first, *(m.like(first, shape) for shape in shapes[1:])]
        to = list(shapes[0])
        to[axis] = sum(shape[axis] for shape in shapes)
        y = m.like(first, to)
        m.op("CONCATENATION", inputs, y, "Concatenation", axis=axis)
        return inputs, [y]

    return build


RELU, RELU_N1_TO_1, RELU6 = 1, 2, 3

# One row an operator variant.
CASES: dict[str, Case] = {
    "conv 1x1": conv((5, 7), 8, 16, (1, 1)),
    "conv 3x3 same": conv((9, 8), 3, 5, (3, 3), activation=RELU6),
    "conv 3x3 stride 2": conv((9, 8), 4, 6, (3, 3), (2, 2), activation=RELU),
    "conv 3x3 valid per tensor": conv((7, 7), 5, 4, (3, 3), same=False, per_channel=False),
    "conv 2x5 dilated, no bias": conv((12, 11), 3, 4, (2, 5), (1, 2), (3, 2), bias=False),
    "conv grouped": conv((6, 6), 8, 12, (3, 3), groups=4, activation=RELU_N1_TO_1),
    "depthwise 3x3": depthwise((8, 9), 6, 1, (3, 3), activation=RELU6),
    "depthwise 5x3 stride 2": depthwise((11, 9), 4, 1, (5, 3), (2, 2), same=False),
    "depthwise multiplier": depthwise((6, 7), 3, 4, (3, 3), (2, 1)),
    "depthwise dilated per tensor": depthwise(
        (9, 9), 5, 1, (3, 3), (1, 1), (2, 2), per_channel=False
    ),
    "fully connected": dense((1, 33), 10),
    "fully connected per channel": dense((1, 20), 7, per_channel=True, activation=RELU),
    "fully connected of one factor": dense((1, 24), 132),
    "fully connected rows": dense((1, 6, 12), 5, bias=False),
    "fully connected image": dense((1, 3, 4, 5), 6, flatten=True),
    "add": add((1, 5, 6, 7)),
    "add relu": add((1, 40), RELU),
    "average pool same": pool("AVERAGE_POOL_2D", (7, 9), 5, (3, 3), (2, 2)),
    "average pool global": pool("AVERAGE_POOL_2D", (5, 5), 16, (5, 5), (1, 1), same=False),
    "max pool": pool("MAX_POOL_2D", (7, 9), 5, (2, 3), (2, 2), activation=RELU6),
    "mean keep": mean((5, 6), 12, True),
    "mean drop": mean((7, 7), 9, False),
    "mean pixel": mean((1, 1), 4, False),
    "pad": pad((1, 4, 5, 3), ((0, 0), (1, 2), (0, 3), (0, 0))),
    "pad channels": pad((1, 4, 5, 3), ((0, 0), (0, 0), (0, 0), (2, 3))),
    "pad value": pad((1, 4, 5, 3), ((0, 0), (1, 1), (1, 1), (0, 0)), 17),
    "reshape": reshape((1, 4, 5, 6), (1, 120)),
    "softmax": softmax((1, 12)),
    "softmax narrow": softmax((1, 3, 4, 6), 0.7, 0.004),
    "softmax wide": softmax((1, 50), 2.0, 0.9),
    "relu": unary("RELU", (1, 6, 5, 4)),
    "relu same scale": unary("RELU", (1, 30), rescaled=False),
    "relu6": unary("RELU6", (1, 6, 5, 4), rescaled=False),
    "quantize": unary("QUANTIZE", (1, 6, 5, 4)),
    "concat channels": concat([(1, 3, 4, 5), (1, 3, 4, 2), (1, 3, 4, 1)], 3),
    "concat rows": concat([(1, 3, 4, 5), (1, 2, 4, 5)], 1),
    "concat vectors": concat([(1, 9), (1, 4)], 1),
}
