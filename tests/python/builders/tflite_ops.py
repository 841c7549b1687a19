# SPDX-License-Identifier: Apache-2.0
"""Single-operator .tflite files whose shapes and options are drawn too, a row an operator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .tflite_models import Case, TfliteModel

Shape = tuple[int, ...]


def draw(m: TfliteModel, low: int, high: int) -> int:
    return int(m.rng.integers(low, high + 1))


def coin(m: TfliteModel) -> bool:
    return bool(m.rng.random() < 0.5)


def image(m: TfliteModel) -> Shape:
    return 1, draw(m, 1, 7), draw(m, 1, 7), draw(m, 1, 9)


def any_shape(m: TfliteModel) -> Shape:
    return (image, lambda n: (1, draw(n, 1, 40)), lambda n: (1, draw(n, 2, 6), draw(n, 1, 9)))[
        draw(m, 0, 2)
    ](m)


def ints(m: TfliteModel, *values: int) -> int:
    return m.constant(np.array(values, np.int32))


def scaled(m: TfliteModel, scale: float) -> float:
    """Near a scale at which results fill the int8 range."""
    return float(scale * m.rng.uniform(0.4, 1.6))


def repeated(m: TfliteModel, shape: Shape) -> Shape:
    """A shape that broadcasts to another one: some sizes of one, leading dimensions dropped."""
    sizes = tuple(d if m.rng.random() < 0.6 else 1 for d in shape)
    return sizes[draw(m, 0, len(sizes) - 1) :] if coin(m) else sizes


def operand(m: TfliteModel, shape: Shape, constant: bool, like: int | None = None) -> int:
    if not constant:
        return m.activation(shape) if like is None else m.like(like, shape)
    if like is None:
        scale, zero = m.rng.uniform(0.01, 0.2), draw(m, -128, 127)
    else:
        quantisation = m.graph.tensors[like].quantization
        scale, zero = quantisation.scale[0], int(quantisation.zeroPoint[0])
    return m.constant(m.rng.integers(-128, 128, shape).astype(np.int8), [scale], 0, zero)


def binary(
    name: str, kind: str = "", factor: Callable[[float, float], float] | None = None
) -> Case:
    """Both operands activations or one of them constant, of one shape or broadcast."""

    def build(m: TfliteModel):
        shape = any_shape(m)
        other = repeated(m, shape) if coin(m) else shape
        which = draw(m, 0, 2) if name != "PRELU" else draw(m, 0, 1)
        a = operand(m, shape, which == 2)
        same = a if factor is None and name != "PRELU" else None
        b = operand(m, other, which == 1, same)
        if factor is None:
            y = m.like(a, shape) if name != "PRELU" else m.activation(shape)
        else:
            y = m.activation(shape, scaled(m, factor(float(m.scale(a)[0]), float(m.scale(b)[0]))))
        swapped = coin(m) and name != "PRELU"
        options = (
            {"fusedActivationFunction": draw(m, 0, 3)} if kind in ("Add", "Sub", "Mul") else {}
        )
        m.op(name, [b, a] if swapped else [a, b], y, kind, **options)
        return [t for t, index in ((a, 2), (b, 1)) if which != index], [y]

    return build


def unary(name: str, kind: str = "", fixed: tuple[float, int] | None = None, **options) -> Case:
    """fixed: the only output scale and zero point that the operator knows."""

    def build(m: TfliteModel):
        shape = any_shape(m)
        x = m.activation(shape, float(np.exp(m.rng.uniform(-6, -1))))
        scale, zero = fixed or (scaled(m, float(m.scale(x)[0])), None)
        y = m.activation(shape, scale, zero)
        drawn = {key: value(m) if callable(value) else value for key, value in options.items()}
        m.op(name, [x], y, kind, **drawn)
        return [x], [y]

    return build


def reduced(name: str, keeps_scale: bool = False) -> Case:
    def build(m: TfliteModel):
        shape = image(m)
        axes = [a for a in (1, 2, 3) if coin(m)] or [2]
        keep = coin(m)
        x = m.activation(shape)
        count = int(np.prod([shape[a] for a in axes]))
        to = tuple(1 if a in axes else d for a, d in enumerate(shape))
        if not keep:
            to = tuple(d for a, d in enumerate(shape) if a not in axes)
        if keeps_scale:
            y = m.like(x, to)
        else:
            grows = np.sqrt(count) if name == "SUM" else 1.0
            y = m.activation(to, scaled(m, float(m.scale(x)[0]) * float(grows)))
        named = [a - 4 if coin(m) else a for a in axes]
        m.op(name, [x, ints(m, *named)], y, "Reducer", keepDims=keep)
        return [x], [y]

    return build


def moved(name: str, kind: str, build_move) -> Case:
    """build_move(m, shape) gives the operator's other inputs, its options and its output shape."""

    def build(m: TfliteModel):
        shape = image(m)
        x = m.activation(shape)
        others, options, to = build_move(m, shape)
        y = m.like(x, to)
        m.op(name, [x, *others], y, kind, **options)
        return [x], [y]

    return build


def transpose(m: TfliteModel, shape: Shape):
    order = [0, *(int(i) for i in m.rng.permutation([1, 2, 3]))]
    return [ints(m, *order)], {}, tuple(shape[i] for i in order)


def cut(m: TfliteModel, shape: Shape):
    begin = [draw(m, 0, d - 1) for d in shape]
    size = [draw(m, 1, d - b) for b, d in zip(begin, shape, strict=True)]
    named = [
        -1 if b + s == d and coin(m) else s for b, s, d in zip(begin, size, shape, strict=True)
    ]
    return [ints(m, *begin), ints(m, *named)], {}, tuple(size)


def strided(m: TfliteModel, shape: Shape):
    begin, end, step = [0], [1], [1]
    for size in shape[1:]:
        by = draw(m, 1, 3) * (-1 if coin(m) else 1)
        first = draw(m, 0, size - 1)
        begin.append(first)
        end.append(draw(m, first + 1, size) if by > 0 else draw(m, -size - 1, first - size - 1))
        step.append(by)
    masks = {"beginMask": draw(m, 0, 15), "endMask": draw(m, 0, 15)}
    index = []
    for axis, (b, e, s) in enumerate(zip(begin, end, step, strict=True)):
        bit = 1 << axis
        first = None if masks["beginMask"] & bit else b
        index.append(slice(first, None if masks["endMask"] & bit else e, s))
    to = np.empty(shape)[tuple(index)].shape
    inputs = [ints(m, *begin), ints(m, *end), ints(m, *step)]
    return inputs, {**masks, "shrinkAxisMask": 0, "ellipsisMask": 0, "newAxisMask": 0}, to


def gathered(m: TfliteModel, shape: Shape):
    axis = draw(m, 1, 3)
    picks = [draw(m, 0, shape[axis] - 1) for _ in range(draw(m, 1, 6))]
    to = (*shape[:axis], len(picks), *shape[axis + 1 :])
    return [ints(m, *picks)], {"axis": axis, "batchDims": 0}, to


def resized(m: TfliteModel, shape: Shape):
    size = [draw(m, 1, 12), draw(m, 1, 12)]
    align, half = [(False, False), (True, False), (False, True)][draw(m, 0, 2)]
    options = {"alignCorners": align, "halfPixelCenters": half}
    return [ints(m, *size)], options, (1, *size, shape[3])


def reversed_(m: TfliteModel, shape: Shape):
    return [ints(m, draw(m, 1, 3))], {}, shape


def mirrored(m: TfliteModel, shape: Shape):
    mode = draw(m, 0, 1)
    amounts = [(0, 0)] + [(draw(m, 0, d - 1 + mode), draw(m, 0, d - 1 + mode)) for d in shape[1:]]
    to = tuple(d + sum(pair) for d, pair in zip(shape, amounts, strict=True))
    return [m.constant(np.array(amounts, np.int32))], {"mode": mode}, to


def broadcast_to(m: TfliteModel) -> tuple[list[int], list[int]]:
    shape = image(m)
    x = m.activation(tuple(d if coin(m) else 1 for d in shape))
    y = m.like(x, shape)
    m.op("BROADCAST_TO", [x, ints(m, *shape)], y)
    return [x], [y]


def depth_to_space(m: TfliteModel):
    block, (_, height, width, _) = draw(m, 1, 3), image(m)
    depth = draw(m, 1, 4)
    x = m.activation((1, height, width, depth * block * block))
    y = m.like(x, (1, height * block, width * block, depth))
    m.op("DEPTH_TO_SPACE", [x], y, "DepthToSpace", blockSize=block)
    return [x], [y]


def space_to_depth(m: TfliteModel):
    block, (_, height, width, depth) = draw(m, 1, 3), image(m)
    x = m.activation((1, height * block, width * block, depth))
    y = m.like(x, (1, height, width, depth * block * block))
    m.op("SPACE_TO_DEPTH", [x], y, "SpaceToDepth", blockSize=block)
    return [x], [y]


def split(m: TfliteModel):
    axis, count = draw(m, 1, 3), draw(m, 1, 3)
    shape = list(image(m))
    part = tuple(shape)
    shape[axis] *= count
    x = m.activation(shape)
    ys = [m.like(x, part) for _ in range(count)]
    m.op("SPLIT", [ints(m, axis), x], ys[0], "Split", numSplits=count)
    m.graph.operators[-1].outputs = ys
    return [x], ys


def split_v(m: TfliteModel):
    axis, count = draw(m, 1, 3), draw(m, 1, 3)
    sizes = [draw(m, 1, 4) for _ in range(count)]
    shape = list(image(m))
    shape[axis] = sum(sizes)
    x = m.activation(shape)
    ys = [m.like(x, tuple(s if i == axis else d for i, d in enumerate(shape))) for s in sizes]
    m.op("SPLIT_V", [x, ints(m, *sizes), ints(m, axis)], ys[0], "SplitV", numSplits=count)
    m.graph.operators[-1].outputs = ys
    return [x], ys


def unpack(m: TfliteModel):
    shape, axis = image(m), draw(m, 1, 3)
    x = m.activation(shape)
    to = tuple(d for i, d in enumerate(shape) if i != axis)
    ys = [m.like(x, to) for _ in range(shape[axis])]
    m.op("UNPACK", [x], ys[0], "Unpack", num=shape[axis], axis=axis)
    m.graph.operators[-1].outputs = ys
    return [x], ys


def pack(m: TfliteModel):
    shape, axis, count = image(m)[:3], draw(m, 1, 3), draw(m, 1, 3)
    first = m.activation(shape)
    inputs = [first, *(m.like(first, shape) for _ in range(count - 1))]
    y = m.like(first, (*shape[:axis], count, *shape[axis:]))
    m.op("PACK", inputs, y, "Pack", valuesCount=count, axis=axis)
    return inputs, [y]


def arg_extreme(name: str) -> Case:
    kind = "ArgMax" if name == "ARG_MAX" else "ArgMin"

    def build(m: TfliteModel):
        shape, axis = image(m), draw(m, 1, 3)
        x = m.activation(shape)
        to = tuple(d for i, d in enumerate(shape) if i != axis)
        y = m.activation(to, dtype=np.int32)
        m.graph.tensors[y].quantization = None
        m.op(name, [x, ints(m, axis)], y, kind, outputType=2)
        return [x], [y]

    return build


def transpose_conv(m: TfliteModel):
    _, height, width, depth = image(m)
    kernel, stride = (draw(m, 1, 4), draw(m, 1, 4)), (draw(m, 1, 3), draw(m, 1, 3))
    count, same = draw(m, 1, 5), coin(m)
    x = m.activation((1, height, width, depth))
    if same:
        size = height * stride[0], width * stride[1]
    else:
        size = tuple(
            (n - 1) * s + max(k, s) for n, s, k in zip((height, width), stride, kernel, strict=True)
        )
    scales = m.rng.uniform(0.002, 0.02, count).astype(np.float32)
    weights = m.constant(
        m.rng.integers(-127, 128, (count, *kernel, depth)).astype(np.int8), scales, 0
    )
    product = float(m.scale(x)[0]) * scales
    y = m.activation((1, *size, count), scaled(m, float(product.mean() * np.sqrt(depth * 4) * 90)))
    inputs = [ints(m, 1, *size, count), weights, x]
    if coin(m):
        inputs.append(m.constant(m.rng.integers(-9000, 9000, count).astype(np.int32), product, 0))
    options = {"padding": 0 if same else 1, "strideH": stride[0], "strideW": stride[1]}
    m.op("TRANSPOSE_CONV", inputs, y, "TransposeConv", **options)
    return [x], [y]


def batch_matmul_constant(m: TfliteModel):
    rows, depth, columns = draw(m, 1, 5), draw(m, 1, 9), draw(m, 1, 7)
    turned = coin(m)
    a = m.activation((1, rows, depth))
    shape = (1, columns, depth) if turned else (1, depth, columns)
    values = m.rng.integers(-127, 128, shape).astype(np.int8)
    b = m.constant(values, [m.rng.uniform(0.005, 0.02)], 0, 0)
    y = m.activation((1, rows, columns))
    m.op("BATCH_MATMUL", [a, b], y, "BatchMatMul", adjX=False, adjY=turned)
    return [a], [y]


def batch_matmul(m: TfliteModel):
    batch, lines, depth, columns = draw(m, 1, 3), draw(m, 1, 5), draw(m, 1, 9), draw(m, 1, 6)
    turn_x, turn_y = coin(m), coin(m)
    leading = (1, batch) if batch > 1 or coin(m) else (1,)
    a = m.activation((*leading, *((depth, lines) if turn_x else (lines, depth))))
    b = m.activation((*leading, *((columns, depth) if turn_y else (depth, columns))))
    product = float(m.scale(a)[0] * m.scale(b)[0])
    scale = scaled(m, product * np.sqrt(depth) * 80)
    y = m.activation((*leading, lines, columns), scale)
    m.op("BATCH_MATMUL", [a, b], y, "BatchMatMul", adjX=turn_x, adjY=turn_y)
    return [a, b], [y]


def larger(a: float, b: float) -> float:
    return 2 * max(a, b)


def slope(m: TfliteModel) -> float:
    return float(m.rng.uniform(-0.5, 1.5))


CASES: dict[str, Case] = {
    "ADD": binary("ADD", "Add", larger),
    "SUB": binary("SUB", "Sub", larger),
    "MUL": binary("MUL", "Mul", lambda a, b: a * b * 100),
    "MINIMUM": binary("MINIMUM", "MaximumMinimum"),
    "MAXIMUM": binary("MAXIMUM", "MaximumMinimum"),
    "SQUARED_DIFFERENCE": binary(
        "SQUARED_DIFFERENCE", "SquaredDifference", lambda a, b: max(a, b) ** 2 * 200
    ),
    "PRELU": binary("PRELU"),
    "LOGISTIC": unary("LOGISTIC", fixed=(1 / 256, -128)),
    "TANH": unary("TANH", fixed=(1 / 128, 0)),
    "HARD_SWISH": unary("HARD_SWISH", "HardSwish"),
    "LEAKY_RELU": unary("LEAKY_RELU", "LeakyRelu", alpha=slope),
    "ELU": unary("ELU"),
    "ABS": unary("ABS", "Abs"),
    "RELU": unary("RELU"),
    "QUANTIZE": unary("QUANTIZE", "Quantize"),
    "MEAN": reduced("MEAN"),
    "SUM": reduced("SUM"),
    "REDUCE_MAX": reduced("REDUCE_MAX", keeps_scale=True),
    "REDUCE_MIN": reduced("REDUCE_MIN", keeps_scale=True),
    "L2_NORMALIZATION": unary("L2_NORMALIZATION", "L2Norm", fixed=(1 / 128, 0)),
    "LOG_SOFTMAX": unary("LOG_SOFTMAX", "LogSoftmax", fixed=(1 / 16, 127)),
    "ARG_MAX": arg_extreme("ARG_MAX"),
    "ARG_MIN": arg_extreme("ARG_MIN"),
    "TRANSPOSE": moved("TRANSPOSE", "Transpose", transpose),
    "SLICE": moved("SLICE", "Slice", cut),
    "STRIDED_SLICE": moved("STRIDED_SLICE", "StridedSlice", strided),
    "GATHER": moved("GATHER", "Gather", gathered),
    "REVERSE_V2": moved("REVERSE_V2", "ReverseV2", reversed_),
    "MIRROR_PAD": moved("MIRROR_PAD", "MirrorPad", mirrored),
    "BROADCAST_TO": broadcast_to,
    "SPLIT": split,
    "SPLIT_V": split_v,
    "UNPACK": unpack,
    "PACK": pack,
    "DEPTH_TO_SPACE": depth_to_space,
    "SPACE_TO_DEPTH": space_to_depth,
    "RESIZE_NEAREST_NEIGHBOR": moved("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighbor", resized),
    "RESIZE_BILINEAR": moved("RESIZE_BILINEAR", "ResizeBilinear", resized),
    "TRANSPOSE_CONV": transpose_conv,
    "BATCH_MATMUL": batch_matmul,
    "BATCH_MATMUL by a constant": batch_matmul_constant,
}
