# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's exporters and onnxruntime's quantiser write, a row each: input shape, layer. As
for builders.onnx_ops, the opset is 17."""

from __future__ import annotations

import numpy as np
import onnx

from .onnx_models import IMAGE, VECTOR, Layer, OnnxModel, chain, conv, dense, requantised, unary
from .onnx_ops import (
    HEADS,
    LINE,
    SEQUENCE,
    batch_norm,
    constants,
    conv_transpose,
    reduce,
    resize,
    several,
    then_conv,
)

# Weights of older versions of onnxruntime's quantiser: uint8 about any zero point, some of them
# beyond int8 once it is taken out.
WIDE = {"w_dtype": np.uint8, "w_zero_point": 100, "w_span": 100}


def _beyond_int8(layer: Layer) -> Layer:
    def build(m: OnnxModel, x: str, scale: float):
        result = layer(m, x, scale)
        for tensor in m.initializers:
            if tensor.data_type == onnx.TensorProto.UINT8 and len(tensor.dims) > 1:
                ints = m.rng.integers(0, 256, tuple(tensor.dims)).astype(np.uint8)
                tensor.CopyFrom(onnx.numpy_helper.from_array(ints, tensor.name))
        return result

    return build


def class_token(after: bool) -> Layer:
    """A learned row in front of a sequence, or behind it."""

    def build(m: OnnxModel, x: str, scale: float):
        token = m.constant((m.rng.normal(size=(1, 1, 12)) * scale * 40).astype(np.float32))
        return m.node("Concat", [x, token] if after else [token, x], axis=1), scale

    return build


def border_channel(m: OnnxModel, x: str, scale: float):
    """A constant channel, as for coordinates, in a convolution."""
    plane = m.constant((m.rng.normal(size=(1, 1, 7, 8)) * scale * 40).astype(np.float32))
    y = m.qdq(m.node("Concat", [x, plane], axis=1), m.stated(scale * 1.2))
    return conv(7, 4, (3, 3))(m, y, scale * 1.2)


def stack(axis: int) -> Layer:
    """torch.stack() of a tensor and a function of it, flattened again into its channels."""

    def build(m: OnnxModel, x: str, scale: float):
        at = m.constant(np.array([axis]))
        other = m.qdq(m.node("Tanh", [x]), m.stated(scale * 0.7))
        parts = [m.node("Unsqueeze", [v, at]) for v in (x, other)]
        y = m.qdq(m.node("Concat", parts, axis=axis), m.stated(scale))
        y = m.node("Reshape", [y, m.constant(np.array([1, 12, 7, 8]))])
        return conv(12, 4, (1, 1))(m, y, scale)

    return build


def packed_attention(m: OnnxModel, x: str, scale: float):
    """Queries and keys in one tensor (3, heads, T, D), as nn.MultiheadAttention has them."""

    def picked(y: str, place: int) -> str:
        return m.node("Gather", [y, m.constant(np.int64(place))], axis=0)

    y = m.node("Reshape", [x, m.constant(np.array([7, 1, 3, 4]))])
    y = m.node("Unsqueeze", [y, m.constant(np.array([0]))])
    y = m.node("Transpose", [y], perm=[3, 0, 2, 1, 4])
    y = m.qdq(m.node("Squeeze", [y, m.constant(np.array([2]))]), m.stated(scale))
    turned = m.node("Transpose", [picked(y, 1)], perm=[0, 2, 1])
    return m.node("MatMul", [picked(y, 0), turned]), scale * scale * 100


def _leaky(m: OnnxModel, x: str) -> str:
    above = m.node("Greater", [x, m.constant(np.float32(0.1))])
    return m.node("Where", [above, x, m.node("Mul", [x, m.constant(np.float32(0.3))])])


def _hard_shrink(m: OnnxModel, x: str) -> str:
    sides = [("Less", -0.5), ("GreaterOrEqual", 0.5)]
    sides = [m.node(op, [x, m.constant(np.float32(v))]) for op, v in sides]
    inside = m.node("Not", [m.node("Or", sides)])
    return m.node("Where", [inside, m.constant(np.float32(0)), x])


def _step(m: OnnxModel, x: str) -> str:
    positive = m.node("LessOrEqual", [m.constant(np.float32(0)), x])
    return m.node("Mul", [x, m.node("Cast", [positive], to=1)])


def quantised_silu(m: OnnxModel, x: str, scale: float):
    """As onnxruntime quantises it: two activations, of which one is a function of the other."""
    gate = m.qdq(m.node("Sigmoid", [x]), m.stated(1 / 255))
    return m.node("Mul", [x, gate]), scale * 0.9


def choice(m: OnnxModel, x: str, scale: float):
    """A leaky function whose two branches are quantised on their own."""
    less = m.qdq(m.node("Mul", [x, m.constant(np.float32(0.1))]), m.stated(scale * 0.1))
    more = m.qdq(m.node("Tanh", [x]), m.stated(scale * 0.7))
    positive = m.node("Greater", [less, m.constant(np.float32(0))])
    return m.node("Where", [positive, more, less]), scale * 0.8


def masked(shape, value: float) -> Layer:
    """A constant where a constant condition holds."""

    def build(m: OnnxModel, x: str, scale: float):
        mask = m.constant(m.rng.random(shape) < 0.4)
        return m.node("Where", [mask, m.constant(np.float32(value * scale)), x]), scale * 1.1

    return build


def float_function_then(*steps: tuple, op: str = "HardSwish", factor: float = 0.4) -> Layer:
    """A function, and operators behind it, that are left in float: (op, constants, attributes)."""

    def build(m: OnnxModel, x: str, scale: float):
        y = m.node(op, [x])
        for name, given, more in steps:
            y = m.node(name, [y, *(m.constant(np.asarray(array)) for array in given)], **more)
        return y, scale * factor

    return build


def float_concat(m: OnnxModel, x: str, scale: float):
    """Results of two layers, of which only the whole is quantised."""
    first = m.node("ReduceMean", [x], axes=[2, 3], keepdims=1)
    second = m.node("GlobalAveragePool", [m.node("Tanh", [x])])
    y = m.node("Flatten", [m.node("Concat", [first, second], axis=1)])
    return y, scale * 0.2


def divided(m: OnnxModel, x: str, scale: float):
    """What training with fake quantisation leaves between a convolution and its normalisation."""
    factors = m.constant(m.rng.uniform(0.5, 2, (1, 6, 1, 1)).astype(np.float32))
    return m.node("Div", [x, factors]), None


def cast_bytes(m: OnnxModel, x: str, scale: float):
    """PyTorch's exporter casts every quantised tensor to the type that it has."""
    quantisation = m.stated(scale)
    q = m.node("QuantizeLinear", [m.node("Relu", [x]), *quantisation])
    q = m.node("Cast", [q], to=onnx.helper.np_dtype_to_tensor_dtype(m.dtype))
    return conv(6, 4, (3, 3))(m, m.node("DequantizeLinear", [q, *quantisation]), scale)


SUM = ("ReduceSum", [np.array([1])], {"keepdims": 0})
MEAN = ("ReduceMean", [], {"axes": [2, 3], "keepdims": 1})
FLAT = ("Reshape", [np.array([1, -1])], {})

CASES: dict[str, tuple[tuple[int, ...], Layer]] = {
    "wide gemm": (VECTOR, _beyond_int8(dense("Gemm", 24, 10, bias="none", **WIDE))),
    "wide transposed gemm": (VECTOR, _beyond_int8(dense("Gemm", 24, 5, transB=1, **WIDE))),
    "wide matmul": (SEQUENCE, _beyond_int8(dense("MatMul", 12, 7, bias="none", **WIDE))),
    "wide conv": (IMAGE, _beyond_int8(conv(6, 4, (3, 3), axis=None, bias="none", **WIDE))),
    "wide grouped conv": (IMAGE, _beyond_int8(conv(6, 4, (3, 3), 2, None, "none", **WIDE))),
    "wide depthwise": (IMAGE, _beyond_int8(conv(6, 6, (3, 3), 6, None, "none", **WIDE))),
    "wide conv transpose": (
        IMAGE,
        _beyond_int8(conv_transpose(6, 4, (3, 3), bias="none", wide=True, strides=[2, 2])),
    ),
    "class token": (SEQUENCE, class_token(False)),
    "class token behind": (SEQUENCE, class_token(True)),
    "constant channel": (IMAGE, border_channel),
    "stack": (IMAGE, stack(2)),
    "stack before": (IMAGE, stack(1)),
    "packed attention": (SEQUENCE, packed_attention),
    "where of one tensor": (IMAGE, several(_leaky)),
    "hard shrink": (SEQUENCE, several(_hard_shrink)),
    "cast": (VECTOR, several(_step)),
    "quantised silu": (IMAGE, quantised_silu),
    "choice between quantised functions": (IMAGE, choice),
    "masked": (IMAGE, masked((7, 8), -5.0)),
    "masked with zero": (SEQUENCE, masked((7, 1), 0.0)),
    "triangle": (HEADS, lambda m, x, scale: (m.node("Trilu", [x], upper=0), scale * 1.1)),
    "minimum of image": (IMAGE, reduce("ReduceMin", [2, 3], None)),
    "minimum of features": (SEQUENCE, reduce("ReduceMin", [-1], 0.9, 0)),
    "maximum of channels": (IMAGE, reduce("ReduceMax", [1], None)),
    "maximum of line": (LINE, reduce("ReduceMax", [2], 0.8, 0)),
    "gather points": (IMAGE, constants("GatherND", [np.array([[0, 3], [0, 1]])])),
    "cropped": (IMAGE, constants("Pad", [[0, 0, -1, 2, 0, -2, 0, -3]])),
    "average pool ceil padding": (
        IMAGE,
        unary("AveragePool", 1.0, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    ),
    "float mean, reshape": (IMAGE, chain(unary("ReduceMean", axes=[2, 3]), unary("Flatten", 0.3))),
    "float function, mean": (IMAGE, float_function_then(MEAN)),
    "mean of far larger values": (IMAGE, float_function_then(MEAN, factor=0.1)),
    "sum of a function": (SEQUENCE, float_function_then(SUM, op="Abs", factor=3.0)),
    "float function, mean, reshape": (IMAGE, float_function_then(MEAN, FLAT)),
    "float function, pool": (IMAGE, float_function_then(("GlobalAveragePool", [], {}))),
    "float function, transpose": (IMAGE, float_function_then(("Transpose", [], {}))),
    "float mean, resize": (
        IMAGE,
        chain(
            unary("ReduceMean", axes=[2], keepdims=1),
            resize("nearest", [1, 1, 3, 2]),
            unary("Transpose", 0.5, perm=[0, 1, 3, 2]),
        ),
    ),
    "float concat": (IMAGE, float_concat),
    "batch norm taken apart": (
        IMAGE,
        chain(conv(6, 6, (3, 3), bias="none"), divided, batch_norm(6)),
    ),
    "cast of bytes": (IMAGE, cast_bytes),
    "functions of moved bytes": (
        IMAGE,
        chain(then_conv(unary("Sigmoid"), 6), requantised, unary("Transpose", perm=[0, 2, 3, 1])),
    ),
}
