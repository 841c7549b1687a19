# SPDX-License-Identifier: Apache-2.0
"""QOperators, a row each: input shape, operator. They work on uint8, which alone ONNX Runtime
has all of them for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from .onnx_models import IMAGE, VECTOR, OnnxModel

MS = "com.microsoft"
FLOAT = onnx.TensorProto.FLOAT
SCALE, ZERO = 0.05, 117


@dataclass
class Quantised:
    """A value, its scale and its zero point, by name."""

    name: str
    scale: str
    zero: str

    @property
    def names(self) -> list[str]:
        return [self.name, self.scale, self.zero]


Operator = Callable[[OnnxModel, Quantised], Quantised]


def single(shape: tuple[int, ...], operator: Operator, seed: int = 0) -> onnx.ModelProto:
    """Float input and output around an operator."""
    m = OnnxModel(seed, np.uint8, 17)
    quantisation = m.stated(SCALE, ZERO)
    x = Quantised(m.node("QuantizeLinear", ["x", *quantisation]), *quantisation)
    y = operator(m, x)
    result = m.node("DequantizeLinear", y.names)
    return m.proto({"x": (FLOAT, shape)}, {result: (FLOAT, None)})


def emitted(
    m: OnnxModel, op: str, inputs: list[str], scale: float, zero: int | None = None, **more
) -> Quantised:
    """An operator whose inputs end with the quantisation of its result."""
    domain = "" if op in ("QLinearConv", "QLinearMatMul") else MS
    out = m.stated(scale, zero)
    place = more.pop("place", len(inputs))
    given = [*inputs[:place], *out, *inputs[place:]]
    return Quantised(m.node(op, given, domain, **more), *out)


def weights(m: OnnxModel, shape: tuple[int, ...], count: int = 1) -> list[str]:
    ints = m.rng.integers(-127, 128, shape).astype(np.int8)
    scales = m.rng.uniform(0.002, 0.02, count).astype(np.float32)
    zeros = np.zeros(count, np.int8)
    pair = (scales, zeros) if count > 1 else (scales[0], zeros[0])
    return [m.constant(array) for array in (ints, *pair)]


def biases(m: OnnxModel, count: int) -> str:
    return m.constant(m.rng.integers(-9000, 9000, count).astype(np.int32))


def alone(op: str, scale: float, zero: int | None = None, **attributes) -> Operator:
    return lambda m, x: emitted(m, op, x.names, scale, zero, **attributes)


def conv(bias: bool) -> Operator:
    def build(m: OnnxModel, x: Quantised) -> Quantised:
        inputs = [*x.names, *weights(m, (4, 6, 3, 3), 4)]
        inputs += [biases(m, 4)] if bias else []
        return emitted(m, "QLinearConv", inputs, 0.4, place=6, pads=[1, 1, 1, 1])

    return build


def matmul(m: OnnxModel, x: Quantised) -> Quantised:
    return emitted(m, "QLinearMatMul", [*x.names, *weights(m, (24, 7))], 0.2)


def gemm(turned: bool) -> Operator:
    def build(m: OnnxModel, x: Quantised) -> Quantised:
        shape = (7, 24) if turned else (24, 7)
        inputs = [*x.names, *weights(m, shape, 7), biases(m, 7)]
        return emitted(m, "QGemm", inputs, 0.2, transB=int(turned), alpha=1.0)

    return build


def with_other(op: str, scale: float) -> Operator:
    """With a function of another element of the same input."""

    def build(m: OnnxModel, x: Quantised) -> Quantised:
        ends = [m.constant(np.array([v])) for v in (-1, -1000, -1, -1)]
        turned = Quantised(m.node("Slice", [x.name, *ends]), x.scale, x.zero)
        other = emitted(m, "QLinearLeakyRelu", turned.names, 0.03, 100, alpha=0.5)
        return emitted(m, op, [*x.names, *other.names], scale)

    return build


def concat(m: OnnxModel, x: Quantised) -> Quantised:
    other = emitted(m, "QLinearSigmoid", x.names, 1 / 256, 0)
    return emitted(m, "QLinearConcat", [*x.names, *other.names], SCALE, ZERO, place=0, axis=1)


def leaky(m: OnnxModel, x: Quantised) -> Quantised:
    return emitted(m, "QLinearLeakyRelu", x.names, 0.04, 100, alpha=0.2)


def in_domain(m: OnnxModel, x: Quantised) -> Quantised:
    """DequantizeLinear and QuantizeLinear of com.microsoft, as quantisers write them for types
    that ONNX's own do not take."""
    real = m.node("DequantizeLinear", x.names, MS)
    out = m.stated(0.03, 90)
    return Quantised(m.node("QuantizeLinear", [m.node("Tanh", [real]), *out], MS), *out)


def weights_by_row(m: OnnxModel, x: Quantised) -> Quantised:
    """Float weights behind a QuantizeLinear with a scale for each row."""
    real = m.rng.uniform(-1, 1, (7, 24)).astype(np.float32)
    scales = (np.abs(real).max(1) / 127).astype(np.float32)
    stated = m.constant(scales), m.constant(np.zeros(7, np.int8))
    w = m.node("QuantizeLinear", [m.constant(real), *stated], axis=0)
    biased = [*x.names, w, *stated, biases(m, 7)]
    return emitted(m, "QGemm", biased, 0.2, transB=1, alpha=1.0)


POOL = {"kernel_shape": [3, 2], "strides": [2, 1]}
CASES: dict[str, tuple[tuple[int, ...], Operator]] = {
    "conv": (IMAGE, conv(True)),
    "conv without biases": (IMAGE, conv(False)),
    "matmul": (VECTOR, matmul),
    "gemm": (VECTOR, gemm(False)),
    "gemm transposed": (VECTOR, gemm(True)),
    "gemm of rows": (VECTOR, weights_by_row),
    "add": (IMAGE, with_other("QLinearAdd", 0.07)),
    "mul": (IMAGE, with_other("QLinearMul", 0.1)),
    "concat": (IMAGE, concat),
    "sigmoid": (IMAGE, alone("QLinearSigmoid", 1 / 256, 0)),
    "leaky relu": (IMAGE, leaky),
    "softmax": (VECTOR, alone("QLinearSoftmax", 1 / 256, 0, axis=-1, opset=13)),
    "softmax of several axes": (IMAGE, alone("QLinearSoftmax", 1 / 256, 0, axis=2, opset=11)),
    "softmax of the last axis": (IMAGE, alone("QLinearSoftmax", 1 / 256, 0, opset=12)),
    "average pool": (IMAGE, alone("QLinearAveragePool", 0.04, 110, **POOL)),
    "average pool with padding": (
        IMAGE,
        alone("QLinearAveragePool", 0.04, 110, pads=[1, 1, 1, 1], count_include_pad=1, **POOL),
    ),
    "average pool ceil": (IMAGE, alone("QLinearAveragePool", 0.04, 110, ceil_mode=1, **POOL)),
    "global average pool": (IMAGE, alone("QLinearGlobalAveragePool", 0.02, 120)),
    "microsoft's own": (IMAGE, in_domain),
}
