# SPDX-License-Identifier: Apache-2.0
"""A float32 factor in integers, where both give the same byte for every accumulator there is.

ONNX Runtime's requantiser rounds twice in float32, which costs a core without hardware for it 60
instructions and one with it 20. But an output has no more than 256 values, and an accumulator of a
layer stays within the bounds that its weights set. So there are at most 255 accumulators at which
the output changes, and a line through the integers that passes on the right side of all of them is
the same function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import PlanError
from ..quant import INT8_MAX, INT8_MIN, INT32_MAX, INT32_MIN, FloatProduct, FloatScale, float_bits

# The line's slope is a multiplier in Q0.32 with a right shift; `adjust` raises it, in 2**-32 of the
# value before the shift, in steps that leave eight bits free: for the shift, and for WHOLE, which
# says that the output's bounds are those of int8.
SHIFTS = range(1, 23)
STEP = 256
WHOLE = 0x80
# How far from the factor itself a multiplier is looked for, the near ones first, some at a time.
_NEAR = np.split(np.array(sorted(range(-64, 65), key=abs)), (1, 5, 21, 65))
# Further from a border than any adjustment reaches.
_FAR = 1 << 48


@dataclass(frozen=True, eq=False)
class IntegerScale:
    """The words that a kernel reads: by channel a multiplier and a word of adjust, WHOLE and shift;
    or a float32's bits and zero, where no line will do.

    multiplier, word: int32 (channels,).
    """

    multiplier: np.ndarray
    word: np.ndarray

    def apply(self, acc: np.ndarray) -> np.ndarray:
        """int32 accumulators (..., channels) to int64 values, before the zero point."""
        acc = np.asarray(acc, np.int64)
        word = self.word.astype(np.int64)
        shift = word % WHOLE
        line = (acc * self.multiplier + (word - word % STEP)) >> 32
        half = np.int64(1) << np.maximum(shift - 1, 0)
        bits = np.where(shift > 0, 0, self.multiplier).astype(np.int32)
        real = FloatScale(bits.view(np.float32)).apply(acc)
        return np.where(shift > 0, (line + half) >> shift, real)


def integer_scale(
    scale: np.ndarray, zero: int, lowest: np.ndarray, highest: np.ndarray, whole: bool
) -> IntegerScale:
    """Finds the scales of factors float32 (channels,), for an output with zero point `zero`,
    whose bounds are those of int8 if `whole`, and accumulators from `lowest` to `highest`, int64
    (channels,)."""
    key = (scale.astype(np.float32).tobytes(), zero, lowest.tobytes(), highest.tobytes())
    multiplier, word = np.array(_words(*key), np.int64).reshape(-1, 2).T
    if whole:
        word = np.where(word == 0, 0, word | WHOLE)
    return IntegerScale(multiplier.astype(np.int32), word.astype(np.int32))


@functools.lru_cache(maxsize=1024)
def _words(scale: bytes, zero: int, lowest: bytes, highest: bytes) -> list[tuple[int, int]]:
    factors = np.frombuffer(scale, np.float32)
    bounds = np.frombuffer(lowest, np.int64), np.frombuffer(highest, np.int64)
    words = []
    for factor, low, high in zip(factors, *bounds, strict=True):
        real = FloatScale(np.array(factor)).apply
        line = _line(factor, real, zero, int(low), int(high))
        words.append(line or (float_bits(float(factor)), 0))
    return words


@functools.lru_cache(maxsize=1024)
def integer_product(product: FloatProduct, zero: int) -> tuple[int, int]:
    """Multiplier and word for the product of two int8 values, whatever their zero points."""
    factor, reach = np.float32(product.factor), (INT8_MAX - INT8_MIN) ** 2
    line = _line(factor, lambda x: product.apply(x, zero) - zero, zero, -reach, reach)
    return line or (float_bits(float(factor)), 0)


def _line(
    factor: np.float32, real: Callable[[np.ndarray], np.ndarray], zero: int, low: int, high: int
) -> tuple[int, int] | None:
    """Multiplier and word of a line that is `real`, a rounded product with the factor, for the
    accumulators [low, high]."""
    if not (0 < factor < 1 and low >= INT32_MIN and high <= INT32_MAX):
        return None
    _, exponent = np.frexp(factor)
    shift = -int(exponent) - 1
    if shift not in SHIFTS:
        return None
    values = np.arange(INT8_MIN - zero, INT8_MAX - zero)
    first = _first_above(factor, real, values)
    multiplier = round(float(factor) * 2.0 ** (32 + shift))
    above_at, above = _distances(values, first, (low, high), low, multiplier, shift)
    below_at, below = _distances(values, first - 1, (low, high), high, multiplier, shift)
    for some in _NEAR:
        least = (above - some[:, None] * above_at).max(axis=1, initial=-STEP)
        most = (below - some[:, None] * below_at).min(axis=1, initial=STEP) - 1
        adjust = np.minimum(np.maximum(0, -(-least // STEP) * STEP), most // STEP * STEP)
        fits = (adjust >= least) & (adjust >= INT32_MIN) & (adjust <= INT32_MAX - STEP)
        if fits.any():
            at = int(np.argmax(fits))
            line = multiplier + int(some[at]), int(adjust[at]) + shift
            check_line(*line, real, zero, low, high)
            return line
    return None


def check_line(
    multiplier: int,
    word: int,
    real: Callable[[np.ndarray], np.ndarray],
    zero: int,
    low: int,
    high: int,
) -> None:
    """Raises PlanError unless a line is `real` for all accumulators [low, high].

    Both only ever rise, so that they are one function if they pass each value at the same place.
    Where the line does follows from its two words; `real` is asked there and one below.
    """
    shift, adjust = word % WHOLE, word - word % STEP
    values = np.arange(INT8_MIN - zero, INT8_MAX - zero)
    first = -((adjust - ((2 * values + 1) << (31 + shift))) // multiplier)
    first = np.clip(first, low, high + 1)
    above, below = first <= high, first > low
    wrong = np.count_nonzero(real(first[above]) <= values[above])
    wrong += np.count_nonzero(real(first[below] - 1) > values[below])
    if multiplier <= 0 or wrong:
        raise PlanError(f"a line for accumulators [{low}, {high}] is wrong at {wrong} borders")


def _distances(
    values: np.ndarray,
    at: np.ndarray,
    bounds: tuple[int, int],
    end: int,
    multiplier: int,
    shift: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Accumulators within the bounds that a line must be above a border's value at, or not above,
    and how much they lack to its border, int64: those of the borders inside, and `end`, which the
    nearest border beyond it must not come in at, however far out float32 has it."""
    inside = (at >= bounds[0]) & (at <= bounds[1])
    # Modulo 2**64: the distances of the accumulators next to a border from it are small.
    border = (2 * values[inside] + 1).astype(np.uint64) << np.uint64(31 + shift)
    lack = (border - at[inside].astype(np.uint64) * np.uint64(multiplier)).view(np.int64)
    beyond = values[at < end][-1:] if end == bounds[0] else values[at > end][:1]
    far = [((2 * int(value) + 1) << (31 + shift)) - end * multiplier for value in beyond]
    cut = np.array([min(max(lacks, -_FAR), _FAR) for lacks in far], np.int64)
    return np.append(at[inside], [end] * len(far)), np.append(lack, cut)


def _first_above(
    factor: np.float32, real: Callable[[np.ndarray], np.ndarray], values: np.ndarray
) -> np.ndarray:
    """Finds for each value the least accumulator whose result is larger, int64."""
    near = np.ceil((values + 0.5) / np.float64(factor)).astype(np.int64)
    reach = 2 + (np.abs(near) >> 23)
    first, last = near - reach, near + reach
    while (first < last).any():
        middle = (first + last) >> 1
        larger = real(middle) > values
        first = np.where(larger, first, middle + 1)
        last = np.where(larger, middle, last)
    return first
