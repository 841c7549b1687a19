# SPDX-License-Identifier: Apache-2.0
"""Files with int16 and int32 elements at their ends."""

from __future__ import annotations

import numpy as np

from .tflite_models import Case, TfliteModel

LEAST = -(1 << 15)


def drawn_shape(m: TfliteModel) -> tuple[int, ...]:
    return (1, *(int(n) for n in m.rng.integers(1, 9, m.rng.integers(1, 4))))


def quantised(m: TfliteModel, x: int, dtype: type) -> int:
    """A QUANTIZE of `x`, whose output has other scale and, where it is int8, zero point."""
    tensor = m.graph.tensors[x]
    scale = float(tensor.quantization.scale[0] * np.exp(m.rng.uniform(-6, 6)))
    zero = None if dtype is np.int8 else 0
    out = m.activation(tuple(tensor.shape), scale, zero, dtype)
    return m.op("QUANTIZE", [x], out, "Quantize")


def softmax(m: TfliteModel, x: int, scale: float = 2.0**-16, zero: int = LEAST) -> int:
    """A SOFTMAX of int8 to int16."""
    out = m.activation(tuple(m.graph.tensors[x].shape), scale, zero, np.int16)
    return m.op("SOFTMAX", [x], out, "Softmax", beta=float(m.rng.uniform(0.5, 2)))


def rescaled(given: type, *made: type) -> Case:
    """QUANTIZE alone, to several outputs. Files without int8 are of another kind."""

    def build(m: TfliteModel) -> tuple[list[int], list[int]]:
        zero = None if given is np.int8 else 0
        x = m.activation(drawn_shape(m), zero_point=zero, dtype=given)
        return [x], [quantised(m, x, dtype) for dtype in made]

    return build


def shares(*more: type) -> Case:
    """SOFTMAX, and QUANTIZE behind it."""

    def build(m: TfliteModel) -> tuple[list[int], list[int]]:
        x = m.activation(drawn_shape(m))
        scale = float(2.0**-16 * m.rng.uniform(0.9991, 1.0009))
        y = softmax(m, x, scale)
        return [x], [y, *(quantised(m, y, dtype) for dtype in more)]

    return build


def network(m: TfliteModel) -> tuple[list[int], list[int]]:
    """int8 between int16 and both types of outputs."""
    x = m.activation(drawn_shape(m), zero_point=0, dtype=np.int16)
    y = quantised(m, x, np.int8)
    z = m.op("ELU", [y], m.activation(tuple(m.graph.tensors[y].shape)))
    return [x], [quantised(m, softmax(m, z), np.int32), quantised(m, z, np.int16), z]


CASES: dict[str, Case] = {
    "QUANTIZE int16 to int8": rescaled(np.int16, np.int8),
    "QUANTIZE int16 to all": rescaled(np.int16, np.int8, np.int16, np.int32),
    "QUANTIZE int8 to int16 and int32": rescaled(np.int8, np.int16, np.int32),
    "SOFTMAX to int16": shares(),
    "SOFTMAX to int16 and on": shares(np.int8, np.int16, np.int32),
    "int16 and int32 ends": network,
}
