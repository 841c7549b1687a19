# SPDX-License-Identifier: Apache-2.0
"""The constants of a front end: computed in float here, only read on the device.

Where TensorFlow Lite Micro computes in float32 so does this. Cosines and powers are rounded once
from float64; of logarithms libraries give the last bit as they like, and a weight hangs on it: the
one here is the one that C libraries have long had from fdlibm.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from .settings import Settings

WINDOW_BITS = 12
FILTER_BITS = 12
NOISE_BITS = 14
SNR_BITS = 12
LOG_BITS = 16
LOG_SEGMENTS = 128
TWIDDLE_MAX = 32767
INT16_MAX = 32767
GAIN_INTERVALS = 32

F32 = np.float32
# fdlibm's: ln 2 in two parts, the polynomial, and where it needs no power of two.
_LN2_HIGH, _LN2_LOW = F32(6.9313812256e-01), F32(9.0580006145e-06)
_SERIES = np.array(
    [
        *(6.6666668653e-01, 4.0000000596e-01, 2.8571429849e-01, 2.2222198546e-01),
        *(1.8183572590e-01, 1.5313838422e-01, 1.4798198640e-01),
    ],
    F32,
)
_ROOT_HALF, _ROOT_TWO_LESS_1 = F32(0.7071070075), F32(0.4142138660)


@dataclass(frozen=True)
class Tables:
    """Arrays are one-dimensional where no shape is given.

    coefficients: int16 (window), of WINDOW_BITS. places: int, the sample pair that is at each place
    before the first butterflies. twiddles, halves: int16 (n, 2), real and imaginary parts, of the
    complex transform of half the points and of the step from it to the real one. starts, widths:
    int, the first bin and the bins of each channel, of which there is one more than the output has.
    weights, unweights: int16, of FILTER_BITS, bin after bin: how much of it is its channel's, and
    the next one's. gain: int16, of PCAN: values at 0 and 1, then for each power of two from 2 on
    value, slope, curvature; empty if there is no PCAN. log: uint16, of LOG_BITS.
    """

    coefficients: np.ndarray
    radices: tuple[int, ...]
    places: np.ndarray
    twiddles: np.ndarray
    halves: np.ndarray
    starts: np.ndarray
    widths: np.ndarray
    weights: np.ndarray
    unweights: np.ndarray
    gain: np.ndarray
    log: np.ndarray
    # How far a channel's magnitude is from that of its input, in bits.
    correction: int
    even_smoothing: int
    odd_smoothing: int
    least_signal: int


@cache
def tables_of(settings: Settings) -> Tables:
    """The tables of a front end; the same for the same settings, on every machine."""
    points = settings.transform // 2
    radices = radices_of(points)
    starts, widths, weights, unweights = _filters(settings)
    correction = settings.transform.bit_length() - 1 - FILTER_BITS // 2
    at = np.arange(LOG_SEGMENTS + 1) / LOG_SEGMENTS
    return Tables(
        _coefficients(settings.window),
        radices,
        _places(points, radices),
        _turns(-2 * np.pi * np.arange(points * 3 // 4) / points),
        _turns(-np.pi * ((np.arange(points // 2) + 1) / points + 0.5)),
        starts,
        widths,
        weights,
        unweights,
        _gains(settings, settings.smoothing_bits - correction),
        np.rint((np.log2(1 + at) - at) * (1 << LOG_BITS)).astype(np.uint16),
        correction,
        int(F32(settings.even_smoothing) * F32(1 << NOISE_BITS)),
        int(F32(settings.odd_smoothing) * F32(1 << NOISE_BITS)),
        int(F32(settings.least_signal) * F32(1 << NOISE_BITS)),
    )


def radices_of(points: int) -> tuple[int, ...]:
    """Fours, and a two at last where the points are an odd power of two."""
    bits = points.bit_length() - 1
    return (4,) * (bits // 2) + (2,) * (bits % 2)


def _coefficients(window: int) -> np.ndarray:
    """A Hann window, between the samples."""
    arg = F32(np.pi) * F32(2) / F32(window)
    angles = arg * (np.arange(window, dtype=F32) + F32(0.5))
    value = F32(0.5) - F32(0.5) * np.cos(angles.astype(np.float64)).astype(F32)
    coefficients: np.ndarray = np.floor(value * F32(1 << WINDOW_BITS) + F32(0.5)).astype(np.int16)
    return coefficients


def _places(points: int, radices: tuple[int, ...]) -> np.ndarray:
    """Decimation in time: the digits of a place, by `radices`, are its sample's from behind."""
    places = np.zeros(1, np.int64)
    stride = points
    for radix in reversed(radices):
        stride //= radix
        places = (places[None, :] + stride * np.arange(radix)[:, None]).ravel()
    return places


def _turns(phases: np.ndarray) -> np.ndarray:
    parts = np.stack([np.cos(phases), np.sin(phases)], axis=-1)
    return np.floor(0.5 + TWIDDLE_MAX * parts).astype(np.int16)


def _mel(hertz: np.ndarray) -> np.ndarray:
    return F32(1127) * _log1p(np.atleast_1d(np.asarray(hertz, F32)) / F32(700))


def _log1p(x: np.ndarray) -> np.ndarray:
    """float32 of non-negative float32, by the method of fdlibm's s_log1p.c: 1 + x is 2^k times 1
    + f with f from sqrt(1/2) - 1 to sqrt(2) - 1, whose logarithm is a polynomial of f / (2 + f);
    c is the rounding error of 1 + x."""
    whole = F32(1) + x
    mantissa, k = np.frexp(whole)
    lost = np.where(k > 1, F32(1) - (whole - x), x - (whole - F32(1))) / whole
    up = mantissa < _ROOT_HALF
    mantissa, k = np.where(up, 2 * mantissa, mantissa), k - up
    small = x < _ROOT_TWO_LESS_1
    k, lost = np.where(small, 0, k).astype(F32), np.where(small, F32(0), lost)
    f = np.where(small, x, mantissa - F32(1))
    half_square = F32(0.5) * f * f
    s = f / (F32(2) + f)
    square = s * s
    series = _SERIES[-1]
    for coefficient in _SERIES[-2::-1]:
        series = coefficient + square * series
    series = s * (half_square + square * series)
    near = f - (half_square - series)
    logarithms: np.ndarray = np.where(
        k == 0, near, k * _LN2_HIGH - ((half_square - (series + (k * _LN2_LOW + lost))) - f)
    )
    return logarithms


def _filters(settings: Settings) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Triangles that are even in mel: from each centre to the next a bin's weight falls, and the
    rest of it is the next channel's."""
    bins = settings.transform // 2 + 1
    step = F32(0.5 * settings.sample_rate) / F32(bins - 1)
    lower, upper = _mel(np.array([settings.lower_hz, settings.upper_hz]))
    count = settings.channels + 1
    spacing = (upper - lower) / F32(count)
    centres = lower + spacing * np.arange(1, count + 1, dtype=F32)
    # Never the constant part of the signal.
    first = int(F32(1.5) + F32(settings.lower_hz) / step)
    mels = _mel(np.arange(bins + 1, dtype=F32) * step)
    ends = np.maximum(np.searchsorted(mels, centres, side="right"), first)
    starts = np.concatenate([[first], ends[:-1]])
    below = np.concatenate([[lower], centres[:-1]])
    channel = np.repeat(np.arange(count), ends - starts)
    weight = (centres[channel] - mels[first : ends[-1]]) / (centres[channel] - below[channel])
    weights, unweights = (
        np.floor(part * F32(1 << FILTER_BITS) + F32(0.5)).astype(np.int16)
        for part in (weight, F32(1) - weight)
    )
    return starts, ends - starts, weights, unweights


def _gains(settings: Settings, fraction: int) -> np.ndarray:
    """The gain by the noise, whose lowest `fraction` bits are of a step: a parabola through three
    values from each power of two to the next."""
    if not settings.pcan:
        return np.zeros(0, np.int16)

    def gain(noise: int) -> int:
        base = F32(noise) / F32(1 << fraction) + F32(settings.pcan_offset)
        power = F32(np.float64(base) ** np.float64(-F32(settings.pcan_strength)))
        value = F32(1 << settings.pcan_gain_bits) * power
        return INT16_MAX if value > INT16_MAX else int(value + F32(0.5))

    values = [gain(0), gain(1)]
    for bits in range(2, GAIN_INTERVALS + 1):
        low = 1 << (bits - 1)
        high = 2 * low if bits < GAIN_INTERVALS else 2 * low - 1
        y0, y1, y2 = gain(low), gain(low + low // 2), gain(high)
        slope = 4 * (y1 - y0) - (y2 - y0)
        values += [y0, slope, y2 - y0 - slope]
    return np.array(values).astype(np.int16)
