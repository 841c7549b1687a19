# SPDX-License-Identifier: Apache-2.0
"""Functions of one value equal TensorFlow Lite Micro's for all 256 bytes, at scales that fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from builders.tflite_models import TfliteModel
from builders.tflite_tables import FUNCTIONS, fitting
from random_builder import Builder
from random_operators import binary_of
from vmcu_bench import oracle
from vmcu_tools.frontends.softmax import differences
from vmcu_tools.frontends.tflite.float import table_of
from vmcu_tools.machine import reference
from vmcu_tools.ops import bind

BYTES = np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 256)
SHAPE = (1, 256)
TABULATED = ("sum", "difference", "reversed", "product", "minimum", "maximum")

Real = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Function:
    """An operator on values in low .. high. real: the true function, for the output's range, or
    the only quantisation that the output may have; None: the input's."""

    low: float
    high: float
    real: Real | tuple[float, int] | None
    kind: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def build(self, m: TfliteModel, name: str, share: float, in_float: bool) -> tuple[list, list]:
        middle, reach = (self.low + self.high) / 2, (self.high - self.low) / 2 * share
        scale, zero = fitting(middle - reach, middle + reach)
        x = m.activation(SHAPE, scale, zero)
        y = m.activation(SHAPE, *self._output(scale, zero))
        if not in_float:
            m.op(name, [x], y, self.kind, **self.options)
            return [x], [y]
        f, g = (m.activation(SHAPE, dtype=np.float32) for _ in range(2))
        m.op("DEQUANTIZE", [x], f)
        m.op(name, [f], g, self.kind, **self.options)
        m.op("QUANTIZE", [g], y)
        return [x], [y]

    def _output(self, scale: float, zero: int) -> tuple[float, int]:
        if self.real is None:
            return scale, zero
        if isinstance(self.real, tuple):
            return self.real
        with np.errstate(all="ignore"):
            results = self.real((BYTES.astype(np.float64) - zero) * scale)
        results = results[np.isfinite(results)]
        return fitting(min(float(results.min()), 0), max(float(results.max()), 0))


def leaky(alpha: float) -> Function:
    options = {"alpha": alpha}
    return Function(-5, 5, lambda x: np.where(x > 0, x, alpha * x), "LeakyRelu", options)


def swish(x: np.ndarray) -> np.ndarray:
    return x * np.clip(x + 3, 0, 6) / 6


INT8: dict[str, Function] = {
    "ABS": Function(-5, 5, np.abs, "Abs"),
    "ELU": Function(-4, 4, FUNCTIONS["ELU"]),
    "HARD_SWISH": Function(-5, 5, swish, "HardSwish"),
    "LEAKY_RELU of 0.3": leaky(0.3),
    "LEAKY_RELU of -0.2": leaky(-0.2),
    "LEAKY_RELU of 1.2": leaky(1.2),
    "LOGISTIC": Function(-6, 6, (1 / 256, -128)),
    "LOGISTIC beyond its range": Function(-40, 40, (1 / 256, -128)),
    "TANH": Function(-3, 3, (1 / 128, 0)),
    "TANH beyond its range": Function(-40, 40, (1 / 128, 0)),
    "TANH of steps beyond its range": Function(-1900, 1900, (1 / 128, 0)),
    "LOGISTIC of steps beyond its range": Function(-1900, 1900, (1 / 256, -128)),
    "QUANTIZE": Function(-5, 5, lambda x: x * 0.8, "Quantize"),
    "RELU": Function(-5, 5, FUNCTIONS["RELU"]),
    "RELU6": Function(-1, 8, None),
    "RSQRT": Function(0, 5, lambda x: np.where(x > 0.02, x, 0.02) ** -0.5),
}
FLOAT: dict[str, Function] = {
    **{
        name: Function(-6, 6, real)
        for name, real in FUNCTIONS.items()
        if name not in ("EXP", "RELU6")
    },
    "EXP": Function(-4, 2, np.exp),
    "HARD_SWISH": Function(-5, 5, swish, "HardSwish"),
    "LEAKY_RELU": leaky(0.3),
    # What is cut off is in the range of the output, as it is not where the range is the results'.
    "RELU6": Function(-1, 8, None),
    "LOGISTIC beyond its range": Function(-40, 40, (1 / 256, -128)),
    "LOG": Function(0, 5, lambda x: np.log(np.maximum(x, 0.02))),
    "SQRT": Function(0, 9, np.sqrt),
}


@pytest.mark.parametrize("share", [1.0, 0.6, 0.35])
@pytest.mark.parametrize(
    ("case", "in_float"), [(c, False) for c in INT8] + [(c, True) for c in FLOAT]
)
def test_function_equals_tflm(tmp_path, case, in_float, share):
    m = TfliteModel()
    function = (FLOAT if in_float else INT8)[case]
    ends = function.build(m, case.partition(" ")[0], share, in_float)
    judge = oracle.open(m.save(tmp_path / "m.tflite", *ends))
    (port,) = judge.graph.outputs
    found = reference.run(judge.graph, [BYTES]), judge.run([BYTES])
    computed, expected = (values[port.tensor].ravel() for values in found)
    assert int(expected.max()) - int(expected.min()) > 150, "the output's scale does not fit"
    np.testing.assert_array_equal(computed, expected)


@pytest.mark.parametrize("case", ["ABS", "HARD_SWISH", "LEAKY_RELU of 0.3", "QUANTIZE"])
def test_factors_are_rounded_as_tflm_does(tmp_path, case):
    """At 200 scales in one file: the last bit of a factor decides now and then."""
    m, function, ends = TfliteModel(), INT8[case], ([], [])
    for share in np.random.default_rng(1).uniform(0.02, 1, 200):
        for end, tensors in zip(
            ends, function.build(m, case.partition(" ")[0], share, False), strict=True
        ):
            end.extend(tensors)
    judge = oracle.open(m.save(tmp_path / "m.tflite", *ends))
    inputs = [BYTES] * len(ends[0])
    computed, expected = reference.run(judge.graph, inputs), judge.run(inputs)
    for port in judge.graph.outputs:
        np.testing.assert_array_equal(computed[port.tensor], expected[port.tensor])


@pytest.mark.parametrize("kind", TABULATED)
def test_a_table_is_what_an_operator_with_a_constant_computes(kind: str) -> None:
    b, tables = Builder(np.random.default_rng(TABULATED.index(kind))), 0
    for _ in range(8):
        x = b.input((1, 1, 256))
        byte, zero = (int(value) for value in b.rng.integers(-128, 128, 2))
        single = np.full((1, 1, 1), byte, np.int8)
        op = replace(binary_of(b, kind), constant=single, constant_zero=zero)
        out = b.node(op, [x], x.shape)
        table = table_of(op, x, out)
        if table is not None:
            found = bind(b.graph([out.name]), b.nodes[-1]).rows([BYTES], 0, 1)
            np.testing.assert_array_equal(table, found.ravel())
            tables += 1
    assert tables > 2


@pytest.mark.parametrize("scale", [0.004, 0.3, 1.0, 7.9, 15.99, 16.0, 31.99, 32.0, 40.0, 1000.0])
def test_differences_of_a_logarithm_are_the_exact_ones(scale: float) -> None:
    """Q5.26 by factors of 31 bits; what is below -16 may be anything there."""
    exact = np.maximum(-np.arange(256) * float(np.float32(scale)), -16) * 2.0**26
    found = np.maximum(differences(float(np.float32(scale))), -(16 << 26))
    np.testing.assert_allclose(found, exact, rtol=2**-30, atol=1)
