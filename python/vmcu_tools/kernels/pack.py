# SPDX-License-Identifier: Apache-2.0
"""Weights in the order in which the generated kernels read them, see language/packing.py."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from ..quant import INT8_MAX, INT8_MIN, FixedPoint, FloatScale, Requant, wrap_int32
from .integer_scale import IntegerScale, integer_scale
from .language.evaluate import Head
from .language.packing import Packing
from .targets.portable.depthwise import EXACT, GROUP, SQUARE_TAPS, line_order
from .targets.portable.places import tap_order

# Shifts for which the fast requantiser's constants and sums stay within 32 bits.
FAST_SHIFTS = range(1, 23)
FAST_ACCUMULATOR = 1 << 30


@dataclass(frozen=True, eq=False)
class MacWeights:
    """weights int8 (channels, runs, run): for every output channel, its taps in runs that are
    contiguous in the input. bias int32 (channels,), requant one factor per channel."""

    weights: np.ndarray
    bias: np.ndarray
    requant: Requant
    input_zero: int
    output_zero: int
    act_min: int
    act_max: int

    @functools.cached_property
    def exact_bias(self) -> np.ndarray:
        """int64 (channels,): biases with the input's zero point taken into account."""
        sums = self.weights.astype(np.int64).sum(axis=(1, 2))
        return self.bias.astype(np.int64) - self.input_zero * sums

    @functools.cached_property
    def folded_bias(self) -> np.ndarray:
        """int32 (channels,): exact_bias as kernels add it, which wraps."""
        return wrap_int32(self.exact_bias).astype(np.int32)

    @property
    def is_whole(self) -> bool:
        """True if there is no fused activation."""
        return (self.act_min, self.act_max) == (INT8_MIN, INT8_MAX)

    @functools.cached_property
    def is_fast(self) -> np.ndarray:
        """bool (channels,): where the fast fixed-point requantiser is exact."""
        assert isinstance(self.requant, FixedPoint)
        if not self.is_whole:
            return np.zeros(len(self.bias), bool)
        reach = max(INT8_MAX - self.input_zero, self.input_zero - INT8_MIN)
        sums = np.abs(self.weights.astype(np.int64)).sum(axis=(1, 2)) * reach
        small = np.abs(self.bias.astype(np.int64)) + sums < FAST_ACCUMULATOR
        # The fast form takes the sum's sign for the product's: weight scales may be negative.
        positive = self.requant.multiplier >= 0
        return small & positive & np.isin(-self.requant.shift, FAST_SHIFTS)

    @functools.cached_property
    def integers(self) -> IntegerScale:
        """The float factors in integers, where that is exact."""
        assert isinstance(self.requant, FloatScale)
        taps = self.weights.reshape(len(self.bias), -1).astype(np.int64)
        ends = taps * (INT8_MIN - self.input_zero), taps * (INT8_MAX - self.input_zero)
        bias = self.bias.astype(np.int64)
        lowest = bias + np.minimum(*ends).sum(axis=1)
        highest = bias + np.maximum(*ends).sum(axis=1)
        return integer_scale(self.requant.scale, self.output_zero, lowest, highest, self.is_whole)

    @functools.cached_property
    def fast_bias(self) -> np.ndarray:
        """Half a unit and the zero point, see fixed_fast in targets/portable/tile.py."""
        shift = np.clip(-self.requant.shift.astype(np.int64), FAST_SHIFTS[0], FAST_SHIFTS[-1])
        return (1 << (shift - 1)) + (self.output_zero << shift)


def lanes(weights: np.ndarray, packing: Packing, step: int) -> np.ndarray:
    """int8 (channels, runs, run) to (channels, n, packing.lanes): each run filled up with zeros to
    whole lanes, and all of them to whole steps of so many taps."""
    channels, runs, run = weights.shape
    wide = np.zeros((channels, runs, packing.padded(run)), np.int8)
    wide[:, :, :run] = weights
    taps = wide.reshape(channels, -1)
    whole = np.zeros((channels, -(-taps.shape[1] // step) * step), np.int8)
    whole[:, : taps.shape[1]] = taps
    return whole.reshape(channels, -1, packing.lanes)


def woven(taps: np.ndarray, packing: Packing) -> np.ndarray:
    """int8 (channels, n, lanes) to (n, channels * lanes), as kernels with a tile read a block."""
    order = packing.weave(len(taps), packing.lanes)
    return np.stack([taps[channel, :, tap] for channel, tap in order], axis=1)


def blocks(
    weights: MacWeights, packing: Packing, size: int, step: int, tiled: bool = False
) -> bytes:
    """The stream of one group: blocks of `size` channels, the last filled up with zeros, of whole
    steps of taps. `tiled`: for a kernel with a tile.

    Runs of blocks are headed by the number of fast and of other ones in them.
    """
    channels = len(weights.bias)
    taps, bias = lanes(weights.weights, packing, step), weights.folded_bias
    fixed = isinstance(weights.requant, FixedPoint)
    fast = weights.is_fast if fixed else np.zeros(channels, bool)
    bodies: list[tuple[bool, bytes]] = []
    for first in range(0, channels, size):
        pick = np.arange(first, min(first + size, channels))
        quick = fixed and bool(fast[pick].all())
        block = fill(taps[pick], size)
        block = woven(block, packing) if tiled else np.moveaxis(block, 0, 1)
        parts = [fill(bias[pick], size), block]
        parts += constants(weights, pick, size, quick)
        bodies.append((quick, b"".join(np.ascontiguousarray(part).tobytes() for part in parts)))
    return with_heads(bodies, (channels - 1) % size + 1)


def fill(values: np.ndarray, size: int) -> np.ndarray:
    """Zeros behind the last channel, up to `size`."""
    missing = size - len(values)
    return np.concatenate([values, np.zeros((missing, *values.shape[1:]), values.dtype)])


def constants(weights: MacWeights, pick: np.ndarray, size: int, quick: bool) -> list[np.ndarray]:
    """The requantiser's constants of a block, as its store instruction reads them."""
    if isinstance(weights.requant, FloatScale):
        found = weights.integers
        return [fill(words[pick], size) for words in (found.multiplier, found.word)]
    multiplier = fill(weights.requant.multiplier[pick].astype(np.int32), size)
    shift = fill(weights.requant.shift[pick].astype(np.int32), size)
    if quick:
        bias = fill(weights.fast_bias[pick].astype(np.int32), size)
        return [np.stack([multiplier, bias], axis=1), -shift]
    return [multiplier, shift, np.zeros(size, np.int32)]


def lines(stream: bytes, block: int) -> tuple[int, ...]:
    """Words of each head and of each block of `block` words, as they follow one another."""
    words, found, at = np.frombuffer(stream, np.uint32), [], 0
    while at < len(words):
        head = Head.of(int(words[at]))
        count = head.fast + head.exact
        found += [1, *[block] * count]
        at += 1 + block * count
    return tuple(found)


def with_heads(bodies: list[tuple[bool, bytes]], left: int) -> bytes:
    """Runs of (fast ... fast, exact ... exact), each behind its head; `left`: channels of the
    last block."""
    runs: list[tuple[int, list[bytes]]] = []
    for quick, body in bodies:
        fast, run = runs[-1] if runs else (0, [])
        exact = len(run) - fast
        full = fast == Head.MOST_FAST if quick else exact == Head.MOST_EXACT
        if not runs or full or (quick and exact):
            runs.append((int(quick), [body]))
        else:
            run.append(body)
            runs[-1] = (fast + int(quick), run)
    stream = b""
    for number, (fast, run) in enumerate(runs):
        last = number == len(runs) - 1
        head = Head(fast, len(run) - fast, left if last else 0, not last)
        stream += np.uint32(head.word).tobytes() + b"".join(run)
    return stream


def packed(packing: Packing, pairs: list[tuple[int, int]]) -> bytes:
    """Pairs of depthwise weights."""
    data = np.zeros(2 * len(pairs), np.int8)
    for pair, places in zip(pairs, packing.pairs(len(pairs)), strict=True):
        data[list(places)] = pair
    return data.tobytes()


def weight_stream(packing: Packing, window: np.ndarray, stride: int) -> bytes:
    """The weights of one channel of a depthwise convolution, int8 (taps, taps)."""
    taps = len(window)
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
        for phase in range(stride):
            columns = range(phase, taps, stride)
            stream += packed(packing, [(window[r, s], window[r + 1, s]) for s in columns])
    if stride == 1:
        return stream + packed(packing, line)
    return stream + packed(packing, [(last[s], last[s + 1]) for s in range(0, taps, 2)])


def tap_stream(weights: np.ndarray) -> bytes:
    """The weights of up to four channels for any window, int8 (channels, taps)."""
    wide = fill(weights, GROUP)
    return bytes(int(wide[n, tap]) & 0xFF for tap, n in tap_order(weights.shape[1]))


def factor_stream(weights: MacWeights, channel: int, quick: bool = True) -> bytes:
    """The requantiser's constants of one channel of a depthwise convolution; for the fast one if
    that is exact and `quick`."""
    if isinstance(weights.requant, FloatScale):
        found = weights.integers
        words = found.multiplier[channel], found.word[channel], EXACT
        return np.array(words, np.int32).tobytes()
    multiplier, shift = weights.requant.multiplier[channel], weights.requant.shift[channel]
    if weights.is_fast[channel] and quick:
        words = multiplier, weights.fast_bias[channel], -shift
    else:
        words = multiplier, shift, EXACT
    return np.array(words, np.int32).tobytes()
