# SPDX-License-Identifier: Apache-2.0
"""The reference semantics of the front end, in numpy: all windows of a sound at once but for the
state of noise reduction.

Source: TensorFlow Lite Micro's micro frontend, whose transform is that of kissfft in 16 bits.
"""

from __future__ import annotations

import numpy as np

from .settings import Settings
from .tables import (
    LOG_BITS,
    LOG_SEGMENTS,
    NOISE_BITS,
    SNR_BITS,
    WINDOW_BITS,
    Tables,
    tables_of,
)

_PCAN_BITS = 6
_LOG_E = 45426
_UINT16_MAX = 0xFFFF
_UINT32_MAX = 0xFFFFFFFF
# A step of the features as floats, as pymicro-features and microWakeWord's training have them.
FEATURE_STEP = 10 / 256


class FrontEnd:
    """Sound in pieces of any length to rows of features; `reset` clears its state."""

    def __init__(self, settings: Settings | None = None):
        self.settings = settings or Settings()
        self.tables = tables_of(self.settings)
        self.reset()

    def reset(self) -> None:
        self._kept = np.zeros(0, np.int16)
        self._noise = np.zeros(self.settings.channels, np.int64)

    def process(self, samples: np.ndarray) -> np.ndarray:
        """samples: int16 (n). Returns uint16 (windows that they complete, channels)."""
        window, hop = self.settings.window, self.settings.hop
        sound = np.concatenate([self._kept, np.asarray(samples, np.int16)])
        count = max(0, (len(sound) - window) // hop + 1)
        self._kept = sound[count * hop :]
        if not count:
            return np.zeros((0, self.settings.channels), np.uint16)
        windows = np.lib.stride_tricks.sliding_window_view(sound, window)[::hop]
        shifted, shifts = _windowed(windows[:count], self.tables)
        bins = spectrum(shifted, self.settings.transform, self.tables)
        magnitudes = _filtered(bins, self.tables) >> shifts[:, None]
        return np.stack([self._feature(row) for row in magnitudes])

    def _feature(self, signal: np.ndarray) -> np.ndarray:
        tables, settings = self.tables, self.settings
        signal = self._quieter(signal)
        if settings.pcan:
            signal = _normalised(signal, self._noise, settings, tables)
        if settings.log:
            signal = _logarithm(signal, settings.log_shift, tables)
        feature: np.ndarray = np.minimum(signal, _UINT16_MAX).astype(np.uint16)
        return feature

    def _quieter(self, signal: np.ndarray) -> np.ndarray:
        """Subtracts the mean of each channel so far, but leaves at least a part of the signal."""
        tables, bits = self.tables, self.settings.smoothing_bits
        even = np.arange(len(signal)) % 2 == 0
        smoothing = np.where(even, tables.even_smoothing, tables.odd_smoothing)
        scaled = (signal << bits) & _UINT32_MAX
        whole = 1 << NOISE_BITS
        mean = (scaled * smoothing + self._noise * (whole - smoothing)) >> NOISE_BITS
        self._noise = mean & _UINT32_MAX
        above = (scaled - np.minimum(self._noise, scaled)) >> bits
        reduced: np.ndarray = np.maximum(above, (signal * tables.least_signal) >> NOISE_BITS)
        return reduced


def _windowed(windows: np.ndarray, tables: Tables) -> tuple[np.ndarray, np.ndarray]:
    """int16 (count, window), each shifted as far to the left as 16 bits allow, and how far."""
    values = (windows.astype(np.int32) * tables.coefficients) >> WINDOW_BITS
    # The least number has no magnitude in 16 bits, and does not count.
    loudest = np.where(values == -(1 << 15), 0, np.abs(values)).max(axis=1)
    shifts = 15 - _bit_length(loudest.astype(np.int64))
    return (values << shifts[:, None]).astype(np.int16), shifts


def _bit_length(x: np.ndarray) -> np.ndarray:
    """int64 of non-negative int64 below 2^48."""
    return np.frexp(x.astype(np.float64))[1].astype(np.int64)


def _rounded(x: np.ndarray) -> np.ndarray:
    return ((x + (1 << 14)) >> 15).astype(np.int16).astype(np.int32)


def _part(x: np.ndarray, parts: int) -> np.ndarray:
    return _rounded(x * (32767 // parts))


def _times(x: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """Complex numbers as int32 (..., 2) by those of a table."""
    re, im = turn[..., 0].astype(np.int32), turn[..., 1].astype(np.int32)
    product = [x[..., 0] * re - x[..., 1] * im, x[..., 0] * im + x[..., 1] * re]
    return _rounded(np.stack(product, axis=-1))


def _wrapped(x: np.ndarray) -> np.ndarray:
    return x.astype(np.int16).astype(np.int32)


def _complex(x: np.ndarray, tables: Tables) -> np.ndarray:
    """The complex transform of int32 (count, points, 2), divided by the points, stage by stage."""
    count, points, _ = x.shape
    x = x[:, tables.places]
    width = 1
    for radix in reversed(tables.radices):
        stride = points // (width * radix)
        x = _part(x.reshape(count, stride, radix, width, 2), radix)
        turns = [tables.twiddles[np.arange(width) * stride * n] for n in range(radix)]
        arms = [x[:, :, 0]] + [_times(x[:, :, n], turns[n]) for n in range(1, radix)]
        x = np.stack(_butterfly(arms), axis=2)
        width *= radix
        x = _wrapped(x).reshape(count, points, 2)
    return x


def _butterfly(arms: list[np.ndarray]) -> list[np.ndarray]:
    if len(arms) == 2:
        return [arms[0] + arms[1], arms[0] - arms[1]]
    even, odd = arms[0] + arms[2], arms[1] + arms[3]
    level, tilt = arms[0] - arms[2], arms[1] - arms[3]
    turned = np.stack([tilt[..., 1], -tilt[..., 0]], axis=-1)
    return [even + odd, level + turned, even - odd, level - turned]


def spectrum(samples: np.ndarray, transform: int, tables: Tables) -> np.ndarray:
    """Bins of the real transform, int32 (count, transform / 2 + 1, 2), of int16 (count, window)."""
    padded = np.zeros((len(samples), transform), np.int32)
    padded[:, : samples.shape[1]] = samples
    points = transform // 2
    inner = _complex(padded.reshape(len(samples), points, 2), tables)
    bins = np.zeros((len(samples), points + 1, 2), np.int32)
    ends = _part(inner[:, 0], 2)
    bins[:, 0, 0] = ends[:, 0] + ends[:, 1]
    bins[:, points, 0] = ends[:, 0] - ends[:, 1]
    low = np.arange(1, points // 2 + 1)
    here = _part(inner[:, low], 2)
    there = _part(_wrapped(inner[:, points - low] * np.array([1, -1])), 2)
    same = _wrapped(here + there)
    turned = _times(_wrapped(here - there), tables.halves[low - 1])
    bins[:, low] = (same + turned) >> 1
    # Where both are the same bin, this value stays.
    bins[:, points - low] = ((same - turned) * np.array([1, -1])) >> 1
    return _wrapped(bins)


def _filtered(bins: np.ndarray, tables: Tables) -> np.ndarray:
    """The magnitude in each channel, int64 (count, channels)."""
    energy = (bins.astype(np.int64) ** 2).sum(axis=-1)
    first, last = tables.starts[0], tables.starts[-1] + tables.widths[-1]
    sums = []
    for weights in (tables.weights, tables.unweights):
        running = np.cumsum(energy[:, first:last] * weights, axis=1)
        running = np.concatenate([np.zeros((len(bins), 1), np.int64), running], axis=1)
        edges = np.concatenate([[0], np.cumsum(tables.widths)])
        sums.append(np.diff(running[:, edges], axis=1))
    # The part that a channel gives away is the next one's; the first only gives.
    return _root(sums[0][:, 1:] + sums[1][:, :-1])


def _root(x: np.ndarray) -> np.ndarray:
    """The square root to the nearest; below 2^32 it is cut to 16 bits."""
    root = np.sqrt(x.astype(np.float64)).astype(np.int64)
    root -= root * root > x
    root += (root + 1) * (root + 1) <= x
    near = root + (x - root * root > root)
    roots: np.ndarray = np.where(x >> 32 == 0, np.minimum(near, _UINT16_MAX), near)
    return roots


def _normalised(
    signal: np.ndarray, noise: np.ndarray, settings: Settings, tables: Tables
) -> np.ndarray:
    """PCAN: the signal against a power of its noise, and less of small signals."""
    shift = settings.pcan_gain_bits - tables.correction - SNR_BITS
    gain = _gain(noise, tables).astype(np.uint32).astype(np.uint64)
    ratio = ((signal.astype(np.uint64) * gain) >> np.uint64(shift)).astype(np.int64) & _UINT32_MAX
    little = (ratio * ratio) >> (2 + 2 * SNR_BITS - _PCAN_BITS)
    much = (ratio >> (SNR_BITS - _PCAN_BITS)) - (1 << _PCAN_BITS)
    return np.where(ratio < 2 << SNR_BITS, little, much)


def _gain(noise: np.ndarray, tables: Tables) -> np.ndarray:
    table = tables.gain.astype(np.int64)
    bits = _bit_length(noise)
    at = np.maximum(3 * bits - 4, 2)
    fraction = np.where(bits < 11, noise << np.maximum(11 - bits, 0), noise >> (bits - 11).clip(0))
    fraction &= 0x3FF
    result = ((table[at + 2] * fraction) >> 5) + (table[at + 1] << 5)
    result = _int32(_int32(result) * fraction)
    parabola = table[at] + ((result + (1 << 14)) >> 15)
    gains: np.ndarray = np.where(noise < 2, table[np.minimum(noise, 1)], parabola.astype(np.int16))
    return gains


def _int32(x: np.ndarray) -> np.ndarray:
    return x.astype(np.int32).astype(np.int64)


def _logarithm(signal: np.ndarray, shift: int, tables: Tables) -> np.ndarray:
    """The natural logarithm times 2^shift, by straight lines; zero below two."""
    correction = tables.correction
    value = signal << correction if correction >= 0 else signal >> -correction
    value &= _UINT32_MAX
    whole = _bit_length(np.maximum(value, 1)) - 1
    above = value - (1 << whole)
    fraction = np.where(
        whole < LOG_BITS,
        above << np.maximum(LOG_BITS - whole, 0),
        above >> np.maximum(whole - LOG_BITS, 0),
    )
    unit = (1 << LOG_BITS) // LOG_SEGMENTS
    table = tables.log.astype(np.int64)
    segment = np.clip(fraction // unit, 0, LOG_SEGMENTS - 1)
    rise = table[segment + 1] - table[segment]
    fraction += table[segment] + ((rise * (fraction - unit * segment)) >> LOG_BITS)
    half = 1 << (LOG_BITS - 1)
    natural = (_LOG_E * ((whole << LOG_BITS) + fraction) + half) >> LOG_BITS
    return np.where(value > 1, ((natural << shift) + half) >> LOG_BITS, 0)
