# SPDX-License-Identifier: Apache-2.0
"""Sums of two bytes as a line through the integers.

The result of a sum in fixed point or in float32 is known for each of the 65,536 pairs of bytes when
a model is compiled. Where the line gives the same byte for each of them, two multiplications do.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from ..quant import INT8_MAX, INT8_MIN, INT32_MAX

BYTES = np.arange(INT8_MIN, INT8_MAX + 1, dtype=np.int64)
# The bits of factors beyond those of the sum: a byte that is the upper half of 16 bits times 32
# bits, without the lower 16 of the product, is one instruction of many cores.
FINER = 8
# Fractional bits of the sum, and how far a factor may be from the nearest integer.
MOST_SHIFT, LEAST_SHIFT, NEARBY = 24, 14, 1
SPARSE = 16


@dataclass(frozen=True)
class IntegerSum:
    """(floor(a * qa / 2^FINER) + floor(b * qb / 2^FINER) + constant) >> shift; nothing of it leaves
    int32 but the products."""

    a: int
    b: int
    constant: int
    shift: int

    def apply(self, qa: np.ndarray, qb: np.ndarray) -> np.ndarray:
        """int64, before it is cut to a byte."""
        return (line_sum(qa, qb, self.a, self.b) + self.constant) >> self.shift


def line_sum(qa: np.ndarray, qb: np.ndarray, a: int, b: int) -> np.ndarray:
    """Both bytes, int64, times their factors."""
    return ((qa * a) >> FINER) + ((qb * b) >> FINER)


def integer_sum(a: float, b: float, results: np.ndarray) -> IntegerSum | None:
    """A line that gives all of `results`, None if none was found.

    a, b: about the addend of a step of either byte. results: int64 (256, 256), by the bytes from
    -128 on, clamped to int8.
    """
    widest = 31 - FINER - math.ceil(math.log2(max(abs(a), abs(b)) + 2.0**-20))
    for shift in range(min(MOST_SHIFT, widest), LEAST_SHIFT - 1, -1):
        near = [round(factor * (1 << (shift + FINER))) for factor in (a, b)]
        nearby = range(-NEARBY, NEARBY + 1)
        steps = sorted(itertools.product(nearby, nearby), key=_distance)
        for step in steps:
            line = _through(near[0] + step[0], near[1] + step[1], shift, results)
            if line is not None:
                return line
    return None


def _distance(step: tuple[int, int]) -> int:
    return abs(step[0]) + abs(step[1])


def _through(a: int, b: int, shift: int, results: np.ndarray) -> IntegerSum | None:
    """The line with these factors, its constant in the middle of those that there are."""
    # Most lines fail at a few of the pairs, which is sooner seen than that they fail.
    for every in (SPARSE, 1):
        sums = line_sum(BYTES[:, None], BYTES[None, ::every], a, b)
        low, high = _constants(sums, shift, results[:, ::every])
        if low > high:
            return None
    constant = (low + high) // 2
    fits = np.abs(sums).max() + abs(constant) <= INT32_MAX
    return IntegerSum(a, b, constant, shift) if fits else None


def _constants(sums: np.ndarray, shift: int, results: np.ndarray) -> tuple[int, int]:
    """The least and the most that may be added to the sums before they are shifted."""
    least = (results << shift) - sums
    # Clamped results may lie further out.
    low = np.max(least, where=results > INT8_MIN, initial=-INT32_MAX)
    width = (1 << shift) - 1
    high = np.min(least, where=results < INT8_MAX, initial=INT32_MAX - width) + width
    return int(low), int(high)
