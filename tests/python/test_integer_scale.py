# SPDX-License-Identifier: Apache-2.0
"""Float32 factors in integers: the same byte for every accumulator within the bounds."""

from __future__ import annotations

import functools
import math
import os
from fractions import Fraction

import numpy as np
import pytest
from vmcu_tools.errors import PlanError
from vmcu_tools.kernels.integer_scale import (
    STEP,
    WHOLE,
    IntegerScale,
    _first_above,
    check_line,
    integer_product,
    integer_scale,
)
from vmcu_tools.quant import FloatProduct, FloatScale, float_bits

MOST = 400_000
CHANNELS = int(os.environ.get("VMCU_CASES", "400"))


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


def test_borders_that_float32_moves() -> None:
    """Bounds between a border's exact place and where float32 has it, with no other border."""
    rng = np.random.default_rng(10)
    found = [0, 0]
    for _ in range(400):
        factor = np.exp2(rng.uniform(-22, -12)).astype(np.float32)
        real, value = (
            FloatScale(factor).apply,
            int(rng.integers(40, 127)) * int(rng.choice([-1, 1])),
        )
        (first,) = _first_above(factor, real, np.array([value])).tolist()
        exact = math.ceil((Fraction(2 * value + 1) / 2) / Fraction(float(factor)))
        if abs(first - exact) < 2:
            continue
        late = first > exact
        low, high = (first - 60, first - 2) if late else (first + 1, first + 60)
        line = integer_scale(np.array([factor]), 0, np.array([low]), np.array([high]), False)
        acc = np.arange(low, high + 1)[:, None]
        wanted = bytes_of(FloatScale(np.array([factor])).apply(acc), 0)
        np.testing.assert_array_equal(bytes_of(line.apply(acc), 0), wanted)
        found[late] += line.word[0] % WHOLE > 0
    assert min(found) > 20


@pytest.mark.parametrize("factor", [0.0, -0.01, 0.3, 1.0, 1e-12, np.nan])
def test_no_line(factor: float):
    scale = np.array([factor], np.float32)
    found = integer_scale(scale, 0, np.array([-1000]), np.array([1000]), True)
    assert found.word.tolist() == [0]
    assert found.multiplier.view(np.float32).tobytes() == scale.tobytes()


def test_accumulators_that_wrap_have_no_line():
    """All 2**32 of them may have one."""
    scale = np.array([0.0123], np.float32)
    for low, high in ((-(2**31) - 1, 0), (0, 2**31), (-(2**31), 2**31 - 1)):
        found = integer_scale(scale, 0, np.array([low]), np.array([high]), True)
        assert bool(found.word.any()) == (high - low == 2**32 - 1)


def differing(scale: np.ndarray, zero: int, low: int, high: int, multiplier: int, word: int) -> int:
    """How many of the accumulators at which a line or the factor's own function change give
    another byte, by whole numbers and by rational arithmetic."""
    shift, adjust = word % WHOLE, word - word % STEP
    real = FloatScale(scale)
    values = range(-128 - zero, 127 - zero)
    places = [low, high]
    for value in values:
        border = (2 * value + 1) << (31 + shift)
        place = -((adjust - border) // multiplier)
        exact = math.ceil((Fraction(2 * value + 1) / 2) / Fraction(float(scale[0])))
        places += [at + step for at in (place, exact) for step in (-1, 0, 1)]
        # float32 rounds an accumulator of more than 24 bits, so its own border lies further off.
        places += [exact + step for step in range(-2 - (abs(exact) >> 22), 3 + (abs(exact) >> 22))]
    acc = np.unique([at for at in places if low <= at <= high])
    lines = np.array(
        [((int(a) * multiplier + adjust >> 32) + (1 << shift - 1)) >> shift for a in acc]
    )
    return int((bytes_of(lines, zero) != bytes_of(real.apply(acc), zero)).sum())


def adversarial(rng: np.random.Generator) -> tuple[np.ndarray, int, int, int]:
    """A factor and bounds that lie on a border, or a few accumulators off, where float32 may have
    the border on the bound's other side."""
    scale = np.exp2(rng.uniform(-24, -2.01, 1)).astype(np.float32)
    if rng.random() < 0.3:
        # Of few bits: whole numbers at the borders, ties everywhere.
        scale = np.exp2(np.floor(np.log2(scale))) * rng.choice([1, 0.75, 0.625, 1 + 2.0**-23])
        scale = scale.astype(np.float32)
    zero = int(rng.integers(-128, 128))
    ends = []
    for value in rng.integers(-129 - zero, 129 - zero, 2):
        near = math.ceil((Fraction(int(2 * value + 1)) / 2) / Fraction(float(scale[0])))
        reach = 3 + (abs(near) >> 23)
        ends.append(near + int(rng.integers(-reach, reach + 1)))
    if rng.random() < 0.5:
        # One border, or none.
        ends[1] = ends[0] + int(rng.integers(0, 600))
    low, high = sorted(min(max(end, -(2**31)), 2**31 - 1) for end in ends)
    return scale, zero, low, high


def test_adversarial_channels() -> None:
    """Borders that float32 has beyond a bound, and that lie within it."""
    rng = np.random.default_rng(4)
    lines = 0
    for _ in range(CHANNELS):
        scale, zero, low, high = adversarial(rng)
        found = integer_scale(scale, zero, np.array([low]), np.array([high]), False)
        if found.word[0] % WHOLE:
            lines += 1
            words = int(found.multiplier[0]), int(found.word[0])
            assert differing(scale, zero, low, high, *words) == 0, (scale, zero, low, high)
    # Of accumulators beyond 24 bits float32 seldom makes a line.
    assert lines > CHANNELS * 0.3


def test_what_is_beyond_the_bounds_does_not_matter() -> None:
    """A line is checked for the accumulators that there are, whatever the others would give."""
    rng = np.random.default_rng(9)
    passed = 0
    for _ in range(40):
        scale = np.exp2(rng.uniform(-12, -3, 1)).astype(np.float32)
        ends = np.sort(rng.integers(-200, 200, 2) / scale[0]).astype(np.int64)
        low, high = int(ends[0]), int(ends[1])
        found = integer_scale(scale, 5, ends[:1], ends[1:], False)
        multiplier, word = int(found.multiplier[0]), int(found.word[0])
        if not word % WHOLE:
            continue

        def elsewhere(acc: np.ndarray, line: FloatScale, low: int, high: int) -> np.ndarray:
            return np.where(acc < low, -999, np.where(acc > high, 999, line.apply(acc)))

        real = functools.partial(elsewhere, line=FloatScale(scale), low=low, high=high)
        check_line(multiplier, word, real, 5, low, high)
        passed += 1
    assert passed > 30


def test_a_wrong_line_is_refused() -> None:
    """One step off in either word, where that moves a border across an accumulator."""
    rng = np.random.default_rng(6)
    refused = passed = 0
    for _ in range(60):
        scale, zero, low, high = adversarial(rng)
        found = integer_scale(scale, zero, np.array([low]), np.array([high]), False)
        multiplier, word = int(found.multiplier[0]), int(found.word[0])
        if not word % WHOLE:
            continue
        real = FloatScale(scale).apply
        for wrong in ((multiplier + 4096, word), (multiplier, word - (STEP << 12))):
            same = differing(scale, zero, low, high, *wrong) == 0
            try:
                check_line(*wrong, real, zero, low, high)
                passed += 1
                assert same
            except PlanError:
                refused += 1
                assert not same
    assert refused > 10 and passed > 10


def by_hand(acc: int, multiplier: int, word: int) -> int:
    """A line as the kernel has it, in whole numbers without end."""
    shift, adjust = word % WHOLE, word - word % STEP
    return ((acc * multiplier + adjust >> 32) + (1 << shift - 1)) >> shift


def test_a_line_is_computed_to_the_last_bit() -> None:
    """Where what is there before the shift is a whole number, and next to it."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        multiplier = int(rng.integers(2**30, 2**31)) | 1
        shift, adjust = int(rng.integers(1, 23)), int(rng.integers(-(2**22), 2**22)) * STEP
        word = adjust + shift + WHOLE * int(rng.integers(0, 2))
        for part in (0, 1, STEP - 1, 2**32 - 1):
            acc = (part - adjust) * pow(multiplier, -1, 2**32) % 2**32 - 2**31
            for near in (acc, acc + 2**31 if acc < 0 else acc - 2**31):
                found = IntegerScale(np.array([multiplier]), np.array([word]))
                assert found.apply(np.array([near])).tolist() == [by_hand(near, multiplier, word)]


@pytest.mark.parametrize("low", range(-24, -2, 2))
def test_borders_are_where_float32_has_them(low: int) -> None:
    rng = np.random.default_rng(100 - low)
    for _ in range(40):
        factor = np.exp2(rng.uniform(low, low + 2)).astype(np.float32)
        real, zero = FloatScale(factor).apply, int(rng.integers(-128, 128))
        values = np.arange(-128 - zero, 127 - zero)
        first = _first_above(factor, real, values)
        assert (real(first) > values).all() and (real(first - 1) <= values).all()


def line_of(factor: float, whole: bool = False) -> int:
    """The word of a factor for accumulators with one border."""
    scale = np.array([factor], np.float32)
    return int(integer_scale(scale, 0, np.array([0]), np.array([int(1 / factor)]), whole).word[0])


def test_lines_are_for_every_factor_that_a_shift_expresses() -> None:
    for shift in range(1, 23):
        for part in (1.01, 1.37, 1.99):
            assert line_of(part * 2.0 ** -(shift + 2)) % STEP == shift
            assert line_of(part * 2.0 ** -(shift + 2), whole=True) % STEP == shift + WHOLE
    for factor in (1.01 * 2.0**-2, 1.99 * 2.0**-25):
        assert line_of(factor) == 0


def test_products_of_two_values() -> None:
    """Every product that two int8 values less their zero points can have."""
    rng = np.random.default_rng(8)
    products = np.arange(-(255**2), 255**2 + 1)
    lines = 0
    for number in range(60):
        factor = float(np.float32(np.exp2(rng.uniform(-14, -2.01)) if number else 1.25))
        product = FloatProduct(factor, int(rng.choice([0, 128])))
        zero = int(rng.integers(-128, 128))
        multiplier, word = integer_product(product, zero)
        if word == 0:
            assert multiplier == float_bits(np.float32(factor))
            continue
        lines += 1
        found = IntegerScale(np.array([multiplier]), np.array([word])).apply(products[:, None])
        wanted = np.clip(product.apply(products, zero), -128, 127)
        np.testing.assert_array_equal(bytes_of(found[:, 0], zero), wanted)
    assert 30 < lines < 60
