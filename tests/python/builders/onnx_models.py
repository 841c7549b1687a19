# SPDX-License-Identifier: Apache-2.0
"""Small quantised .onnx files, and the table of operators that tests run over."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)


class OnnxModel:
    """Builds a graph; values are referred to by name. `dtype` is that of activations."""

    def __init__(self, seed: int = 0, dtype=np.int8, opset: int = 13):
        self.rng = np.random.default_rng(seed)
        self.dtype, self.opset = np.dtype(dtype), opset
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.scales: dict[str, float] = {}
        self.weight_scale: np.ndarray = np.zeros(0)  # of the weights drawn last

    def constant(self, array) -> str:
        name = f"k{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op: str, inputs, domain: str = "", **attributes) -> str:
        out = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(op, list(inputs), [out], name=f"n_{out}", domain=domain, **attributes)
        )
        return out

    def zero_point(self) -> int:
        info = np.iinfo(self.dtype)
        return int(self.rng.integers(info.min, info.max + 1))

    def stated(self, scale: float | None = None, zero_point: int | None = None) -> list[str]:
        """Constants of an activation's quantisation; what is not given is random."""
        scale = self.rng.uniform(0.01, 0.2) if scale is None else scale
        zero_point = self.zero_point() if zero_point is None else zero_point
        names = [self.constant(np.float32(scale)), self.constant(self.dtype.type(zero_point))]
        self.scales[names[0]] = float(np.float32(scale))
        return names

    def qdq(self, value: str, quantisation: list[str]) -> str:
        return self.node(
            "DequantizeLinear",
            [self.node("QuantizeLinear", [value, *quantisation]), *quantisation],
        )

    def weights(
        self, shape, axis: int | None, x_scale: float, depth: int, bias: str = "int32", **more
    ) -> tuple[list[str], float]:
        """Dequantised weights and biases, and an output scale that fills the int8 range.

        bias: "int32", "float" or "none"; more: dtype and zero_point of the weights.
        """
        dtype, zero = np.dtype(more.get("dtype", np.int8)), more.get("zero_point", 0)
        span = more.get("span", 127)
        ints = (self.rng.integers(-span, span + 1, shape) + zero).astype(dtype)
        count = shape[axis] if axis is not None else 1
        scales = self.rng.uniform(0.002, 0.02, count).astype(np.float32)
        zeros = np.full(count, zero, dtype)
        if axis is None:
            scales, zeros = scales[0], zeros[0]
        self.weight_scale = scales
        inputs = [self.constant(a) for a in (ints, scales, zeros)]
        names = [self.node("DequantizeLinear", inputs, axis=axis or 0)]
        product = np.float32(x_scale) * scales
        if bias != "none":
            size = int(np.prod(shape)) // depth
            values = self.rng.integers(-20000, 20000, size).astype(np.int32)
            if bias == "float":
                names.append(self.constant((values * product).astype(np.float32)))
            else:
                zeros = np.zeros(np.shape(product), np.int32)
                given = [self.constant(a) for a in (values, product, zeros)]
                names.append(self.node("DequantizeLinear", given, axis=0))
        scale = float(
            np.mean(product) * np.sqrt(depth) * (span / 1.27) * self.rng.uniform(0.5, 1.5)
        )
        return names, scale

    def proto(self, inputs: dict[str, tuple], outputs: dict[str, tuple]) -> onnx.ModelProto:
        """inputs and outputs: (element type, shape) by name."""
        infos = [
            [helper.make_tensor_value_info(name, *spec) for name, spec in values.items()]
            for values in (inputs, outputs)
        ]
        graph = helper.make_graph(self.nodes, "test", *infos, self.initializers)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


Layer = Callable[[OnnxModel, str, float], tuple[str, float | None]]


def conv(channels, count, kernel, group=1, axis=0, bias="int32", then=(), **attributes) -> Layer:
    """Conv; `then` lists (op, constants...) that follow before quantisation; attributes: those of
    Conv, and w_ for those of the weights."""
    more = {key[2:]: attributes.pop(key) for key in list(attributes) if key.startswith("w_")}

    def build(m: OnnxModel, x: str, scale: float):
        shape = (count, channels // group, *kernel)
        depth = channels // group * int(np.prod(kernel))
        names, out_scale = m.weights(shape, axis, scale, depth, bias, **more)
        y = m.node("Conv", [x, *names], group=group, **attributes)
        for op, *constants in then:
            y = m.node(op, [y, *(m.constant(np.float32(c)) for c in constants)])
        return y, out_scale

    return build


def dense(op, depth, count, axis=None, bias="int32", flatten=False, **attributes) -> Layer:
    """Gemm or MatMul, which takes its bias by an Add; attributes as for conv()."""
    more = {key[2:]: attributes.pop(key) for key in list(attributes) if key.startswith("w_")}

    def build(m: OnnxModel, x: str, scale: float):
        shape = (count, depth) if attributes.get("transB") else (depth, count)
        if flatten:
            x = m.node("Flatten", [x])
        names, out_scale = m.weights(shape, axis, scale, depth, bias, **more)
        if op == "Gemm":
            return m.node("Gemm", [x, *names], **attributes), out_scale
        y = m.node("MatMul", [x, names[0]])
        return (m.node("Add", [y, names[1]]) if len(names) > 1 else y), out_scale

    return build


def unary(op, factor=None, constants=(), **attributes) -> Layer:
    """An operator of one input; its output's scale is its input's times `factor`, or the same
    quantisation where that is None."""

    def build(m: OnnxModel, x: str, scale: float):
        y = m.node(op, [x, *(m.constant(c) for c in constants)], **attributes)
        return y, None if factor is None else scale * factor

    return build


def self_add(relu=False) -> Layer:
    def build(m: OnnxModel, x: str, scale: float):
        other = m.qdq(m.node("Relu", [x]), m.stated(scale * 0.7))
        y = m.node("Add", [x, other])
        return (m.node("Relu", [y]) if relu else y), scale * 1.6

    return build


def self_concat(axis, flat=False) -> Layer:
    def build(m: OnnxModel, x: str, scale: float):
        other = m.qdq(m.node("Relu", [x]), m.stated(scale * 0.7))
        parts = [m.node("Flatten", [v]) for v in (x, other)] if flat else [x, other]
        return m.node("Concat", parts, axis=axis), scale

    return build


def chain(*layers: Layer) -> Layer:
    """Layers with nothing between them."""

    def build(m: OnnxModel, x: str, scale: float):
        factor = None
        for layer in layers:
            x, factor = layer(m, x, scale)
        return x, factor

    return build


def requantised(m: OnnxModel, x: str, scale: float):
    """QuantizeLinear and DequantizeLinear in the middle."""
    return m.qdq(x, m.stated(scale)), scale


def softmax(**attributes) -> Layer:
    def build(m: OnnxModel, x: str, scale: float):
        return m.node("Softmax", [x], **attributes), 1.0 / 255

    return build


PADS = {"pads": [1, 1, 1, 1]}
IMAGE, VECTOR = (1, 6, 7, 8), (1, 24)
_AXES = np.array([2, 3])

# One row an operator variant: input shape, layer.
CASES: dict[str, tuple[tuple[int, ...], Layer]] = {
    "conv 1x1": (IMAGE, conv(6, 9, (1, 1))),
    "conv 3x3": (IMAGE, conv(6, 8, (3, 3), **PADS)),
    "conv per tensor": (IMAGE, conv(6, 8, (3, 3), axis=None, **PADS)),
    "conv stride 2": (IMAGE, conv(6, 8, (3, 3), strides=[2, 2], pads=[0, 0, 1, 1])),
    "conv same upper": (IMAGE, conv(6, 4, (3, 4), strides=[2, 2], auto_pad="SAME_UPPER")),
    "conv same lower": (IMAGE, conv(6, 4, (4, 3), strides=[2, 2], auto_pad="SAME_LOWER")),
    "conv dilated": (IMAGE, conv(6, 4, (3, 2), dilations=[2, 3])),
    "conv grouped": (IMAGE, conv(6, 4, (3, 3), group=2, **PADS)),
    "conv depthwise": (IMAGE, conv(6, 6, (3, 3), group=6, **PADS)),
    "conv depthwise multiplier": (IMAGE, conv(6, 18, (3, 3), group=6, strides=[2, 2], **PADS)),
    "conv no bias": (IMAGE, conv(6, 8, (3, 3), bias="none")),
    "conv float bias": (IMAGE, conv(6, 8, (3, 3), bias="float")),
    "conv uint8 weights": (
        IMAGE,
        conv(6, 8, (3, 3), axis=None, w_dtype=np.uint8, w_zero_point=128),
    ),
    "conv relu": (IMAGE, conv(6, 8, (3, 3), then=[("Relu",)])),
    "conv clip": (IMAGE, conv(6, 8, (3, 3), then=[("Clip", 0.0, 6.0)])),
    "gemm": (VECTOR, dense("Gemm", 24, 10)),
    "gemm transposed per channel": (VECTOR, dense("Gemm", 24, 10, axis=0, transB=1)),
    "gemm rows": ((5, 24), dense("Gemm", 24, 7, transB=1)),
    "gemm no bias": (VECTOR, dense("Gemm", 24, 10, bias="none")),
    "gemm of image": (IMAGE, dense("Gemm", 336, 10, flatten=True, transB=1)),
    "matmul": (VECTOR, dense("MatMul", 24, 10, bias="none")),
    "matmul rows per channel": ((1, 5, 24), dense("MatMul", 24, 7, axis=1, bias="none")),
    "matmul float bias": (VECTOR, dense("MatMul", 24, 10, bias="float")),
    "matmul of image": (IMAGE, dense("MatMul", 336, 5, bias="none", flatten=True)),
    "add": (IMAGE, self_add()),
    "add relu": (IMAGE, self_add(relu=True)),
    "max pool": (IMAGE, unary("MaxPool", kernel_shape=[3, 2], strides=[2, 2], **PADS)),
    "max pool ceil": (IMAGE, unary("MaxPool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)),
    "max pool ceil beyond": (
        (1, 4, 6, 9),
        unary("MaxPool", kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1),
    ),
    "max pool dilated": (IMAGE, unary("MaxPool", kernel_shape=[2, 2], dilations=[2, 2])),
    "max pool rescaled": (IMAGE, unary("MaxPool", 0.8, kernel_shape=[2, 2])),
    "max pool relu": (IMAGE, chain(unary("MaxPool", kernel_shape=[2, 2]), unary("Relu"))),
    "global max pool": (IMAGE, unary("GlobalMaxPool")),
    "average pool": (IMAGE, unary("AveragePool", 0.9, kernel_shape=[3, 3], **PADS)),
    "average pool padding": (
        IMAGE,
        unary("AveragePool", 1.0, kernel_shape=[3, 3], count_include_pad=1, **PADS),
    ),
    "average pool ceil": (
        IMAGE,
        unary("AveragePool", 1.0, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    ),
    "global average pool": (IMAGE, unary("GlobalAveragePool", 0.3)),
    "reduce mean": (IMAGE, unary("ReduceMean", 0.3, axes=[2, 3], keepdims=0)),
    "concat channels": (IMAGE, self_concat(1)),
    "concat rows": (IMAGE, self_concat(2)),
    "concat columns": (IMAGE, self_concat(-1)),
    "concat flat, gemm": (
        IMAGE,
        chain(self_concat(1, flat=True), requantised, dense("Gemm", 672, 5, bias="none")),
    ),
    "softmax": (VECTOR, softmax(axis=1)),
    "softmax of image": (IMAGE, softmax(axis=1)),
    "pad": (IMAGE, unary("Pad", constants=[np.array([0, 0, 1, 2, 0, 0, 0, 3])])),
    "pad channels": (IMAGE, unary("Pad", constants=[np.array([0, 1, 0, 0, 0, 2, 0, 0])])),
    "requantise": (IMAGE, unary("Identity", 1.3)),
    "relu": (IMAGE, unary("Relu", 0.6)),
    "clip": (IMAGE, unary("Clip", None, [np.float32(-1), np.float32(3)])),
    "flatten pixel": ((1, 12, 1, 1), unary("Flatten")),
    "flatten rows": ((5, 24), unary("Flatten")),
    "reshape": (VECTOR, unary("Reshape", constants=[np.array([0, 1, -1])])),
    "squeeze": ((1, 12, 1, 1), unary("Squeeze", constants=[_AXES])),
    "unsqueeze": ((1, 12), unary("Unsqueeze", constants=[_AXES])),
    "transpose there and back": (
        IMAGE,
        chain(
            unary("Transpose", perm=[0, 2, 3, 1]),
            unary("Transpose", perm=[0, 3, 1, 2]),
            unary("MaxPool", kernel_shape=[2, 2]),
        ),
    ),
}


def single(m: OnnxModel, shape, layer: Layer) -> onnx.ModelProto:
    """Input, QuantizeLinear, DequantizeLinear, the layer, and the same two again."""
    quantisation = m.stated()
    scale = m.scales[quantisation[0]]
    y, out_scale = layer(m, m.qdq("x", quantisation), scale)
    result = m.qdq(y, quantisation if out_scale is None else m.stated(out_scale))
    kind = TensorProto.FLOAT
    return m.proto({"x": (kind, shape)}, {result: (kind, None)})


class _Samples(CalibrationDataReader):
    def __init__(self, shape, seed: int):
        rng = np.random.default_rng(seed)
        self._samples = iter([{"x": rng.normal(size=shape).astype(np.float32)} for _ in range(4)])

    def get_next(self):
        return next(self._samples, None)


def float_network(path: Path, seed: int = 0) -> Path:
    """A small residual network in float: input "x" (1, 3, 16, 16), output "y" (1, 10)."""
    m = OnnxModel(seed)

    def weights(*shape):
        scale = 1 / np.sqrt(np.prod(shape[1:]))
        return m.constant((m.rng.normal(size=shape) * scale).astype(np.float32))

    first = m.node("Conv", ["x", weights(8, 3, 3, 3), weights(8)], strides=[2, 2], **PADS)
    first = m.node("Relu", [first])
    y = m.node("Conv", [first, weights(8, 1, 3, 3), weights(8)], group=8, **PADS)
    y = m.node("Clip", [y, m.constant(np.float32(0)), m.constant(np.float32(6))])
    y = m.node("Conv", [y, weights(8, 8, 1, 1)])
    y = m.node("Add", [y, first])
    y = m.node("MaxPool", [y], kernel_shape=[2, 2], strides=[2, 2])
    pooled = m.node("AveragePool", [y], kernel_shape=[3, 3], **PADS)
    y = m.node("Concat", [y, pooled], axis=1)
    left = m.node("Flatten", [y])
    left = m.node("MatMul", [left, weights(256, 10)])
    right = m.node("Flatten", [m.node("GlobalAveragePool", [y])])
    right = m.node("MatMul", [right, weights(16, 10)])
    y = m.node("Softmax", [m.node("Add", [left, right])], axis=1)
    m.nodes.append(helper.make_node("Identity", [y], ["y"]))
    kind = TensorProto.FLOAT
    onnx.save(m.proto({"x": (kind, (1, 3, 16, 16))}, {"y": (kind, (1, 10))}), path)
    return path


def quantised_network(folder: Path, form: str, activations: str, per_channel: bool) -> Path:
    """`float_network` through onnxruntime's static quantisation, as users do it."""
    logging.disable(logging.WARNING)
    path = folder / "quantised.onnx"
    quantize_static(
        float_network(folder / "float.onnx"),
        path,
        _Samples((1, 3, 16, 16), 7),
        quant_format=QuantFormat[form],
        activation_type=QuantType[activations],
        weight_type=QuantType.QInt8,
        per_channel=per_channel,
    )
    logging.disable(logging.NOTSET)
    return path
