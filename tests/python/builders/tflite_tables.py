# SPDX-License-Identifier: Apache-2.0
"""Single-operator .tflite files around functions of one element, float ones among them, and around
tensors of more than four dimensions: see tflite_ops.py."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .tflite_models import Case, TfliteModel
from .tflite_ops import (
    any_shape,
    coin,
    draw,
    image,
    ints,
    scaled,
    split,
    split_v,
    unpack,
)

BOOL = np.bool_


def real(m: TfliteModel, shape) -> int:
    return m.activation(shape, dtype=np.float32)


def positive(m: TfliteModel, shape, least: int = 0) -> int:
    """An int8 activation whose values are not negative."""
    return m.activation(shape, float(np.exp(m.rng.uniform(-6, -2))), -128 - least)


def fitting(low: float, high: float) -> tuple[float, int]:
    """Scale and zero point of an output with this range."""
    scale = max(high - low, 1e-3) / 255
    return scale, int(np.clip(round(-128 - low / scale), -128, 127))


def in_float(
    name: str,
    function: Callable[[np.ndarray], np.ndarray],
    kind: str = "",
    constant: Callable[[TfliteModel], float] | None = None,
    signed: bool = True,
    **options,
) -> Case:
    """DEQUANTIZE, the operator in float32 and QUANTIZE. function: the operator's, for its range.
    constant: draws the second operand, which is float32; `swapped` operands happen too."""

    def build(m: TfliteModel):
        shape = any_shape(m)
        x = (
            m.activation(shape, float(np.exp(m.rng.uniform(-5, -3))))
            if signed
            else positive(m, shape)
        )
        f, g = real(m, shape), real(m, shape)
        quantisation = m.graph.tensors[x].quantization
        values = (np.arange(-128, 128) - quantisation.zeroPoint[0]) * quantisation.scale[0]
        inputs = [f]
        m.op("DEQUANTIZE", [x], f)
        if constant is None:
            results = function(values)
        else:
            second = np.float32(constant(m))
            results = function(values, second)
            inputs.append(m.constant(np.array(second)))
        drawn = {key: value(m) if callable(value) else value for key, value in options.items()}
        m.op(name, inputs, g, kind, **drawn)
        y = m.activation(shape, *fitting(float(np.min(results)), float(np.max(results))))
        m.op("QUANTIZE", [g], y)
        return [x], [y]

    return build


def expression(m: TfliteModel):
    """Several float operators, some of whose results are read twice: x * tanh(log(1 + exp(x)))."""
    shape = any_shape(m)
    x = m.activation(shape, float(np.exp(m.rng.uniform(-5, -3))))
    return [x], [_mish(m, x, shape)]


def parted_in_float(case: Case) -> Case:
    """A case of one operator with several outputs, with its input computed in float, where the
    converter leaves it, and its outputs in scales of their own."""

    def build(m: TfliteModel):
        (x,), outputs = case(m)
        (parting,) = m.graph.operators
        m.graph.operators = []
        shapes = {i: tuple(m.graph.tensors[i].shape) for i in (x, *outputs)}
        f = m.op("DEQUANTIZE", [x], real(m, shapes[x]))
        g = m.op("ABS", [f], real(m, shapes[x]), "Abs") if coin(m) else f
        parting.inputs = [g if i == x else i for i in parting.inputs]
        parting.outputs = [real(m, shapes[i]) for i in outputs]
        m.graph.operators.append(parting)
        found = []
        for i in parting.outputs:
            shape, scale = tuple(m.graph.tensors[i].shape), scaled(m, float(m.scale(x)[0]))
            found.append(m.op("QUANTIZE", [i], m.activation(shape, scale)))
        return [x], found

    return build


def expression_behind(m: TfliteModel):
    """The same of what an operator has made that looks at several elements, or moves them."""
    shape = image(m)
    x = m.activation(shape, float(np.exp(m.rng.uniform(-5, -3))))
    if coin(m):
        flat = (1, int(np.prod(shape)))
        return [x], [
            _mish(
                m, m.op("RESHAPE", [x, m.constant(np.array(flat, np.int32))], m.like(x, flat)), flat
            )
        ]
    pooled = m.op(
        "MAX_POOL_2D",
        [x],
        m.like(x, shape),
        "Pool2D",
        filterHeight=1,
        filterWidth=1,
        strideH=1,
        strideW=1,
        padding=1,
    )
    return [x], [_mish(m, pooled, shape)]


def _mish(m: TfliteModel, x: int, shape: tuple[int, ...]) -> int:
    f = m.op("DEQUANTIZE", [x], real(m, shape))
    e = m.op("EXP", [f], real(m, shape))
    one = m.constant(np.array([1], np.float32))
    a = m.op("ADD", [one, e], real(m, shape), "Add")
    t = m.op("TANH", [m.op("LOG", [a], real(m, shape))], real(m, shape))
    y = m.op("MUL", [f, t], real(m, shape), "Mul")
    return m.op("QUANTIZE", [y], m.activation(shape, scaled(m, float(m.scale(x)[0]))))


def selected(name: str) -> Case:
    """SELECT_V2 of an int8 tensor and of what another operator makes of it, by a comparison."""

    def build(m: TfliteModel):
        shape = any_shape(m)
        x = m.activation(shape)
        number = m.constant(np.array(draw(m, -128, 127), np.int8), [m.rng.uniform(0.01, 0.2)], 0, 9)
        condition = m.activation(shape, dtype=BOOL)
        m.graph.tensors[condition].quantization = None
        m.op(name, [number, x] if coin(m) else [x, number], condition)
        z = m.like(x, shape)
        factor = m.constant(np.array(draw(m, 1, 127), np.int8), [0.01], 0, 0)
        m.op("MUL", [x, factor], z, "Mul")
        branches = [x, z] if coin(m) else [z, m.constant(np.array(5, np.int8), m.scale(x), 0, 3)]
        y = m.like(x, shape)
        m.op("SELECT_V2", [condition, *branches], y)
        return [x], [y]

    return build


def division(m: TfliteModel):
    """Divisors are not zero, and factors so large that no shift goes beyond 31 bits."""
    shape, which = any_shape(m), draw(m, 0, 2)
    x = m.activation(shape)
    zero, scale = draw(m, -100, 100), float(m.rng.uniform(0.01, 0.2))
    inputs, extra = [x], []
    if which == 0:
        values = m.rng.integers(-128, 128, shape if coin(m) else shape[-1:]).astype(np.int8)
        values[values == zero] = zero + 1
        inputs.append(m.constant(values, [scale], 0, zero))
    else:
        y = m.activation(shape, scale, zero)
        z = m.like(y, shape)
        bound = m.constant(np.array(zero + 1, np.int8), [scale], 0, zero)
        m.op("MAXIMUM", [y, bound], z, "MaximumMinimum")
        extra.append(y)
        inputs.append(z)
    first = float(m.scale(x)[0])
    if which == 2:
        first = float(m.rng.uniform(0.01, 0.2))
        inputs[0] = m.constant(np.array(draw(m, 100, 127), np.int8), [first], 0, -100)
        x = None
    out = first / scale / float(np.exp(m.rng.uniform(np.log(130), np.log(8000))))
    y = m.activation(shape, out)
    m.op("DIV", inputs, y, "Div", fusedActivationFunction=draw(m, 0, 3))
    return ([] if x is None else [x]) + extra, [y]


def inverse_roots(m: TfliteModel):
    shape = any_shape(m)
    x = positive(m, shape)
    y = m.activation(shape, scaled(m, 0.01 / float(np.sqrt(m.scale(x)[0]))))
    m.op("RSQRT", [x], y)
    return [x], [y]


def tile(m: TfliteModel):
    shape, axis, times = image(m), draw(m, 1, 3), draw(m, 2, 4)
    x = m.activation(shape)
    y = m.like(x, tuple(d * times if a == axis else d for a, d in enumerate(shape)))
    m.op("TILE", [x, ints(m, *(times if a == axis else 1 for a in range(4)))], y)
    return [x], [y]


def gather_nd(m: TfliteModel):
    shape, depth = image(m), draw(m, 1, 4)
    # Not every runtime has outputs without axes, or with five.
    most = depth if depth < 4 else 3
    counts = [draw(m, 1, 4) for _ in range(draw(m, int(depth == 4), most))]
    x = m.activation(shape)
    picks = np.stack([m.rng.integers(0, d, counts) for d in shape[:depth]], axis=-1)
    y = m.like(x, (*counts, *shape[depth:]))
    m.op("GATHER_ND", [x, m.constant(picks.astype(np.int32))], y)
    return [x], [y]


def five(m: TfliteModel):
    return 1, *(draw(m, 1, 4) for _ in range(4))


def joined_to_constant(m: TfliteModel):
    """A constant before, behind or between activations."""
    shape, axis = list(image(m)), draw(m, 1, 3)
    first = m.activation(shape)
    scales, zero = m.scale(first), int(m.graph.tensors[first].quantization.zeroPoint[0])
    inputs, given = [], []
    for is_constant in [(True, False), (False, True), (False, True, False), (True, False, True)][
        draw(m, 0, 3)
    ]:
        shape[axis] = draw(m, 1, 3)
        if is_constant:
            values = m.rng.integers(-128, 128, shape).astype(np.int8)
            inputs.append(m.constant(values, scales, 0, zero))
        else:
            inputs.append(m.like(first, shape))
            given.append(inputs[-1])
    shape[axis] = sum(m.graph.tensors[i].shape[axis] for i in inputs)
    y = m.like(first, shape)
    m.op("CONCATENATION", inputs, y, "Concatenation", axis=axis)
    return given, [y]


def joined_five(m: TfliteModel):
    shape, axis = list(five(m)), draw(m, 1, 4)
    first = m.activation(shape)
    second = list(shape)
    second[axis] = draw(m, 1, 3)
    inputs = [first, m.like(first, second)]
    shape[axis] += second[axis]
    y = m.like(first, shape)
    m.op("CONCATENATION", inputs, y, "Concatenation", axis=axis)
    return inputs, [y]


def repeated_five(m: TfliteModel):
    """An operand that is repeated along some axes of five."""
    shape = five(m)
    other = tuple(d if coin(m) else 1 for d in shape)
    a, b = m.activation(shape), m.activation(other)
    y = m.activation(shape, scaled(m, float(m.scale(a)[0] * m.scale(b)[0] * 100)))
    m.op("MUL", [a, b], y, "Mul")
    return [a, b], [y]


def reduced_five(m: TfliteModel):
    shape = five(m)
    axes = [a for a in range(1, 5) if coin(m)] or [2]
    x = m.activation(shape)
    y = m.activation(
        tuple(1 if a in axes else d for a, d in enumerate(shape)), scaled(m, float(m.scale(x)[0]))
    )
    m.op("MEAN", [x, ints(m, *axes)], y, "Reducer", keepDims=True)
    return [x], [y]


def number(low: float, high: float) -> Callable[[TfliteModel], float]:
    return lambda m: float(m.rng.uniform(low, high))


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "ABS": np.abs,
    "CEIL": np.ceil,
    "COS": np.cos,
    "ELU": lambda x: np.maximum(np.expm1(np.minimum(x, 0)), x),
    "EXP": np.exp,
    "FLOOR": np.floor,
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
    "NEG": np.negative,
    "RELU": lambda x: np.maximum(x, 0),
    "RELU6": lambda x: np.clip(x, 0, 6),
    "ROUND": np.rint,
    "SIN": np.sin,
    "SQUARE": np.square,
    "TANH": np.tanh,
}
TWO: dict[str, tuple[Callable, str, Callable]] = {
    "ADD": (np.add, "Add", number(-2, 2)),
    "DIV": (np.divide, "Div", number(0.3, 3)),
    "MAXIMUM": (np.maximum, "MaximumMinimum", number(-1, 1)),
    "MINIMUM": (np.minimum, "MaximumMinimum", number(-1, 1)),
    "MUL": (np.multiply, "Mul", number(-2, 2)),
    "SQUARED_DIFFERENCE": (lambda x, c: (x - c) ** 2, "SquaredDifference", number(-2, 2)),
    "SUB": (np.subtract, "Sub", number(-2, 2)),
}
CASES: dict[str, Case] = {
    **{f"float {name}": in_float(name, function) for name, function in FUNCTIONS.items()},
    **{
        f"float {name} of a number": in_float(name, function, kind, constant)
        for name, (function, kind, constant) in TWO.items()
    },
    "float SQRT": in_float("SQRT", np.sqrt, signed=False),
    "float LEAKY_RELU": in_float(
        "LEAKY_RELU", lambda x: np.maximum(x, x / 4), "LeakyRelu", alpha=number(0, 0.5)
    ),
    "float expression": expression,
    "float expression behind an operator": expression_behind,
    "float SPLIT": parted_in_float(split),
    "float SPLIT_V": parted_in_float(split_v),
    "float UNPACK": parted_in_float(unpack),
    **{
        name: selected(name)
        for name in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
    },
    "DIV": division,
    "RSQRT": inverse_roots,
    "TILE": tile,
    "GATHER_ND": gather_nd,
    "CONCATENATION with constants": joined_to_constant,
    "CONCATENATION of five dimensions": joined_five,
    "MUL of five dimensions": repeated_five,
    "MEAN of five dimensions": reduced_five,
}
