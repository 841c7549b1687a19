# SPDX-License-Identifier: Apache-2.0
"""Sums by a line through the integers: the same bytes for every pair, in int32."""

from __future__ import annotations

import numpy as np
import pytest
from vmcu_tools.frontends.common import fixed_sum
from vmcu_tools.kernels.integer_sum import BYTES, FINER, integer_sum
from vmcu_tools.quant import FloatSum

SUMS = 60
INT32 = 2**31


def quantised(rng: np.random.Generator) -> tuple[list[float], list[int]]:
    """Scales, of both inputs and the output, and zero points."""
    scales = np.exp(rng.uniform(np.log(0.01), np.log(0.2), 3)).astype(np.float32)
    return [float(scale) for scale in scales], rng.integers(-128, 128, 3).tolist()


def tflite(scales: list[float], zeros: list[int]) -> np.ndarray:
    """All 65,536 sums, by the integers of TensorFlow Lite's reference, one by one."""
    parts = fixed_sum(*scales)

    def scaled(x: int, factor) -> int:
        multiplier, right = int(factor.multiplier[0]), -int(factor.shift[0])
        # Rounded half up, then half away from zero.
        high = (x * multiplier + (1 << 30)) >> 31
        return (abs(high) + (1 << right >> 1) >> right) * (1 if high >= 0 else -1)

    terms = [
        [scaled((q - zero) << parts.left_shift, factor) for q in range(-128, 128)]
        for zero, factor in zip(zeros, (parts.a, parts.b), strict=False)
    ]
    table = [[scaled(a + b, parts.out) + zeros[2] for b in terms[1]] for a in terms[0]]
    return np.clip(np.array(table), -128, 127)


def onnx(scales: list[float], zeros: list[int]) -> np.ndarray:
    total = FloatSum.of(tuple(scales), tuple(zeros), 128)
    return np.clip(total.apply(BYTES[:, None], BYTES[None, :]), -128, 127)


@pytest.mark.parametrize("oracle", [tflite, onnx])
def test_a_line_gives_the_same_bytes(oracle) -> None:
    rng, found = np.random.default_rng(11), 0
    for _ in range(SUMS):
        scales, zeros = quantised(rng)
        results = oracle(scales, zeros)
        line = integer_sum(scales[0] / scales[2], scales[1] / scales[2], results)
        if line is None:
            continue
        found += 1
        assert min(line.a, line.b) >= -INT32 and max(line.a, line.b) < INT32
        # As an int32 has it, step by step.
        a, b = ((BYTES * factor >> FINER) for factor in (line.a, line.b))
        partial = a[:, None] + line.constant
        total = partial + b[None, :]
        assert max(np.abs(partial).max(), np.abs(total).max()) < INT32
        np.testing.assert_array_equal(np.clip(total >> line.shift, -128, 127), results)
    assert found >= 0.9 * SUMS


def test_no_line_where_there_is_none() -> None:
    """One byte off somewhere in the middle, which no line follows."""
    results = tflite([0.053, 0.041, 0.097], [3, -7, 0])
    assert integer_sum(53 / 97, 41 / 97, results) is not None
    results[128, 128] += 2
    assert integer_sum(53 / 97, 41 / 97, results) is None
