# SPDX-License-Identifier: Apache-2.0
"""Flash streams of depthwise convolutions."""

from __future__ import annotations

import functools

import numpy as np

from ..quant import INT8_MIN, FixedPoint, FloatScale, wrap_int32
from .integer_scale import WHOLE
from .language.packing import Packing
from .pack import INT16_MIN, MacWeights, fill
from .targets.portable.depthwise import (
    BIAS,
    EXACT,
    LAST_ROWS,
    SQUARE_TAPS,
    line_order,
    weight_bytes,
)
from .targets.portable.vectors import ALONE, CODE_BITS, FEW, LINES, MOST, SIZES, TAPS_BITS, quarters


def packed(packing: Packing, pairs: list[tuple[int, int]]) -> bytes:
    """Pairs of depthwise weights."""
    data = np.zeros(2 * len(pairs), np.int8)
    data[_bytes_of(packing, len(pairs))] = pairs
    return data.tobytes()


@functools.lru_cache(maxsize=256)
def _bytes_of(packing: Packing, count: int) -> np.ndarray:
    """Returns the places of so many pairs of depthwise weights: (count, 2)."""
    return np.array(packing.pairs(count))


def weight_stream(packing: Packing, window: np.ndarray, stride: int) -> bytes:
    """The weights of one channel of a depthwise convolution, int8 (taps, taps)."""
    taps = len(window)
    if packing.paired:
        return window.tobytes().ljust(weight_bytes(taps, stride, packing), b"\0")
    last = np.append(window[-1], np.int8(0))  # -1 names no weight
    line = [(last[a], last[b]) for a, b in line_order(taps)]
    if taps == SQUARE_TAPS:
        above = [*zip(window[0], window[1], strict=True)]
        if stride == 1:
            return packed(packing, [*above, *line])
        columns = [above[0], above[2], above[1]]
        return packed(packing, [*columns, (last[0], last[1]), (last[2], last[3]), (0, 0)])
    stream = b""
    for r in range(0, taps - 1, 2):
        order = [s for phase in range(stride) for s in range(phase, taps, stride)]
        pairs = [(window[r, s], window[r + 1, s]) for s in order]
        stream += packed(packing, [*pairs, LAST_ROWS if r + 3 == taps else (0, 0)])
    if stride == 2:
        line = [(last[s], last[s + 1]) for s in range(0, taps, 2)]
    return stream + packed(packing, line + [(0, 0)] * (len(line) % 2))


def channel_streams(weights: MacWeights, packing: Packing, taps: list[bytes]) -> bytes:
    """The channels of a depthwise convolution, see targets/portable/depthwise.py. taps: the weights
    of each, and of those that do not exist but are computed."""
    channels, fixed = len(weights.bias), isinstance(weights.requant, FixedPoint)
    bias = weights.folded_bias.astype(np.int64)
    quick = np.zeros(channels, bool)
    if fixed:
        quick = weights.fast(packing) & (bias << BIAS == wrap_int32(bias << BIAS))
    behind = len(taps) * (4 + len(taps[0]) + 4) // 4
    parts: list[bytes] = []
    rest: list[int] = []
    for channel, pairs in enumerate(taps):
        exists = channel < channels
        # Nothing of one that does not exist is stored.
        multiplier, other = 0, WHOLE | 1
        if exists:
            factors = weights.factors(np.array([channel]), bool(quick[channel]))
            multiplier, other = (int(value[0]) for value in factors)
        if quick[channel] if exists else fixed:
            word = int(bias[channel]) << BIAS | other if exists else 0
        else:
            start = behind + len(rest)
            word = start << BIAS | EXACT
            rest += [int(bias[channel]) - start if exists else 0, other]
        parts.append(wrap_int32(np.array(word)).astype(np.int32).tobytes())
        parts += [pairs, np.int32(multiplier).tobytes()]
    return b"".join(parts) + wrap_int32(np.array(rest, np.int64)).astype(np.int32).tobytes()


def vector_streams(weights: MacWeights, picks: list[np.ndarray], size: int) -> list[bytes]:
    """A depthwise convolution, up to `size` channels after another, see
    targets/portable/vectors.py."""
    taps = [fill(weights.weights[pick, 0], size).T for pick in picks]
    counts = [together(one) for one in taps]
    words = [count << TAPS_BITS for count in counts]
    words[0] |= ALONE * (min(counts) == 1)
    order, parts = quarters(size), []
    for pick, one, word, count in zip(picks, taps, words, counts, strict=True):
        quick = isinstance(weights.requant, FixedPoint) and bool(weights.is_fast[pick].all())
        has_code = quick and len(pick) == size and (count > 3 or len(one) <= FEW)
        word |= (min(count, MOST) << CODE_BITS) * has_code
        bias, multiplier, other = (
            fill(values, size)[order]
            for values in (weights.folded_bias[pick], *weights.factors(pick, quick))
        )
        word |= 0 if quick else EXACT
        if isinstance(weights.requant, FloatScale):
            # Channels that do not exist have a line.
            other[order >= len(pick)] = WHOLE | 1
            word |= LINES * bool((other & WHOLE).all())
        head = wrap_int32(np.array([word])).astype(np.int32)
        last = (-1 - other).astype(np.int8) if quick else other
        stream = (head, bias, one, multiplier, last)
        parts.append(b"".join(np.ascontiguousarray(part).tobytes() for part in stream))
    return parts


def together(taps: np.ndarray) -> int:
    """Counts the consecutive taps, of int8 (taps, channels), that may be added up in 16 bits;
    those of SIZES that are less may, too."""
    reach = np.abs(taps.astype(np.int64)) * -INT8_MIN

    def fits(count: int) -> bool:
        sums = np.add.reduceat(reach, np.arange(0, len(taps), count), axis=0)
        return bool(sums.max() < -INT16_MIN)

    for count in range(len(taps), 1, -1):
        if fits(count) and all(fits(size) for size in (*SIZES, MOST) if size < count):
            return count
    return 1
