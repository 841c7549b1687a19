# SPDX-License-Identifier: Apache-2.0
"""Float32 factors in integers: the same byte for every accumulator within the bounds."""

from __future__ import annotations

import numpy as np
import pytest
from vmcu_tools.kernels.integer_scale import STEP, WHOLE, integer_scale
from vmcu_tools.quant import FloatScale

MOST = 400_000


def bytes_of(values: np.ndarray, zero: int) -> np.ndarray:
    return np.clip(values + zero, -128, 127)


@pytest.mark.parametrize("seed", range(60))
def test_every_accumulator(seed: int):
    """Factors at random, of few bits, and next to a power of two."""
    rng = np.random.default_rng(seed)
    factor = np.exp2(rng.uniform(-12, -2.01))
    if seed % 3 == 1:
        factor = np.exp2(np.floor(np.log2(factor))) * rng.choice([1, 0.75, 0.625])
    if seed % 3 == 2:
        factor = np.nextafter(
            np.float32(np.exp2(np.round(np.log2(factor)))), np.float32(rng.choice([0, 1]))
        )
    scale = np.array([factor], np.float32)
    zero = int(rng.integers(-128, 128))
    reach = min(MOST // 2, int(rng.uniform(50, 400) / scale[0]))
    low, high = np.array([-reach]), np.array([reach + int(rng.integers(0, 100))])
    found = integer_scale(scale, zero, low, high, bool(rng.integers(0, 2)))
    acc = np.arange(low[0], high[0] + 1)[:, None]
    expected = bytes_of(FloatScale(scale).apply(acc), zero)
    np.testing.assert_array_equal(bytes_of(found.apply(acc), zero), expected)


def test_large_accumulators():
    """Where float32 does not hold every accumulator, at the borders and around them."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        scale = np.exp2(rng.uniform(-24, -12, 1)).astype(np.float32)
        zero = int(rng.integers(-128, 128))
        bound = np.array([min(2**31 - 1, int(300 / scale[0]))])
        found = integer_scale(scale, zero, -bound, bound, True)
        borders = np.ceil((np.arange(-256, 256) + 0.5) / np.float64(scale[0])).astype(np.int64)
        acc = np.clip(borders[:, None] + np.arange(-40, 41), -bound, bound).reshape(-1, 1)
        expected = bytes_of(FloatScale(scale).apply(acc), zero)
        np.testing.assert_array_equal(bytes_of(found.apply(acc), zero), expected)


def test_most_factors_are_lines():
    rng = np.random.default_rng(2)
    scale = np.exp2(rng.uniform(-11, -7, 1000)).astype(np.float32)
    bound = (80 / scale).astype(np.int64)
    found = integer_scale(scale, -128, -bound, bound, True)
    assert np.count_nonzero(found.word % WHOLE) > 900
    assert ((found.word % STEP & WHOLE > 0) == (found.word % WHOLE > 0)).all()


def test_borders_next_to_the_bounds():
    """The first and the last accumulator, with a border just beyond or on each."""
    rng = np.random.default_rng(3)
    for _ in range(500):
        scale = np.exp2(rng.uniform(-12, -4, 1)).astype(np.float32)
        zero = int(rng.integers(-128, 128))
        values = rng.integers(-128 - zero, 127 - zero, 2)
        ends = np.sort(np.ceil((values + 0.5) / np.float64(scale[0])).astype(np.int64))
        low, high = ends[:1] + rng.integers(-1, 2), ends[1:] + rng.integers(-1, 2)
        if low[0] >= high[0]:
            continue
        found = integer_scale(scale, zero, low, high, True)
        acc = np.array([low, high])
        expected = bytes_of(FloatScale(scale).apply(acc), zero)
        np.testing.assert_array_equal(bytes_of(found.apply(acc), zero), expected)


@pytest.mark.parametrize("factor", [0.0, -0.01, 0.3, 1.0, 1e-12, np.nan])
def test_no_line(factor: float):
    scale = np.array([factor], np.float32)
    found = integer_scale(scale, 0, np.array([-1000]), np.array([1000]), True)
    assert found.word.tolist() == [0]
    assert found.multiplier.view(np.float32).tobytes() == scale.tobytes()


def test_accumulators_that_wrap_have_no_line():
    bound = np.array([2**31])
    assert not integer_scale(np.array([0.01], np.float32), 0, -bound, bound, True).word.any()
