# SPDX-License-Identifier: Apache-2.0
"""Random layers of the operators between a network's big layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import operators
from random_builder import Builder
from vmcu_tools.frontends.softmax import differences, tflite_table
from vmcu_tools.graph import Shape, Tensor, Window
from vmcu_tools.ops.arg_max import ArgMax
from vmcu_tools.ops.binary import Binary
from vmcu_tools.ops.hardmax import Hardmax
from vmcu_tools.ops.l2_norm import L2Norm
from vmcu_tools.ops.layer_norm import LayerNorm
from vmcu_tools.ops.log_softmax import LogSoftmaxPolynomial
from vmcu_tools.ops.lookup import Lookup
from vmcu_tools.ops.move import Move
from vmcu_tools.ops.resize import Resize
from vmcu_tools.ops.table_mean import TableMean
from vmcu_tools.ops.transpose_conv import TransposeConv2D
from vmcu_tools.quant import FloatProduct

KINDS = (
    *("sum", "difference", "reversed", "squared", "product", "minimum", "maximum", "prelu"),
    *("float_sum", "float_product", "quotient"),
)


def lookup(b: Builder) -> Tensor:
    x = b.input(b.shape())
    return b.node(Lookup(b.rng.integers(-128, 128, 256).astype(np.int8)), [x], x.shape)


def _repeated(b: Builder, shape: Shape) -> Shape:
    """The shape with some of its sizes one."""
    if b.rng.random() < 0.4:
        return shape
    height, width, channels = (d if b.rng.random() < 0.5 else 1 for d in shape)
    return height, width, channels


def binary(b: Builder) -> Tensor:
    shape = b.shape()
    first, second = _repeated(b, shape), _repeated(b, shape)
    kind = KINDS[int(b.rng.integers(0, len(KINDS)))]
    op = binary_of(b, kind)
    inputs = [b.input(first)]
    if b.rng.random() < 0.5:
        zero = int(b.rng.integers(-128, 128))
        op = replace(op, constant=b.weights(*second), constant_zero=zero)
    else:
        inputs.append(b.input(second))
    height, width, channels = (max(pair) for pair in zip(first, second, strict=True))
    return b.node(op, inputs, (height, width, channels))


def binary_of(b: Builder, kind: str) -> Binary:
    if kind in ("minimum", "maximum"):
        if b.rng.random() < 0.5:
            return Binary(kind, **b.limits())
        return Binary(kind, b.factor(0.3, 3.0), b.factor(0.3, 3.0), **b.limits())
    if kind == "product":
        return Binary(kind, out=b.factor(0.002, 0.02), **b.limits())
    if kind == "float_sum":
        return Binary(kind, sum=b.float_sum(), **b.limits())
    if kind == "float_product":
        factor = b.rng.choice([2.0**-8, b.rng.uniform(0.002, 0.02), b.rng.uniform(0, 2)])
        product = FloatProduct(float(np.float32(factor)), b.pick(0, 128))
        return Binary(kind, product=product, **b.limits())
    if kind == "quotient":
        # Smaller factors would shift by more than 31 bits.
        return Binary(kind, out=b.factor(256.0, 4000.0), **b.limits())
    if kind == "prelu":
        return Binary(kind, b.factor(0.3, 3.0), out=b.factor(0.002, 0.02), **b.limits())
    shift = 7 if kind == "squared" else 20
    out = b.factor(2.0**-26, 2.0**-21) if kind == "squared" else b.factor(2.0**-21, 2.0**-17)
    return Binary(kind, b.factor(0.1, 0.5), b.factor(0.1, 0.5), out, shift, **b.limits())


def move(b: Builder) -> Tensor:
    """A transposition, a slice, a repetition, or blocks of pixels turned into channels."""
    x = b.input(b.shape())
    index = np.arange(x.bytes).reshape(x.shape)
    which = int(b.rng.integers(0, 5))
    if which == 0:
        index = index.transpose([int(a) for a in b.rng.permutation([0, 1, 2])])
    elif which == 1:
        for axis in range(3):
            picks = b.rng.integers(0, x.shape[axis], int(b.rng.integers(1, 7)))
            index = index.take(np.asarray(picks), axis)
    elif which == 2:
        index = index[:: b.pick(1, -1, 2), :: b.pick(1, -1, -2), :: b.pick(1, 1, -1)]
    elif which == 3:
        index = index.transpose(1, 0, 2).reshape(1, x.shape[1], -1)
    else:
        index = index.transpose(2, 0, 1).reshape(1, 1, -1)
    first = index[0, 0, 0]
    op = Move(index[:, 0, 0], index[0, :, 0] - first, index[0, 0, :] - first)
    return b.node(op, [x], (index.shape[0], index.shape[1], index.shape[2]))


def resize(b: Builder) -> Tensor:
    x = b.input(b.shape())
    tables = []
    for axis in (0, 1):
        count, size = b.pick(1, 2, 5, 9), x.shape[axis]
        taps = [b.rng.integers(0, size, count), b.rng.integers(0, size, count)]
        # Beyond the image both taps are its edge, and their weights leave 0 .. 1024.
        weights = np.where(taps[0] == taps[1], b.rng.integers(-512, 1537, count), 0)
        weights = np.where(taps[0] == taps[1], weights, b.rng.integers(0, 1025, count))
        tables.append(np.stack([*taps, weights], axis=1).astype(np.int32))
    shape = len(tables[0]), len(tables[1]), x.shape[2]
    factor = b.factor(2.0**-22, 2.0**-18) if b.rng.random() < 0.5 else None
    return b.node(Resize(tables[0], tables[1], factor, **b.limits()), [x], shape)


def transpose_conv(b: Builder) -> Tensor:
    height, width, _ = b.shape()
    groups, depth, per_group = b.pick(1, 1, 2, 3), b.pick(1, 2, 5), b.pick(1, 3)
    x = b.input((height, width, depth * groups))
    kernel, stride = (b.pick(1, 2, 3), b.pick(1, 3, 4)), (b.pick(1, 2, 3), b.pick(1, 2))
    dilation = b.pick(1, 1, 2), b.pick(1, 1, 3)
    pad = b.pick(0, 0, 1), b.pick(0, 1, 2)
    sizes = []
    for axis in (0, 1):
        full = (x.shape[axis] - 1) * stride[axis] + (kernel[axis] - 1) * dilation[axis] + 1
        sizes.append(max(full - pad[axis] - b.pick(0, 1), 1))
    count = per_group * groups
    op = TransposeConv2D(
        b.weights(count, *kernel, depth),
        b.bias(count),
        stride,
        pad,
        b.requant(count, depth * 4),
        groups,
        dilation,
        **b.limits(),
    )
    return b.node(op, [x], (sizes[0], sizes[1], count))


def layer_norm(b: Builder) -> Tensor:
    x = b.input((b.pick(1, 3), b.pick(1, 4), b.pick(1, 2, 9, 64)))
    bits = b.pick(1, 8, 16)
    channels = x.shape[2]
    run = b.pick(*(n for n in (1, 2, 3, 64) if channels % n == 0))
    # One pixel's factors, or those of several.
    count = channels // run * b.pick(1, 2, x.shape[0])
    gain = b.rng.uniform(-40, 40, count) * 2.0**bits
    offset = b.rng.uniform(-90, 90, count) * 2.0**bits
    epsilon = int(b.rng.choice([0, 1, 1000, 2**40]))
    factors = (np.rint(values).astype(np.int32) for values in (gain, offset))
    fraction = b.pick(0, 2, 16)
    op = LayerNorm(*factors, bits, epsilon, bool(b.rng.random() < 0.6), run, fraction)
    return b.node(replace(op, **b.limits()), [x], x.shape)


def arg_max(b: Builder) -> Tensor:
    x = b.input(b.shape())
    op = ArgMax(bool(b.rng.random() < 0.5), bool(b.rng.random() < 0.5))
    return b.node(op, [x], (*x.shape[:2], 4))


def hardmax(b: Builder) -> Tensor:
    x = b.input((b.pick(1, 3), b.pick(1, 4), b.pick(1, 2, 9, 64)))
    one, zero = (int(v) for v in b.rng.integers(-128, 128, 2))
    return b.node(Hardmax(one, zero, **b.limits()), [x], x.shape)


def l2_norm(b: Builder) -> Tensor:
    x = b.input((b.pick(1, 3), b.pick(1, 4), b.pick(1, 2, 9, 64)))
    return b.node(L2Norm(**b.limits()), [x], x.shape)


def log_softmax_tflite(b: Builder) -> Tensor:
    x = b.input((b.pick(1, 3), b.pick(1, 4), b.pick(1, 2, 9, 64)))
    scale = float(np.exp(b.rng.uniform(-7, 1)))
    op = LogSoftmaxPolynomial(tflite_table(scale, 1.0), differences(scale), **b.limits())
    return b.node(op, [x], x.shape)


def table_mean(b: Builder) -> Tensor:
    x, window = b.input(b.shape()), Window((1, 1))
    while True:
        kernel, stride = (b.pick(1, 2, 3, 5), b.pick(1, 2, 4)), (b.pick(1, 2, 3), b.pick(1, 2))
        pad = tuple(b.pick(0, 0, 1) for _ in range(4))
        window = Window(kernel, stride, (b.pick(1, 1, 2), 1), (pad[0], pad[1], pad[2], pad[3]))
        high, wide = (window.out_size(axis, x.shape[axis]) for axis in (0, 1))
        if high > 0 and wide > 0:
            break
    bits = b.pick(0, 3, 22)
    # Small whole numbers, so that there are ties.
    table = b.rng.integers(-200, 201, 256) << bits
    op = TableMean(table.astype(np.int32), window, bits, b.pick(0, 0, 1, 6), **b.limits())
    return b.node(op, [x], (high, wide, x.shape[2]))


POINTWISE = (lookup, binary, binary, layer_norm, arg_max, hardmax, l2_norm, log_softmax_tflite)


def pointwise_operator(b: Builder) -> Tensor:
    """Those that work on one pixel at a time."""
    return POINTWISE[int(b.rng.integers(0, len(POINTWISE)))](b)


def moving_operator(b: Builder) -> Tensor:
    return (move, resize)[int(b.rng.integers(0, 2))](b)


OPERATORS: dict[str, Callable[[Builder], Tensor]] = {
    "pointwise_operator": pointwise_operator,
    "moving_operator": moving_operator,
    "transpose_conv": transpose_conv,
    "table_mean": table_mean,
    **operators.LAYERS,
}
