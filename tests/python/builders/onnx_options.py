# SPDX-License-Identifier: Apache-2.0
"""Operators that only some opset has, and options that no network at hand has: opset, input shape,
layer."""

from __future__ import annotations

import numpy as np
import onnx

from .onnx_models import IMAGE, VECTOR, Layer, OnnxModel, chain, conv, requantised, unary
from .onnx_norms import OUT
from .onnx_ops import (
    HEADS,
    LINE,
    SEQUENCE,
    batch_norm,
    constants,
    conv_transpose,
    resize,
)

COORDINATES = "coordinate_transformation_mode"


def index_of_extreme(op: str, **attributes) -> onnx.ModelProto:
    """A model of (1, 3, 4, 5) that ends with the index of a least or a largest value."""
    m = OnnxModel()
    y = m.node(op, [m.qdq("x", m.stated(0.5, 0))], **attributes)
    kinds = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    return m.proto({"x": (kinds[0], (1, 3, 4, 5))}, {y: (kinds[1], None)})


# For it: which axis, whether it stays, and which of equal values counts.
INDICES = [
    (op, {"axis": axis, "keepdims": keep, "select_last_index": last})
    for op in ("ArgMax", "ArgMin")
    for axis in (1, 2, -1)
    for keep in (0, 1)
    for last in (0, 1)
]


def group_norm(groups: int, count: int, **attributes) -> Layer:
    """count: of factors, one for each group up to opset 20, then one for each channel."""

    def build(m: OnnxModel, x: str, scale: float):
        gain = m.constant(m.rng.uniform(0.3, 2, count).astype(np.float32))
        offset = m.constant(m.rng.normal(size=count).astype(np.float32))
        return m.node("GroupNormalization", [x, gain, offset], num_groups=groups, **attributes), OUT

    return build


def rms_norm(axis: int, shape: tuple[int, ...], op: str = "RMSNormalization", **more) -> Layer:
    def build(m: OnnxModel, x: str, scale: float):
        gain = m.constant(m.rng.uniform(0.3, 2, shape).astype(np.float32))
        return m.node(op, [x, gain], axis=axis, **more), OUT

    return build


def layer_norm(axis: int, width: int) -> Layer:
    def build(m: OnnxModel, x: str, scale: float):
        gain = m.constant(m.rng.uniform(0.3, 2, width).astype(np.float32))
        return m.node("LayerNormalization", [x, gain], axis=axis), OUT

    return build


def instance_norm(m: OnnxModel, x: str, scale: float):
    factors = [m.constant(np.linspace(a, b, 6).astype(np.float32)) for a, b in ((0.5, 2), (-1, 1))]
    return m.node("InstanceNormalization", [x, *factors], epsilon=0.3), OUT


def split(count: int, **attributes) -> Layer:
    """Equal parts, joined in the opposite order."""

    def build(m: OnnxModel, x: str, scale: float):
        first = m.node("Split", [x], **attributes)
        names = [first, *(f"{first}_{i}" for i in range(1, count))]
        m.nodes[-1].output[:] = names
        return m.node("Concat", names[::-1], axis=attributes["axis"]), scale

    return build


def dropout(m: OnnxModel, x: str, scale: float):
    return m.node("Dropout", [m.node("MaxPool", [x], kernel_shape=[2, 2])]), None


def padded(mode: str, amounts: list[int], value: float | None = None) -> Layer:
    given = [np.array(amounts), *([] if value is None else [np.float32(value)])]
    return constants("Pad", given, mode=mode)


def epsilon_of(value: float) -> Layer:
    def build(m: OnnxModel, x: str, scale: float):
        y, out = batch_norm(6)(m, x, scale)
        m.nodes[-1].attribute.append(onnx.helper.make_attribute("epsilon", value))
        return y, out

    return build


def soft(op: str, **attributes) -> Layer:
    """Of a tensor of which, before opset 13, all axes from one on count together."""

    def build(m: OnnxModel, x: str, scale: float):
        return m.node(op, [x], **attributes), 1 / 255 if op == "Softmax" else scale * 1.2

    return build


def quantised_weights(axis: int) -> Layer:
    """Float weights behind their own QuantizeLinear."""

    def build(m: OnnxModel, x: str, scale: float):
        real = m.rng.uniform(-1, 1, (24, 7)).astype(np.float32)
        scales = np.abs(real).max(1 - axis).astype(np.float32) / 127
        stated = m.constant(scales), m.constant(np.zeros(len(scales), np.int8))
        w = m.node("QuantizeLinear", [m.constant(real), *stated], axis=axis)
        w = m.node("DequantizeLinear", [w, *stated], axis=axis)
        return m.node("MatMul", [x, w]), scale * 3

    return build


def requantised_weights(m: OnnxModel, x: str, scale: float):
    """Weights that go through a coarser quantisation."""
    names, out = m.weights((24, 7), None, scale, 24, "none")
    coarse = m.constant(np.float32(4.5 * m.weight_scale)), m.constant(np.int8(3))
    w = m.node("QuantizeLinear", [names[0], *coarse])
    return m.node("MatMul", [x, m.node("DequantizeLinear", [w, *coarse])]), out


def reduced_curve(op: str, share: float) -> Layer:
    """Of a function of one value without a quantisation of its own. share: of a full scale of 1."""

    def build(m: OnnxModel, x: str, scale: float):
        y = m.node("Tanh", [x])
        if op == "ReduceSum":
            return m.node(op, [y, m.constant(np.array([2]))], keepdims=1), share / 127
        return m.node(op, [y], axes=[2], keepdims=1), share / 127

    return build


def gemm_of_one_bias(m: OnnxModel, x: str, x_scale: float) -> tuple[str, float]:
    """A bias that all columns share."""
    names, scale = m.weights((24, 10), None, x_scale, 24, "none")
    stated = [m.constant(a) for a in (np.float32(x_scale) * m.weight_scale, np.int32(0))]
    bias = m.node("DequantizeLinear", [m.constant(np.array([321], np.int32)), *stated])
    return m.node("Gemm", [x, *names, bias]), scale


_POOLS = {
    f"{op} {auto.lower()}": (
        13,
        IMAGE,
        unary(op, factor, kernel_shape=[2, 3], strides=[2, 2], auto_pad=auto),
    )
    for op, factor in (("MaxPool", None), ("AveragePool", 0.9))
    for auto in ("VALID", "SAME_UPPER", "SAME_LOWER")
}
_NEAREST = {
    f"resize {mode} {how}": (
        13,
        IMAGE,
        resize("nearest", [1, 1, 1.7, 0.6], nearest_mode=mode, **{COORDINATES: how}),
    )
    for mode in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    for how in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
}
# Of forty values each: output's full scales below which one reduction would be too coarse.
CURVES = {
    "sum": ((1, 8, 40, 6), reduced_curve("ReduceSum", 1.5)),
    "mean": ((1, 8, 40, 6), reduced_curve("ReduceMean", 0.1)),
}
# Twice as large, every other place lies half way between two elements.
_TIES = {
    f"resize {mode} of ties": (
        13,
        IMAGE,
        resize("nearest", [1, 1, 2, 2], nearest_mode=mode, **{COORDINATES: "asymmetric"}),
    )
    for mode in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
}
_LINEAR = {
    f"resize linear {how} {factor}": (
        13,
        IMAGE,
        resize("linear", [1, 1, *factors], **{COORDINATES: how}),
    )
    for how in ("asymmetric", "pytorch_half_pixel")
    for factor, factors in (("larger", (1.5, 2.5)), ("to one", (0.15, 0.5)))
}

CASES: dict[str, tuple[int, tuple[int, ...], Layer]] = {
    **_POOLS,
    **_NEAREST,
    **_TIES,
    **_LINEAR,
    "weights quantised again": (13, (1, 24), requantised_weights),
    "max pool valid ceil": (
        13,
        IMAGE,
        unary("MaxPool", kernel_shape=[2, 2], strides=[2, 3], auto_pad="VALID", ceil_mode=1),
    ),
    "pad with a value beyond the input's": (
        13,
        IMAGE,
        unary("Pad", 3.0, constants=[np.array([0, 0, 1, 2, 0, 0, 0, 3]), np.float32(-30)]),
    ),
    "gemm of one bias": (13, VECTOR, gemm_of_one_bias),
    "conv valid": (13, IMAGE, conv(6, 4, (3, 2), strides=[2, 1], auto_pad="VALID")),
    "conv transpose dilated": (
        13,
        IMAGE,
        conv_transpose(6, 4, (3, 2), strides=[2, 1], dilations=[2, 3]),
    ),
    "average pool of a kernel alone": (13, IMAGE, unary("AveragePool", 0.9, kernel_shape=[2, 3])),
    "flatten rows": (13, (1, 5, 1, 8), unary("Flatten", axis=2)),
    "flatten from the end": (13, (1, 5, 1, 8), unary("Flatten", axis=-1)),
    "gather from the end": (13, IMAGE, constants("Gather", [np.array([[1, -1]])], axis=-2)),
    "reshape that allows zero": (
        14,
        (1, 12),
        constants("Reshape", [np.array([1, 3, 4])], allowzero=1),
    ),
    "pad wrap": (19, IMAGE, padded("wrap", [0, 1, 2, 0, 0, 2, 0, 3])),
    "pad with a number": (13, IMAGE, padded("constant", [0, 0, 1, 2, 0, 0, 2, 0], 0.7)),
    "pad some axes": (
        18,
        IMAGE,
        constants("Pad", [np.array([1, 2]), np.float32(-0.5), np.array([-1])]),
    ),
    "pad by attributes": (10, IMAGE, unary("Pad", pads=[0, 0, 1, 2, 0, 0, 2, 0], value=0.6)),
    "clip by attributes": (10, IMAGE, unary("Clip", min=-1.5, max=2.0)),
    "split by count": (18, IMAGE, split(3, axis=1, num_outputs=3)),
    "split by attribute": (11, IMAGE, split(2, axis=3, split=[3, 5])),
    "split first axis of a line": (11, LINE, split(2, axis=-1)),
    "depth to space of 3": (13, (1, 18, 3, 4), constants("DepthToSpace", [], blocksize=3)),
    "space to depth of 3": (13, (1, 2, 6, 9), constants("SpaceToDepth", [], blocksize=3)),
    "dropout": (13, IMAGE, dropout),
    "trilu upper": (14, HEADS, lambda m, x, scale: (m.node("Trilu", [x]), scale * 1.1)),
    "trilu off the diagonal": (
        14,
        HEADS,
        lambda m, x, scale: (m.node("Trilu", [x, m.constant(np.int64(-1))], upper=1), scale),
    ),
    "group norm of channels": (21, IMAGE, group_norm(3, 6, epsilon=0.1)),
    "group norm of groups": (18, IMAGE, group_norm(2, 2)),
    "rms norm": (23, SEQUENCE, rms_norm(-1, (12,))),
    "rms norm of several axes": (23, SEQUENCE, rms_norm(1, (7, 12), epsilon=0.1)),
    "simplified layer norm of large epsilon": (
        17,
        SEQUENCE,
        rms_norm(-1, (12,), "SimplifiedLayerNormalization", epsilon=0.1),
    ),
    "layer norm of usual epsilon": (17, SEQUENCE, layer_norm(-1, 12)),
    "instance norm of large epsilon": (13, IMAGE, instance_norm),
    "batch norm of large epsilon": (13, IMAGE, epsilon_of(0.3)),
    "softmax of several axes": (11, IMAGE, soft("Softmax", axis=2)),
    "log softmax of several axes": (11, IMAGE, soft("LogSoftmax", axis=2)),
    "hardmax of several axes": (11, IMAGE, soft("Hardmax", axis=1)),
    "unit length of rows": (13, IMAGE, soft("LpNormalization", axis=-1, p=2)),
    "quantised weights by column": (13, VECTOR, quantised_weights(1)),
    "max pool then all": (
        13,
        IMAGE,
        chain(unary("MaxPool", kernel_shape=[2, 2]), requantised, unary("ReduceMean", 0.4)),
    ),
}
