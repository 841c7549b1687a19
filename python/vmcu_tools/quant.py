# SPDX-License-Identifier: Apache-2.0
"""Quantised arithmetic, to the bit: the two requantisers and how their constants are made.

`FixedPoint` is TensorFlow Lite's reference arithmetic (gemmlowp: a saturating rounding doubling
high multiplication, then a rounding division by a power of two). `FloatScale` is ONNX Runtime's
(one float32 product, rounded half to even). lib/vmcu/include/vmcu/requant.h is the same in C.

Sums and products of two tensors are the same two ways: `FixedSum`, `FloatSum`, `FloatProduct`;
kernels/float_sum.c and binary.c have the latter two.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

# An array, or one of its elements.
Numbers: TypeAlias = "np.ndarray | np.signedinteger[Any] | np.floating[Any]"

INT8_MIN, INT8_MAX = -128, 127
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


def quantize_multiplier(real: float) -> tuple[int, int]:
    """Splits a real factor into a Q0.31 multiplier and a shift (positive: left).

    TensorFlow Lite, kernels/internal/quantization_util.cc, QuantizeMultiplier.
    """
    if real == 0.0:
        return 0, 0
    fraction, shift = math.frexp(real)
    scaled = fraction * (1 << 31)
    multiplier = math.floor(abs(scaled) + 0.5) * (1 if scaled >= 0 else -1)
    if multiplier == 1 << 31:
        multiplier //= 2
        shift += 1
    if shift < -31:
        return 0, 0
    return multiplier, shift


def high_mul(a: Numbers, b: Numbers) -> np.ndarray:
    """gemmlowp SaturatingRoundingDoublingHighMul on int32 values; returns int64 within int32."""
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    # Rounding to nearest with ties upwards equals gemmlowp's sign-dependent nudge and truncating
    # division.
    high: np.ndarray = np.minimum((product + (1 << 30)) >> 31, INT32_MAX)
    return high


def rounding_shift(x: np.ndarray, exponent: np.ndarray | int) -> np.ndarray:
    """gemmlowp RoundingDivideByPOT: x / 2**exponent, to nearest, ties away from zero."""
    x = np.asarray(x, np.int64)
    exponent = np.asarray(exponent, np.int64)
    mask = (np.int64(1) << exponent) - 1
    threshold = (mask >> 1) + (x < 0)
    shifted: np.ndarray = (x >> exponent) + ((x & mask) > threshold)
    return shifted


def divide_away(total: np.ndarray, count: np.ndarray | np.signedinteger[Any]) -> np.ndarray:
    """total / count to nearest, ties away from zero; count > 0."""
    magnitude = (np.abs(total) + count // 2) // count
    quotient: np.ndarray = np.where(total < 0, -magnitude, magnitude)
    return quotient


def wrap_int32(x: np.ndarray) -> np.ndarray:
    """The low 32 bits of x as a signed number, in int64."""
    return np.asarray(x, np.int64).astype(np.int32).astype(np.int64)


def fixed_point_multiply(x: Numbers, multiplier: Numbers, shift: Numbers) -> np.ndarray:
    """TensorFlow Lite MultiplyByQuantizedMultiplier (double rounding) on int32 values."""
    left = np.maximum(shift, 0).astype(np.int64)
    right = np.maximum(np.negative(shift), 0).astype(np.int64)
    return rounding_shift(high_mul(wrap_int32(np.asarray(x, np.int64) << left), multiplier), right)


def half_reciprocal(fraction: np.ndarray) -> np.ndarray:
    """2 / (1 + x) in Q2.29 for x in [0, 1], Q0.31: gemmlowp one_over_one_plus_x_for_x_in_0_1
    before its last step."""
    half_denominator = (np.asarray(fraction, np.int64) + (1 << 31)) >> 1
    # Newton-Raphson on (1 + x) / 2, three steps from 48/17 - 32/17 d.
    estimate = 1515870810 + high_mul(half_denominator, np.int64(-1010580540))
    for _ in range(3):
        error = (1 << 29) - high_mul(half_denominator, estimate)
        estimate = estimate + saturate(high_mul(estimate, error) << 2)
    return estimate


def reciprocal(x: np.ndarray, integer_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """gemmlowp one_over_one_plus_x on a Q(integer_bits) value; TensorFlow Lite GetReciprocal.

    Returns the reciprocal of x normalised to [1, 2) in Q0.31 and the bits x stands over one.
    """
    x = np.asarray(x, np.int64)
    headroom = 32 - bit_lengths(x)
    over_unit = integer_bits - headroom
    fraction = (x << headroom) - (1 << 31)
    return saturate(half_reciprocal(fraction) << 1), over_unit


def bit_lengths(x: np.ndarray) -> np.ndarray:
    """Counts the bits of each number, which is not negative."""
    return np.array([int(v).bit_length() for v in np.ravel(x)], np.int64).reshape(np.shape(x))


def inverse_square_root(value: int) -> tuple[int, int]:
    """1 / sqrt(value) as a Q0.31 multiplier and a shift (positive: left), for 0 .. 2**31 - 1.

    TensorFlow Lite, kernels/internal/common.h, GetInvSqrtQuantizedMultiplierExp: five steps of
    Newton's method in Q3.28.
    """
    if value <= 1:
        return INT32_MAX, 0
    shift = 11
    while value >= 1 << 29:
        value //= 4
        shift += 1
    pairs = (31 - value.bit_length()) // 2 - 1
    shift -= pairs
    value <<= 2 * pairs
    whole = np.int64(value >> 1)
    half = (whole + 1) >> 1
    x: Numbers = np.int64(1 << 28)
    for _ in range(5):
        cubed = saturate(high_mul(high_mul(x, x), x) << 6)
        x = saturate((high_mul(np.int64(3 << 27), x) - high_mul(half, cubed)) << 3)
    multiplier = int(high_mul(x, np.int64(1518500250)))
    if shift < 0:
        return multiplier << -shift, 0
    return multiplier, -shift


def fixed_point_quotient(
    a: np.ndarray, b: np.ndarray, multiplier: np.ndarray, shift: np.ndarray
) -> np.ndarray:
    """a / b times a factor, where no shift leaves 0 .. 31; far beyond int8 where b is zero.

    TensorFlow Lite, kernels/internal/reference/div.h, DivElementwise.
    """
    sign = np.where(b < 0, -1, 1)
    dividend, divisor = a * sign, np.abs(b)
    inverse, over_unit = reciprocal(np.maximum(divisor, 1), 31)
    head = 31 - bit_lengths(np.where(dividend < 0, ~dividend, dividend))
    scaled = high_mul(high_mul(wrap_int32(dividend << head), inverse), multiplier)
    result = rounding_shift(scaled, np.where(a == 0, 0, over_unit + head - shift))
    return np.where(b == 0, np.sign(a) * (1 << 15), result)


def saturate(x: np.ndarray) -> np.ndarray:
    """Cut to the range of int32."""
    clipped: np.ndarray = np.clip(x, INT32_MIN, INT32_MAX)
    return clipped


def float_bits(value: np.ndarray | float) -> int:
    """The bits of one float32 as a signed number."""
    return int(np.ravel(np.asarray(value, np.float32)).view(np.int32)[0])


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """TensorFlow Lite's requantiser: one Q0.31 multiplier and one shift per output channel.

    multiplier: int32 (channels,), shift: int32 (channels,), positive shifts left.
    """

    multiplier: np.ndarray
    shift: np.ndarray

    @staticmethod
    def of(real: Numbers) -> FixedPoint:
        """Approximates real factors (float64, any shape, flattened)."""
        pairs = [quantize_multiplier(float(r)) for r in np.ravel(real)]
        return FixedPoint(
            np.array([m for m, _ in pairs], np.int32), np.array([s for _, s in pairs], np.int32)
        )

    def apply(self, acc: np.ndarray) -> np.ndarray:
        """int32 accumulators (..., channels) to scaled int64 values, before the zero point."""
        return fixed_point_multiply(acc, self.multiplier, self.shift)

    def pick(self, channels: slice | np.ndarray) -> FixedPoint:
        """The factors of some channels."""
        return FixedPoint(self.multiplier[channels], self.shift[channels])


@dataclass(frozen=True, eq=False)
class FloatScale:
    """ONNX Runtime's requantiser: one float32 factor per output channel, rounded half to even."""

    scale: np.ndarray

    def apply(self, acc: np.ndarray) -> np.ndarray:
        """int32 accumulators (..., channels) to scaled int64 values, before the zero point.

        Values beyond +-2**20 are cut there: every output type clips long before.
        """
        product = np.asarray(acc).astype(np.float32) * self.scale.astype(np.float32)
        return np.rint(np.clip(product, -(2.0**20), 2.0**20)).astype(np.int64)

    def pick(self, channels: slice | np.ndarray) -> FloatScale:
        """The factors of some channels."""
        return FloatScale(self.scale[channels])


@dataclass(frozen=True, eq=False)
class FixedSum:
    """TensorFlow Lite's sum: out.apply(a.apply((qa - za) << left_shift) +
    b.apply((qb - zb) << left_shift)), one factor each, before the output's zero point.
    TensorFlow Lite, kernels/internal/reference/add.h."""

    a: FixedPoint
    b: FixedPoint
    out: FixedPoint
    left_shift: int = 20


# Factors of a FloatSum: outside, one step of an input is more than the output's range or nothing.
# The lower bound's last bit is the lowest of all float32 numbers that a sum comes across.
_FACTORS = (2.0**-20, 2.0**8)
FLOAT_SUM_SHIFT = 43
_MOST_FRACTION = 22


@dataclass(frozen=True)
class FloatSum:
    """ONNX Runtime's sum: fma(ua, a, fma(ub, b, constant)), each a float32 rounded once, then to
    an integer, half to even, less `offset`; ua and ub are the inputs' bytes plus `offset`.

    ONNX Runtime, core/mlas/lib/intrinsics/avx2/qladd_avx2.cpp; elsewhere it computes a sum in
    other ways, which differ where two of them are near a half.
    """

    a: float
    b: float
    constant: float
    offset: int

    @staticmethod
    def of(
        scales: tuple[float, float, float], zeros: tuple[int, int, int], offset: int
    ) -> FloatSum:
        """Makes the sum from the scales and int8 zero points of both inputs and the output.
        `offset`: 128 where ONNX Runtime computes with uint8, 0 where with int8."""
        a, b = (np.float32(scale) / np.float32(scales[2]) for scale in scales[:2])
        za, zb, zero = (np.float32(zero + offset) for zero in zeros)
        constant = zero - _fma(a, za, b * zb)
        return FloatSum(float(a), float(b), float(constant), offset)

    @property
    def usable(self) -> bool:
        """True if no factor is absurd."""
        return all(_FACTORS[0] <= factor < _FACTORS[1] for factor in (self.a, self.b))

    def apply(self, qa: np.ndarray, qb: np.ndarray) -> np.ndarray:
        """int8 inputs to the output's values, int64, before the clamp."""
        return _table(self)[
            np.asarray(qa, np.int64) - INT8_MIN, np.asarray(qb, np.int64) - INT8_MIN
        ]

    def fixed(self) -> dict[str, int]:
        """The fields of struct vmcu_float_sum: the sum in integers with `shift` fractional bits,
        which is the same but where it comes out near a half, and the float32 numbers for that.
        """
        low, high = INT8_MIN + self.offset, INT8_MAX + self.offset
        partial = max(abs(self.b * u + self.constant) for u in (low, high))
        reach = partial + max(abs(self.a * u) for u in (low, high)) + abs(self.offset) + 1
        shift = min(_MOST_FRACTION, 29 - math.ceil(math.log2(reach)))
        one = 1 << shift
        a, b = round(self.a * one), round(self.b * one)
        error = (max(-low, high) + 1) + 2.0**-24 * (partial + reach) * one
        near = 1 << math.ceil(math.log2(error + 1))
        bias = round((self.constant - self.offset) * one) + self.offset * (a + b) + one // 2 + near
        return {
            "a_scale": a,
            "b_scale": b,
            "bias": bias,
            "fraction": one - 2 * near,
            "a": int(math.ldexp(self.a, FLOAT_SUM_SHIFT)),
            "b": int(math.ldexp(self.b, FLOAT_SUM_SHIFT)),
            "constant": int(math.ldexp(self.constant, FLOAT_SUM_SHIFT)),
            "shift": shift,
            "offset": self.offset,
        }


@dataclass(frozen=True)
class FloatProduct:
    """ONNX Runtime's product: (qa - za) * (qb - zb) times a float32 factor, plus the output's zero
    point and `offset` as float32 has it, then to an integer, half to even, less `offset`.

    ONNX Runtime, core/mlas/lib/qlmul.cpp; `offset` as FloatSum.of() has it.
    """

    factor: float
    offset: int

    def apply(self, product: np.ndarray, zero: int) -> np.ndarray:
        """(qa - za) * (qb - zb) to the output's values, int64, before the clamp."""
        scaled = np.asarray(product).astype(np.float32) * np.float32(self.factor)
        total = np.clip(scaled + np.float32(zero + self.offset), -(2.0**20), 2.0**20)
        values: np.ndarray = np.rint(total).astype(np.int64) - self.offset
        return values


def _fma(x: Numbers, y: Numbers, z: Numbers) -> np.ndarray:
    """x * y + z in float32, rounded once; x * y has to be exact in float64.

    The sum of both in float64 is rounded to odd, so that rounding it once more does no harm: S.
    Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums", 2008.
    """
    product, addend = np.float64(x) * np.float64(y), np.float64(z)
    total = np.asarray(product + addend)
    back = total - product
    error = (product - (total - back)) + (addend - back)
    even = total.view(np.int64) % 2 == 0
    odd = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where((error != 0) & even, odd, total).astype(np.float32)


@functools.lru_cache(maxsize=64)
def _table(sums: FloatSum) -> np.ndarray:
    """FloatSum.apply() for all bytes, int64 (256, 256)."""
    bytes_ = np.arange(256, dtype=np.float32) + np.float32(INT8_MIN + sums.offset)
    inner = _fma(bytes_, np.float32(sums.b), np.float32(sums.constant))
    total = _fma(bytes_[:, None], np.float32(sums.a), inner[None, :])
    values: np.ndarray = np.rint(total).astype(np.int64) - sums.offset
    return values


Requant = FixedPoint | FloatScale


def requantize(
    acc: np.ndarray, requant: Requant, zero_point: int, act_min: int, act_max: int
) -> np.ndarray:
    """int32 accumulators (..., channels) to int8: scale, add the zero point, clamp."""
    clipped: np.ndarray = np.clip(requant.apply(acc) + zero_point, act_min, act_max).astype(np.int8)
    return clipped
