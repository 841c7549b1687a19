# SPDX-License-Identifier: Apache-2.0
"""Single-operator .tflite files with options that a draw may leave out, and operators that stand
between float or Boolean tensors; see tflite_ops.py."""

from __future__ import annotations

import numpy as np

from .tflite_models import Case, TfliteModel, dense, depthwise, pool, reshape
from .tflite_ops import any_shape, coin, draw, image, ints, scaled
from .tflite_tables import BOOL, real

ACTIVATIONS = range(4)


def fused(name: str, kind: str, activation: int) -> Case:
    """Two activations of which neither is large, so that every bound cuts something off."""

    def build(m: TfliteModel):
        shape = any_shape(m)
        zero = draw(m, -60, 60)
        a, b = m.activation(shape, 0.05, zero), m.activation(shape, 0.04, draw(m, -60, 60))
        y = m.activation(shape, 0.08, draw(m, -40, 40))
        m.op(name, [a, b], y, kind, fusedActivationFunction=activation)
        return [a, b], [y]

    return build


def quotient(activation: int) -> Case:
    """A dividend that is zero now and then, and a divisor that never is."""

    def build(m: TfliteModel):
        shape = any_shape(m)
        x = m.activation(shape, 0.05, draw(m, -60, 60))
        values = m.rng.integers(1, 128, shape) * m.rng.choice([-1, 1], shape)
        divisor = m.constant(values.astype(np.int8), [0.02], 0, 0)
        y = m.activation(shape, 0.0015, draw(m, -40, 40))
        m.op("DIV", [x, divisor], y, "Div", fusedActivationFunction=activation)
        return [x], [y]

    return build


def resized(name: str, kind: str, align: bool, half: bool) -> Case:
    def build(m: TfliteModel):
        shape, size = image(m), [draw(m, 1, 12), draw(m, 1, 12)]
        x = m.activation(shape)
        y = m.like(x, (1, *size, shape[3]))
        m.op(name, [x, ints(m, *size)], y, kind, alignCorners=align, halfPixelCenters=half)
        return [x], [y]

    return build


def shrunk(m: TfliteModel):
    """One element of an axis, which then is no axis any more."""
    shape, axis = image(m), draw(m, 1, 3)
    x, at = m.activation(shape), draw(m, 0, shape[axis] - 1)
    begin = [at if a == axis else 0 for a in range(4)]
    end = [at + 1 if a == axis else d for a, d in enumerate(shape)]
    y = m.like(x, tuple(d for a, d in enumerate(shape) if a != axis))
    inputs = [x, ints(m, *begin), ints(m, *end), ints(m, 1, 1, 1, 1)]
    masks = {"beginMask": 0, "endMask": 0, "ellipsisMask": 0, "newAxisMask": 0}
    m.op("STRIDED_SLICE", inputs, y, "StridedSlice", shrinkAxisMask=1 << axis, **masks)
    return [x], [y]


def squeezed(named: bool) -> Case:
    def build(m: TfliteModel):
        height, depth = draw(m, 2, 7), draw(m, 2, 9)
        x = m.activation((1, height, 1, depth))
        y = m.like(x, (1, height, depth) if named else (height, depth))
        m.op("SQUEEZE", [x], y, "Squeeze", squeezeDims=[2] if named else [])
        return [x], [y]

    return build


def expanded(m: TfliteModel):
    shape, axis = (1, draw(m, 1, 7), draw(m, 1, 9)), draw(m, 1, 3)
    x = m.activation(shape)
    y = m.like(x, (*shape[:axis], 1, *shape[axis:]))
    m.op("EXPAND_DIMS", [x, ints(m, axis - 4 if coin(m) else axis)], y, "ExpandDims")
    return [x], [y]


def from_the_end(m: TfliteModel):
    """An axis counted from the last one."""
    shape = image(m)
    first = m.activation(shape)
    inputs = [first, m.like(first, shape)]
    y = m.like(first, (*shape[:2], 2 * shape[2], shape[3]))
    m.op("CONCATENATION", inputs, y, "Concatenation", axis=-2)
    return inputs, [y]


def packed(m: TfliteModel):
    shape = image(m)[:3]
    first = m.activation(shape)
    inputs = [first, m.like(first, shape)]
    y = m.like(first, (*shape[:2], 2, shape[2]))
    m.op("PACK", inputs, y, "Pack", valuesCount=2, axis=-2)
    return inputs, [y]


def gathered(m: TfliteModel):
    shape = image(m)
    x = m.activation(shape)
    picks = [draw(m, 0, shape[3] - 1) for _ in range(3)]
    y = m.like(x, (*shape[:3], 3))
    m.op("GATHER", [x, ints(m, *picks)], y, "Gather", axis=-1, batchDims=0)
    return [x], [y]


def embedded(m: TfliteModel):
    rows, channels, count = (draw(m, 1, 9) for _ in range(3))
    values = m.rng.integers(-128, 128, (rows, channels)).astype(np.int8)
    table = m.constant(values, scales=[0.05], zero_point=3)
    ids, y = m.activation((count,), dtype=np.int32), m.activation((count, channels), 0.05, 3)
    m.op("EMBEDDING_LOOKUP", [ids, table], y)
    return [ids], [y]


def looked_up(name: str, kind: str = "", **options) -> Case:
    """An operator with an int8 kernel in LiteRT alone, on what is above zero."""

    def build(m: TfliteModel):
        shape = any_shape(m)
        x = m.activation(shape, 0.02, -128)
        y = m.activation(shape, 0.03)
        m.op(name, [x], y, kind, **options)
        return [x], [y]

    return build


def cut(m: TfliteModel):
    shape = any_shape(m)
    x = m.activation(shape, 0.02)
    y = m.op("RELU_N1_TO_1", [x], m.like(x, shape))
    return [x], [y]


def truth(m: TfliteModel, index: int) -> int:
    m.graph.tensors[index].quantization = None
    return index


def logical(name: str) -> Case:
    """Of two truth values of which all four pairs occur, x > 0 and |x| > 2: one of two numbers."""

    def build(m: TfliteModel):
        shape = (1, 64)
        x = m.activation(shape, 6 / 128, 0)
        f = m.op("DEQUANTIZE", [x], real(m, shape))
        g = m.op("ABS", [f], real(m, shape))
        sides = [
            m.op(
                "GREATER",
                [side, m.constant(np.array([number], np.float32))],
                truth(m, m.activation(shape, dtype=BOOL)),
            )
            for side, number in ((f, 0), (g, 2))
        ]
        inputs = sides[:1] if name == "LOGICAL_NOT" else sides
        both = m.op(name, inputs, truth(m, m.activation(shape, dtype=BOOL)))
        numbers = [m.constant(np.array([v], np.float32)) for v in (1, -1)]
        chosen = m.op("SELECT_V2", [both, *numbers], real(m, shape))
        y = m.op("QUANTIZE", [chosen], m.activation(shape, 1 / 127, 0))
        return [x], [y]

    return build


def selected(m: TfliteModel):
    shape = any_shape(m)
    x = m.activation(shape)
    number = m.constant(np.array(draw(m, -128, 127), np.int8), [0.1], 0, 9)
    condition = truth(m, m.activation(shape, dtype=BOOL))
    m.op("LESS", [x, number], condition)
    z = m.like(x, shape)
    factor = m.constant(np.array(draw(m, 1, 127), np.int8), [0.01], 0, 0)
    m.op("MUL", [x, factor], z, "Mul")
    y = m.op("SELECT", [condition, x, z], m.like(x, shape))
    return [x], [y]


def floor_division(m: TfliteModel):
    shape = any_shape(m)
    x = m.activation(shape, 0.05)
    f = m.op("DEQUANTIZE", [x], real(m, shape))
    divisor = m.constant(np.array([m.rng.choice([-0.4, 0.3, 0.7])], np.float32))
    g = m.op("FLOOR_DIV", [f, divisor], real(m, shape))
    return [x], [m.op("QUANTIZE", [g], m.activation(shape, scaled(m, 0.15)))]


def zeros(m: TfliteModel):
    shape = any_shape(m)
    x = m.activation(shape, 0.05)
    f = m.op("DEQUANTIZE", [x], real(m, shape))
    g = m.op("EXP", [m.op("ZEROS_LIKE", [f], real(m, shape))], real(m, shape))
    h = m.op("MUL", [g, f], real(m, shape), "Mul")
    return [x], [m.op("QUANTIZE", [h], m.activation(shape, 0.06))]


def fused_in_float(name: str, kind: str, activation: int) -> Case:
    def build(m: TfliteModel):
        shape = any_shape(m)
        x = m.activation(shape, 0.06, draw(m, -30, 30))
        f = m.op("DEQUANTIZE", [x], real(m, shape))
        other = m.constant(np.array([0.8], np.float32))
        options = {"fusedActivationFunction": activation}
        g = m.op(name, [f, other], real(m, shape), kind, **options)
        return [x], [m.op("QUANTIZE", [g], m.activation(shape, 0.07))]

    return build


_TWO = (("ADD", "Add"), ("SUB", "Sub"), ("MUL", "Mul"))
_RESIZES = (
    ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighbor"),
    ("RESIZE_BILINEAR", "ResizeBilinear"),
)
CASES: dict[str, Case] = {
    **{f"{op} fused {a}": fused(op, kind, a) for op, kind in _TWO for a in ACTIVATIONS},
    **{f"DIV fused {a}": quotient(a) for a in ACTIVATIONS},
    **{
        f"float {op} fused {a}": fused_in_float(op, kind, a)
        for op, kind in (*_TWO, ("DIV", "Div"))
        for a in ACTIVATIONS
    },
    **{
        f"{op} fused {a}": pool(op, (7, 9), 5, (3, 2), (1, 2), same=False, activation=a)
        for op in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
        for a in ACTIVATIONS
    },
    "MAX_POOL_2D same": pool("MAX_POOL_2D", (7, 9), 5, (2, 3), (2, 1)),
    **{f"FULLY_CONNECTED fused {a}": dense((1, 20), 9, activation=a) for a in ACTIVATIONS},
    **{
        f"DEPTHWISE_CONV_2D fused {a}": depthwise((6, 7), 5, 1, (3, 3), activation=a)
        for a in ACTIVATIONS
    },
    **{
        f"{op}{' aligned' * align}{' half' * half}": resized(op, kind, align, half)
        for op, kind in _RESIZES
        for align, half in ((False, False), (True, False), (False, True))
    },
    "STRIDED_SLICE shrunk": shrunk,
    "SQUEEZE": squeezed(False),
    "SQUEEZE of an axis": squeezed(True),
    "EXPAND_DIMS": expanded,
    "CONCATENATION from the end": from_the_end,
    "PACK from the end": packed,
    "GATHER from the end": gathered,
    "EMBEDDING_LOOKUP": embedded,
    "RESHAPE": reshape((1, 4, 6), (1, 2, 3, 4)),
    "RELU_N1_TO_1": cut,
    "GELU": looked_up("GELU", "Gelu", approximate=False),
    "GELU by tanh": looked_up("GELU", "Gelu", approximate=True),
    "EXP": looked_up("EXP", "Exp"),
    "LOG": looked_up("LOG"),
    "SQRT": looked_up("SQRT"),
    **{name: logical(name) for name in ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT")},
    "SELECT": selected,
    "FLOOR_DIV": floor_division,
    "ZEROS_LIKE": zeros,
}
