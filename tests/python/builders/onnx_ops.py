# SPDX-License-Identifier: Apache-2.0
"""The operators between a network's big layers, a row each: input shape, layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import operators

from .onnx_models import IMAGE, VECTOR, Layer, OnnxModel, chain, conv, requantised, unary

LINE, SEQUENCE, HEADS = (1, 6, 20), (1, 7, 12), (1, 3, 5, 8)
FIRST = np.random.default_rng(5).integers(-6, 6, (4, 5))
ELEMENTS = np.arange(-7, 23).reshape(1, 3, 10) % 14 - 7


def function(op: str, factor: float = 1.0, **attributes) -> Layer:
    return unary(op, factor, **attributes)


def of_magnitude(op: str, factor: float) -> Layer:
    """An operator that knows no negative numbers."""
    return chain(unary("Abs", 1.0), requantised, unary("Abs", 1.0), unary(op, factor))


def several(steps: Callable[[OnnxModel, str], str], factor: float = 1.0) -> Layer:
    """Float operators with nothing between them."""
    return lambda m, x, scale: (steps(m, x), scale * factor)


def _silu(m: OnnxModel, x: str) -> str:
    return m.node("Mul", [x, m.node("Sigmoid", [x])])


def _gelu(m: OnnxModel, x: str) -> str:
    """As PyTorch's older exporters write it."""
    inner = m.node("Erf", [m.node("Div", [x, m.constant(np.float32(1.4142135))])])
    inner = m.node("Add", [inner, m.constant(np.float32(1))])
    return m.node("Mul", [m.node("Mul", [x, inner]), m.constant(np.float32(0.5))])


def with_other(op: str, factor: float, relu: bool = False) -> Layer:
    """Two activations of one shape, neither a function of the other."""

    def build(m: OnnxModel, x: str, scale: float):
        ends = [m.constant(np.array([v])) for v in (-1, -1000, -1, -1)]
        other = m.qdq(m.node("Tanh", [m.node("Slice", [x, *ends])]), m.stated(scale * 0.7))
        y = m.node(op, [x, other])
        return (m.node("Relu", [y]) if relu else y), scale * factor

    return build


def with_constant(op: str, shape, factor: float, swapped=False, quantised=False, low=-1.0) -> Layer:
    def build(m: OnnxModel, x: str, scale: float):
        real = m.rng.uniform(low, 1, shape).astype(np.float32) * np.float32(40 * scale)
        if quantised:
            names = [m.constant(np.clip(np.rint(real / 0.02), -128, 127).astype(np.int8))]
            names += [m.constant(np.float32(0.02)), m.constant(np.int8(0))]
            constant = m.node("DequantizeLinear", names)
        else:
            constant = m.constant(real)
        y = m.node(op, [constant, x] if swapped else [x, constant])
        return y, scale * factor * (40 * scale if op in ("Mul", "Div") else 1)

    return build


def squeeze_excite(m: OnnxModel, x: str, scale: float):
    pooled = m.qdq(m.node("GlobalAveragePool", [x]), m.stated(scale * 0.4))
    gate = m.qdq(m.node("Sigmoid", [pooled]), m.stated(1 / 255))
    return m.node("Mul", [x, gate]), scale * 0.8


def split(axis: int, sizes: list[int]) -> Layer:
    """The last part minus nothing, joined with the first: all parts are read."""

    def build(m: OnnxModel, x: str, scale: float):
        inputs = [x, m.constant(np.array(sizes, np.int64))]
        first = m.node("Split", inputs, axis=axis)
        names = [first, *(f"{first}_{i}" for i in range(1, len(sizes)))]
        m.nodes[-1].output[:] = names
        return m.node("Concat", names[::-1], axis=axis), scale

    return build


def constants(op: str, arrays, **attributes) -> Layer:
    """An operator that keeps the scale, with further constant inputs; None: absent."""

    def build(m: OnnxModel, x: str, scale: float):
        names = ["" if array is None else m.constant(np.asarray(array)) for array in arrays]
        return m.node(op, [x, *names], **attributes), None

    return build


def resize(mode: str, scales, **attributes) -> Layer:
    return constants("Resize", [None, np.array(scales, np.float32)], mode=mode, **attributes)


def rescaled(layer: Layer, factor: float, relu: bool = False) -> Layer:
    """A layer whose result has a scale of its own."""

    def build(m: OnnxModel, x: str, scale: float):
        y, _ = layer(m, x, scale)
        return (m.node("Relu", [y]) if relu else y), scale * factor

    return build


def reduce(op: str, axes, factor: float | None, keepdims: int = 1) -> Layer:
    if op == "ReduceSum":
        inputs = [np.array(axes, np.int64)]
        return lambda m, x, scale: (
            m.node(op, [x, m.constant(inputs[0])], keepdims=keepdims),
            scale * factor,
        )
    return unary(op, factor, axes=axes, keepdims=keepdims)


def conv_transpose(
    channels, count, kernel, group=1, bias="int32", wide=False, axis=None, **attributes
) -> Layer:
    def build(m: OnnxModel, x: str, scale: float):
        shape = (channels, count // group, *kernel)
        depth = channels // group * int(np.prod(kernel))
        more = {"dtype": np.uint8, "zero_point": 100, "span": 100} if wide else {}
        names, out_scale = m.weights(shape, axis, scale, depth, "none", **more)
        if bias == "int32":
            values = m.rng.integers(-9000, 9000, count).astype(np.int32)
            product = np.float32(scale) * np.float32(m.weight_scale)
            given = [m.constant(a) for a in (values, product, np.int32(0))]
            names.append(m.node("DequantizeLinear", given))
        return m.node("ConvTranspose", [x, *names], group=group, **attributes), out_scale

    return build


def batch_norm(channels: int) -> Layer:
    def build(m: OnnxModel, x: str, scale: float):
        drawn = [m.rng.uniform(-1.5, 1.5, channels), m.rng.normal(size=channels)]
        drawn += [m.rng.normal(size=channels) * scale * 30, m.rng.uniform(0.5, 2, channels)]
        names = [m.constant(array.astype(np.float32)) for array in drawn]
        return m.node("BatchNormalization", [x, *names]), scale * 1.5

    return build


def attention(heads: int, width: int) -> Layer:
    """Self-attention of a sequence with itself, heads split off and joined again."""

    def build(m: OnnxModel, x: str, scale: float):
        def turn(value, perm):
            to = m.constant(np.array([1, -1, heads, width], np.int64))
            return m.node("Transpose", [m.node("Reshape", [value, to])], perm=perm)

        query, key = turn(x, [0, 2, 1, 3]), turn(x, [0, 2, 3, 1])
        scores = m.node("MatMul", [query, key])
        scores = m.qdq(scores, m.stated(scale * scale * 40 * width**0.5))
        scaled = m.node("Mul", [scores, m.constant(np.float32(width**-0.5))])
        scaled = m.qdq(scaled, m.stated(scale * scale * 40))
        weights = m.qdq(m.node("Softmax", [scaled], axis=-1), m.stated(1 / 255, _least(m)))
        mixed = m.node("MatMul", [weights, turn(x, [0, 2, 1, 3])])
        mixed = m.qdq(mixed, m.stated(scale))
        joined = m.node("Transpose", [mixed], perm=[0, 2, 1, 3])
        to = m.constant(np.array([1, -1, heads * width], np.int64))
        return m.node("Reshape", [joined, to]), scale

    return build


def _least(m: OnnxModel) -> int:
    return int(np.iinfo(m.dtype).min)


def reversed_axes(m: OnnxModel, x: str, scale: float) -> tuple[str, float]:
    """Five axes of more than one element, which three loops cannot copy."""
    _, channels, height, width = IMAGE
    parts = m.constant(np.array([2, channels // 2, height, 2, width // 2]))
    y = m.node("Transpose", [m.node("Reshape", [x, parts])], perm=[4, 3, 1, 2, 0])
    return m.node("Reshape", [y, m.constant(np.array(IMAGE))]), scale


def shuffle(groups: int) -> Layer:
    """Channel shuffle, as ShuffleNet has it."""

    def build(m: OnnxModel, x: str, scale: float):
        _, channels, height, width = IMAGE
        parts = np.array([1, groups, channels // groups, height, width])
        y = m.node("Reshape", [x, m.constant(parts)])
        y = m.node("Transpose", [y], perm=[0, 2, 1, 3, 4])
        y = m.node("Reshape", [y, m.constant(np.array(IMAGE))])
        return conv(6, 4, (1, 1))(m, y, scale)

    return build


def then_conv(layer: Layer, channels: int, kernel=(1, 1)) -> Layer:
    """A layer in the usual order behind, so that a move cannot be put off any longer."""

    def build(m: OnnxModel, x: str, scale: float):
        y, _ = layer(m, x, scale)
        y = m.qdq(y, m.stated(scale))
        return conv(channels, 4, kernel)(m, y, scale)

    return build


PADS = {"pads": [1, 1, 1, 1]}
HALF, ALIGN = "half_pixel", "align_corners"


def hardmax(m: OnnxModel, x: str, scale: float):
    """Of values of which several are cut to the largest."""
    limits = [m.constant(np.float32(limit * scale)) for limit in (-20, 8)]
    cut = m.qdq(m.node("Clip", [x, *limits]), m.stated(scale, 0))
    return m.node("Hardmax", [cut], axis=2), 1 / 255


CASES: dict[str, tuple[tuple[int, ...], Layer]] = {
    **{
        name: (IMAGE, function(name))
        for name in ("Abs", "Ceil", "Celu", "Cos", "Elu", "Erf", "Floor", "HardSigmoid")
    },
    **{
        name: (VECTOR, function(name))
        for name in ("HardSwish", "LeakyRelu", "Neg", "Round", "Selu", "Sigmoid", "Sign", "Sin")
    },
    **{
        name: (LINE, function(name)) for name in ("Softplus", "Softsign", "Tanh", "ThresholdedRelu")
    },
    "exp": (IMAGE, function("Exp", 40.0)),
    "sqrt": (IMAGE, of_magnitude("Sqrt", 0.7)),
    "leaky relu of 0.3": (IMAGE, function("LeakyRelu", alpha=0.3)),
    "silu": (IMAGE, several(_silu)),
    "gelu": (SEQUENCE, several(_gelu)),
    "scalar chain": (IMAGE, with_constant("Add", (), 1.5)),
    "div scalar": (IMAGE, several(lambda m, x: m.node("Div", [x, m.constant(np.float32(3))]), 0.4)),
    "square": (IMAGE, several(lambda m, x: m.node("Mul", [x, x]), 8.0)),
    "add other": (SEQUENCE, with_other("Add", 1.6)),
    "sub": (IMAGE, with_other("Sub", 1.6)),
    "sub relu": (IMAGE, with_other("Sub", 1.6, relu=True)),
    "mul": (IMAGE, with_other("Mul", 1.0)),
    "mul of sequence": (SEQUENCE, with_other("Mul", 1.0)),
    "min": (IMAGE, with_other("Min", 1.0)),
    "max": (VECTOR, with_other("Max", 0.9)),
    "squeeze and excite": (IMAGE, squeeze_excite),
    "add per channel": (IMAGE, with_constant("Add", (6, 1, 1), 1.5)),
    "add per channel quantised": (IMAGE, with_constant("Add", (6, 1, 1), 1.5, quantised=True)),
    "add whole constant": (IMAGE, with_constant("Add", IMAGE, 1.5, quantised=True)),
    "add positions": (SEQUENCE, with_constant("Add", SEQUENCE, 1.5, quantised=True)),
    "sub from constant": (IMAGE, with_constant("Sub", (6, 1, 1), 1.5, swapped=True)),
    "mul per channel": (IMAGE, with_constant("Mul", (1, 6, 1, 1), 0.8)),
    "mul per column": (IMAGE, with_constant("Mul", (8,), 0.8, quantised=True)),
    "div per channel": (VECTOR, with_constant("Mul", (24,), 0.8)),
    "prelu": (IMAGE, lambda m, x, scale: prelu(m, x, scale)),
    "max with constant": (IMAGE, with_constant("Max", (6, 1, 1), 1.0, quantised=True)),
    "slice": (IMAGE, constants("Slice", [[1, 0], [5, 6], [1, 3], [2, 1]])),
    "slice backwards": (IMAGE, constants("Slice", [[-1, 5], [-9, 0], [2, 3], [-1, -2]])),
    "split channels": (IMAGE, split(1, [1, 2, 3])),
    "split rows": (IMAGE, split(2, [3, 4])),
    "split sequence": (SEQUENCE, split(2, [4, 8])),
    "gather": (IMAGE, constants("Gather", [np.array([3, 0, -1])], axis=1)),
    "gather one": (SEQUENCE, constants("Gather", [np.int64(0)], axis=1)),
    "gather elements": (SEQUENCE, constants("GatherElements", [ELEMENTS], axis=-2)),
    "gather elements of the first axis": ((6, 5), constants("GatherElements", [FIRST])),
    "expand": ((1, 6, 1, 8), constants("Expand", [[1, 6, 5, 8]])),
    "tile": (IMAGE, constants("Tile", [[1, 2, 1, 3]])),
    "depth to space": ((1, 12, 3, 4), constants("DepthToSpace", [], blocksize=2)),
    "depth to space crd": ((1, 12, 3, 4), constants("DepthToSpace", [], blocksize=2, mode="CRD")),
    "space to depth": ((1, 3, 6, 4), constants("SpaceToDepth", [], blocksize=2)),
    "pad reflect": (IMAGE, constants("Pad", [[0, 0, 1, 2, 0, 0, 2, 0]], mode="reflect")),
    "pad edge": (IMAGE, constants("Pad", [[0, 0, 1, 2, 0, 0, 2, 0]], mode="edge")),
    "resize nearest": (IMAGE, resize("nearest", [1, 1, 2, 2], nearest_mode="floor")),
    "resize nearest asymmetric": (
        IMAGE,
        resize("nearest", [1, 1, 1.7, 0.6], coordinate_transformation_mode="asymmetric"),
    ),
    "resize linear": (IMAGE, resize("linear", [1, 1, 2, 2], coordinate_transformation_mode=HALF)),
    "resize linear corners": (
        IMAGE,
        resize("linear", [1, 1, 1.5, 2.5], coordinate_transformation_mode=ALIGN),
    ),
    "resize linear rescaled": (IMAGE, rescaled(resize("linear", [1, 1, 1.5, 2]), 0.7)),
    "resize linear relu": (IMAGE, rescaled(resize("linear", [1, 1, 1.5, 1.5]), 0.4, relu=True)),
    "transpose to conv": (IMAGE, then_conv(unary("Transpose", perm=[0, 2, 1, 3]), 7)),
    "shuffle": (IMAGE, shuffle(3)),
    "reversed axes": (IMAGE, then_conv(reversed_axes, 6)),
    "mean of columns": (IMAGE, reduce("ReduceMean", [3], 0.6)),
    "mean of channels": (IMAGE, reduce("ReduceMean", [1], 0.6)),
    "mean of all": (IMAGE, reduce("ReduceMean", [1, 2, 3], 0.3, 0)),
    "mean of sequence": (SEQUENCE, reduce("ReduceMean", [1], 0.5, 0)),
    "mean of features": (SEQUENCE, reduce("ReduceMean", [-1], 0.5)),
    "sum of rows": (IMAGE, reduce("ReduceSum", [2], 3.0)),
    "maximum of image": (IMAGE, reduce("ReduceMax", [2, 3], None)),
    "batch norm": (IMAGE, batch_norm(6)),
    "batch norm of vector": (VECTOR, batch_norm(24)),
    "conv, batch norm": (IMAGE, chain(conv(6, 6, (3, 3), **PADS), batch_norm(6))),
    "conv 1d": (LINE, conv(6, 8, (3,), pads=[1, 1])),
    "conv 1d dilated": (LINE, conv(6, 8, (3,), dilations=[2], strides=[2], pads=[0, 1])),
    "depthwise 1d": (LINE, conv(6, 6, (5,), group=6, pads=[2, 2])),
    "max pool 1d": (LINE, unary("MaxPool", kernel_shape=[2], strides=[2])),
    "average pool 1d": (LINE, unary("AveragePool", 0.8, kernel_shape=[3], pads=[1, 1])),
    "global average pool 1d": (LINE, unary("GlobalAveragePool", 0.5)),
    "pad 1d": (LINE, then_conv(constants("Pad", [[0, 0, 1, 0, 0, 2]]), 6, (3,))),
    "conv transpose": (IMAGE, conv_transpose(6, 4, (3, 3), strides=[2, 2])),
    "conv transpose padded": (
        IMAGE,
        conv_transpose(6, 4, (4, 3), strides=[2, 1], output_padding=[1, 0], **PADS),
    ),
    "conv transpose grouped": (IMAGE, conv_transpose(6, 4, (2, 2), group=2, strides=[2, 2])),
    "conv transpose per channel of a group": (
        IMAGE,
        conv_transpose(6, 4, (2, 2), 2, "none", axis=1, strides=[2, 2]),
    ),
    "conv transpose 1d": (LINE, conv_transpose(6, 4, (3,), strides=[2])),
    "attention": (SEQUENCE, attention(3, 4)),
    "matmul of heads": (HEADS, lambda m, x, scale: heads_product(m, x, scale)),
    "softmax over rows": (IMAGE, lambda m, x, scale: (m.node("Softmax", [x], axis=2), 1 / 255)),
    "hardmax over rows": (IMAGE, hardmax),
    "softmax over heads": (HEADS, lambda m, x, scale: (m.node("Softmax", [x], axis=-1), 1 / 255)),
    **operators.CASES,
}


def prelu(m: OnnxModel, x: str, scale: float):
    slopes = m.constant(m.rng.uniform(-0.3, 0.8, (6, 1, 1)).astype(np.float32))
    return m.node("PRelu", [x, slopes]), scale


def heads_product(m: OnnxModel, x: str, scale: float):
    """Each head times itself, transposed."""
    turned = m.node("Transpose", [x], perm=[0, 1, 3, 2])
    return m.node("MatMul", [x, turned]), scale * scale * 200
