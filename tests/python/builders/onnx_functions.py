# SPDX-License-Identifier: Apache-2.0
"""Float functions of one value between two quantisations, a row each: the inputs that show them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime

from .onnx_models import OnnxModel

FLOAT = onnx.TensorProto.FLOAT
BYTES = 256
# The least distance of a result from half a step, in steps, where libraries differ in last bits:
# ONNX Runtime's float32 is then off by less than a ten-thousandth of a step.
_CLEAR = 1e-3

Build = Callable[[OnnxModel, str], str]


@dataclass(frozen=True)
class Function:
    """`build` makes the float result of a float value in low .. high, which holds zero. `exact`:
    ONNX Runtime's float32 is known to the bit, so that results half way between two bytes count."""

    low: float
    high: float
    build: Build
    exact: bool = False
    opset: int = 18

    def model(self, dtype: type, share: float = 1.0) -> onnx.ModelProto:
        """The function of all 256 bytes, over a share of its inputs, whose results fill the output
        type."""
        m = OnnxModel(0, dtype, self.opset)
        middle, reach = (self.low + self.high) / 2, (self.high - self.low) / 2 * share
        x = m.stated(*fitting(dtype, middle - reach, middle + reach))
        m.dtype, (scale, zero) = np.dtype(dtype), (numbers(m, name) for name in x)
        codes = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
        real = self.computed((codes - zero).astype(np.float32) * np.float32(scale))
        out, least = real_scale(real, self.exact), min(float(real.min()), 0)
        low = np.iinfo(dtype).min
        y = m.stated(out, int(np.clip(round(low - least / out), low, np.iinfo(dtype).max)))
        result = m.qdq(self.build(m, m.qdq("x", x)), y)
        return m.proto({"x": (FLOAT, (1, BYTES))}, {result: (FLOAT, None)})

    def computed(self, values: np.ndarray) -> np.ndarray:
        """What ONNX Runtime makes of float32 values without any quantisation."""
        m = OnnxModel(0, np.int8, self.opset)
        y = m.node("Identity", [self.build(m, "x")])
        model = m.proto({"x": (FLOAT, values.shape)}, {y: (FLOAT, None)})
        session = onnxruntime.InferenceSession(model.SerializeToString())
        (real,) = session.run(None, {"x": values})
        assert np.isfinite(real).all(), "the inputs leave what the function is defined for"
        return real


def numbers(m: OnnxModel, name: str) -> float:
    (found,) = (t for t in m.initializers if t.name == name)
    return float(onnx.numpy_helper.to_array(found))


def fitting(dtype: type, low: float, high: float) -> tuple[float, int]:
    """Scale and zero point of values in low .. high."""
    info, scale = np.iinfo(dtype), (high - low) / (BYTES - 1)
    return scale, int(np.clip(round(info.min - low / scale), info.min, info.max))


def real_scale(real: np.ndarray, exact: bool) -> float:
    """The least scale that holds results and, unless `exact`, keeps clear of half steps."""
    # A zero point stands for zero, which is within every range.
    reach = max(float(real.max()), 0) - min(float(real.min()), 0)
    scale = reach / (BYTES - 1)
    while not exact:
        steps = real.astype(np.float64) / np.float32(scale)
        if np.abs(steps - np.floor(steps) - 0.5).min() > _CLEAR:
            break
        scale *= 1.001
    return scale


def of(op: str, domain: str = "", **attributes) -> Build:
    return lambda m, x: m.node(op, [x], domain, **attributes)


def shifted(op: str, before: float, after: float = 0.0) -> Build:
    """op(x + before) + after: a quantised range holds zero, which not every function does."""

    def build(m: OnnxModel, x: str) -> str:
        y = m.node(op, [m.node("Add", [x, m.constant(np.float32(before))])])
        return m.node("Add", [y, m.constant(np.float32(after))])

    return build


def with_number(op: str, number: float, swapped: bool = False) -> Build:
    def build(m: OnnxModel, x: str) -> str:
        constant = m.constant(np.float32(number))
        return m.node(op, [constant, x] if swapped else [x, constant])

    return build


def clip(low: float | None, high: float | None) -> Build:
    def build(m: OnnxModel, x: str) -> str:
        bounds = ["" if bound is None else m.constant(np.float32(bound)) for bound in (low, high)]
        return m.node("Clip", [x, *bounds])

    return build


def is_nan(m: OnnxModel, x: str) -> str:
    """Of a logarithm, which is no number below zero: 1 or 0."""
    return m.node("Cast", [m.node("IsNaN", [m.node("Log", [x])])], to=FLOAT)


def truths(m: OnnxModel, x: str) -> tuple[str, str]:
    """Two truth values of which all four pairs occur: x > 0 and |x| > 2."""
    sides = (x, 0), (m.node("Abs", [x]), 2)
    a, b = (m.node("Greater", [side, m.constant(np.float32(n))]) for side, n in sides)
    return a, b


def logic(op: str) -> Build:
    return lambda m, x: m.node("Cast", [m.node(op, truths(m, x))], to=FLOAT)


def negated(m: OnnxModel, x: str) -> str:
    return m.node("Cast", [m.node("Not", truths(m, x)[:1])], to=FLOAT)


def compared(op: str, number: float, swapped: bool = False) -> Build:
    """With a number that a byte stands for."""
    build = with_number(op, number, swapped)
    return lambda m, x: m.node("Cast", [build(m, x)], to=FLOAT)


def compared_curves(op: str) -> Build:
    """x with half its square: less, equal and greater each occur."""

    def build(m: OnnxModel, x: str) -> str:
        square = m.node("Mul", [m.node("Mul", [x, x]), m.constant(np.float32(0.5))])
        return m.node("Cast", [m.node(op, [x, square])], to=FLOAT)

    return build


def chosen(m: OnnxModel, x: str) -> str:
    above, half = m.node("Greater", [x, m.constant(np.float32(1))]), m.constant(np.float32(0.5))
    return m.node("Where", [above, x, m.node("Mul", [x, half])])


def quotient(m: OnnxModel, x: str) -> str:
    above = m.node("Add", [x, m.constant(np.float32(0.3))])
    return m.node("Div", [m.constant(np.float32(1.7)), above])


def cast(kind: int) -> Build:
    return lambda m, x: m.node("Cast", [m.node("Cast", [x], to=kind)], to=FLOAT)


# A scale of 1/16: numbers such as 0.5 are bytes.
SIXTEENTHS = (-8.0, 7.9375)
_MS = "com.microsoft"

# Their float32 arithmetic has one form, or is ONNX Runtime's own and repeated step by step.
EXACT: dict[str, tuple[float, float, Build]] = {
    **{
        op: (-6.0, 6.0, of(op))
        for op in ("Abs", "Ceil", "Floor", "HardSigmoid", "HardSwish", "LeakyRelu", "Neg", "Relu")
    },
    **{op: (-3.0, 3.0, of(op)) for op in ("Shrink", "Sign", "ThresholdedRelu", "Sigmoid", "Tanh")},
    "Round": (-8.0, 7.9375, of("Round")),
    "Sqrt": (0.0, 9.0, of("Sqrt")),
    "Reciprocal": (0.0, 5.0, shifted("Reciprocal", 0.2)),
    "wide Sigmoid": (-20.0, 20.0, of("Sigmoid")),
    "wide Tanh": (-12.0, 12.0, of("Tanh")),
    "HardSigmoid of other factors": (-6.0, 6.0, of("HardSigmoid", alpha=0.3, beta=0.4)),
    "LeakyRelu of 0.3": (-6.0, 6.0, of("LeakyRelu", alpha=0.3)),
    "LeakyRelu of -0.2": (-6.0, 6.0, of("LeakyRelu", alpha=-0.2)),
    "Shrink with a bias": (-6.0, 6.0, of("Shrink", lambd=1.0, bias=0.6)),
    "ThresholdedRelu of 0.3": (-6.0, 6.0, of("ThresholdedRelu", alpha=0.3)),
    "com.microsoft.QuickGelu": (-5.0, 5.0, of("QuickGelu", _MS)),
    "com.microsoft.QuickGelu of 1": (-5.0, 5.0, of("QuickGelu", _MS, alpha=1.0)),
    "IsNaN": (-1.0, 1.0, is_nan),
    "Clip": (-6.0, 6.0, clip(-2.0, 4.0)),
    "Clip from below": (-6.0, 6.0, clip(-2.0, None)),
    "Clip from above": (-6.0, 6.0, clip(None, 2.0)),
    **{op: (*SIXTEENTHS, logic(op)) for op in ("And", "Or", "Xor")},
    "Not": (*SIXTEENTHS, negated),
    **{
        f"{op}{' swapped' * swapped}": (*SIXTEENTHS, compared(op, 0.5, swapped))
        for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
        for swapped in (False, True)
    },
    **{
        f"{op} of two functions": (*SIXTEENTHS, compared_curves(op))
        for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
    },
    "Where": (*SIXTEENTHS, chosen),
    "Cast to int32": (-6.0, 6.0, cast(onnx.TensorProto.INT32)),
    "Cast to bool": (*SIXTEENTHS, cast(onnx.TensorProto.BOOL)),
    **{
        f"{op} of a number": (-5.0, 5.0, with_number(op, 1.7))
        for op in ("Add", "Sub", "Mul", "Div", "Min")
    },
    "Sub from a number": (-5.0, 5.0, with_number("Sub", 1.7, True)),
    "Max of a number": (-5.0, 5.0, with_number("Max", -1.7)),
    "quotient of a number": (0.0, 5.0, quotient),
    "PRelu of a number": (-5.0, 5.0, with_number("PRelu", 0.3)),
    "Pow of 2": (-5.0, 5.0, with_number("Pow", 2.0)),
}
# Libraries differ in their last bits.
NEAR: dict[str, tuple[float, float, Build]] = {
    **{op: (-0.98, 0.98, of(op)) for op in ("Asin", "Atanh")},
    **{op: (-6.0, 6.0, of(op)) for op in ("Asinh", "Atan", "Cos", "Sin", "Softplus", "Softsign")},
    **{op: (-3.0, 3.0, of(op)) for op in ("Celu", "Elu", "Erf", "Selu", "Sinh")},
    "Acos": (-0.98, 0.98, shifted("Acos", 0.0, -1.5)),
    "Acosh": (0.0, 5.0, shifted("Acosh", 1.1)),
    "Cosh": (-3.0, 3.0, shifted("Cosh", 0.0, -1.0)),
    "Exp": (-4.0, 2.0, of("Exp")),
    "Log": (0.0, 5.0, shifted("Log", 0.05)),
    "Tan": (-1.4, 1.4, of("Tan")),
    "Mish": (-6.0, 6.0, of("Mish")),
    "Celu of 2": (-5.0, 5.0, of("Celu", alpha=2.0)),
    "Elu of 0.5": (-3.0, 3.0, of("Elu", alpha=0.5)),
    "Selu of other factors": (-3.0, 3.0, of("Selu", alpha=1.2, gamma=0.7)),
    "com.microsoft.Gelu": (-5.0, 5.0, of("Gelu", _MS)),
    "Pow of 3": (-5.0, 5.0, with_number("Pow", 3.0)),
    "Pow of 1.5": (0.0, 5.0, with_number("Pow", 1.5)),
    "Pow of a number": (-3.0, 3.0, with_number("Pow", 1.7, True)),
}
CASES: dict[str, Function] = {
    **{name: Function(*row, exact=True) for name, row in EXACT.items()},
    **{name: Function(*row) for name, row in NEAR.items()},
    "Gelu": Function(-5.0, 5.0, of("Gelu"), opset=20),
    "Gelu by tanh": Function(-5.0, 5.0, of("Gelu", approximate="tanh"), True, 20),
    "Swish": Function(-5.0, 5.0, of("Swish"), True, 24),
    "Swish of 2.5": Function(-3.0, 3.0, of("Swish", alpha=2.5), True, 24),
}
