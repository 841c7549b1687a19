# SPDX-License-Identifier: Apache-2.0
"""Functions that kernels in C share, one by one, against what they are to compute."""

from __future__ import annotations

import ctypes
import itertools
from fractions import Fraction

import numpy as np
from layer_checks import FloatSum, native
from test_float_sum import rounded
from vmcu_tools.quant import FloatSum as Sum

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


class Taps(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int32) for name in ("first", "dilation", "begin", "end"))


def half_away(x: Fraction) -> int:
    """To nearest, ties away from zero."""
    whole = int(abs(x) + Fraction(1, 2))
    return whole if x >= 0 else -whole


def test_taps_inside(loader: ctypes.CDLL) -> None:
    """Those of a window that lie on an axis; where there are none, they begin where they end."""
    loader.vmcu_taps.restype = Taps
    sizes = itertools.product(range(-9, 9), range(1, 5), range(1, 4), range(1, 7))
    for first, kernel, dilation, size in sizes:
        found = loader.vmcu_taps(first, kernel, dilation, size)
        inside = [k for k in range(kernel) if 0 <= first + k * dilation < size]
        assert [*range(found.begin, found.end)] == inside, (first, kernel, dilation, size)
        assert (found.first, found.dilation) == (first, dilation)
        assert 0 <= found.begin <= found.end <= kernel


def test_shifts_that_saturate(loader: ctypes.CDLL) -> None:
    edges = [n + d for n in (0, INT32_MIN, INT32_MAX) for d in range(-2, 3)]
    edges += [sign * (1 << k) + d for k in range(31) for sign in (-1, 1) for d in (-1, 0, 1)]
    for x, shift in itertools.product(edges, range(8)):
        if INT32_MIN <= x <= INT32_MAX:
            wanted = min(max(x << shift, INT32_MIN), INT32_MAX)
            assert loader.vmcu_saturating_shift(x, shift) == wanted, (x, shift)


def test_the_largest_channel(loader: ctypes.CDLL) -> None:
    rng = np.random.default_rng(0)
    for count in range(1, 20):
        values = rng.integers(-128, 128, count + 1).astype(np.int8)
        values[count] = 127
        found = loader.vmcu_maximum(ctypes.c_char_p(values.tobytes()), count)
        assert found == values[:count].max()
    assert loader.vmcu_maximum(ctypes.c_char_p(b"\x80\x80"), 2) == -128


def test_means(loader: ctypes.CDLL) -> None:
    """To nearest; 256 of them where a scale follows, which is here a half."""
    loader.vmcu_mean.restype = ctypes.c_int8
    for rescale in (0, 1):
        fields = {"rescale": rescale, "act_min": -128, "act_max": 127}
        fields["factor"] = {"multiplier": 1 << 30, "shift": -8}
        params = ctypes.create_string_buffer(native("vmcu_average_pool_params", fields))
        for count in range(1, 12):
            for total in range(-128 * count, 127 * count + 1, max(1, count // 3)):
                found = loader.vmcu_mean(params, total, count)
                if rescale == 0:
                    assert found == half_away(Fraction(total, count)), (total, count)
                else:
                    mean = half_away(Fraction(256 * total, count))
                    assert found == half_away(Fraction(mean, 512)), (total, count)
    large = ctypes.create_string_buffer(native("vmcu_average_pool_params", fields))
    assert loader.vmcu_mean(large, 127 << 22, 1 << 22) == 64


def test_sums_are_rounded_twice(loader: ctypes.CDLL) -> None:
    """As float32 is, by rational arithmetic; those next to a tie, and none, too."""
    rng = np.random.default_rng(1)
    found = 0
    for number in range(40):
        scales = tuple(float(s) for s in 2.0 ** rng.uniform(-10, -3, 3))
        if number % 2:
            # Ties are frequent.
            scales = tuple(float(n) / 8 for n in rng.integers(1, 5, 3))
        zeros = tuple(int(z) for z in rng.integers(-128, 128, 3))
        total = Sum.of(scales, zeros, int(rng.choice([0, 128])))
        unit = Fraction(2) ** 43
        numbers = [int(Fraction(float(x)) * unit) for x in (total.a, total.b, total.constant)]
        words = FloatSum(*numbers, offset=total.offset)
        for qa, qb in rng.integers(-128, 128, (40, 2)):
            inner = rounded(Fraction(total.b) * (int(qb) + total.offset) + Fraction(total.constant))
            exact = rounded(Fraction(total.a) * (int(qa) + total.offset) + inner)
            got = loader.vmcu_float_sum_exact(ctypes.byref(words), int(qa), int(qb))
            assert got == round(exact) - total.offset, (scales, zeros, qa, qb)
            found += exact.denominator == 2
    assert found > 20
