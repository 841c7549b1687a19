# SPDX-License-Identifier: Apache-2.0
"""Weights in the order in which the generated kernels read them, see language/packing.py."""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass

import numpy as np

from ..quant import INT8_MAX, INT8_MIN, FixedPoint, FloatScale, Requant, wrap_int32
from .integer_scale import IntegerScale, integer_scale
from .language.evaluate import Head
from .language.packing import Packing, nibbles, packed_shifts, paired_code
from .targets.portable.depthwise import (
    EXACT,
    GROUP,
)
from .targets.portable.places import tap_order

# Shifts for which the fast requantiser's constants and sums stay within 32 bits.
FAST_SHIFTS = range(1, 24)
FAST_ACCUMULATOR = 1 << 30
# Where pixels are paired a bit more must be left: for four times a sum and twice the constants.
PAIRED_SHIFTS = range(1, 23)
PAIRED_ACCUMULATOR = 1 << 29
# Weights of 4 bits are multiplied 16 times too large, so that less is left for sums.
NIBBLE_ACCUMULATOR = 1 << 27
# A bound of the sum of the second of two joined channels.
JOINED_SUM = 1 << 23
INT16_MIN = -(1 << 15)


def fast_shifts(packing: Packing) -> range:
    """Shifts of the fast requantiser of a packing's kernels."""
    return PAIRED_SHIFTS if packing.paired else FAST_SHIFTS


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
        biases: np.ndarray = self.bias.astype(np.int64) - self.input_zero * sums
        return biases

    @functools.cached_property
    def folded_bias(self) -> np.ndarray:
        """int32 (channels,): exact_bias as kernels add it, which wraps."""
        return wrap_int32(self.exact_bias).astype(np.int32)

    @property
    def is_whole(self) -> bool:
        """True if there is no fused activation."""
        return (self.act_min, self.act_max) == (INT8_MIN, INT8_MAX)

    @functools.cached_property
    def largest(self) -> np.ndarray:
        """int64 (channels,): the limits of sums, biases included."""
        reach = max(INT8_MAX - self.input_zero, self.input_zero - INT8_MIN)
        sums = np.abs(self.weights.astype(np.int64)).sum(axis=(1, 2)) * reach
        limits: np.ndarray = np.abs(self.bias.astype(np.int64)) + sums
        return limits

    @property
    def fits_nibbles(self) -> bool:
        """True if kernels of weights of 4 bits are exact."""
        inside = self.weights.min() >= -8 and self.weights.max() <= 7
        return bool(inside and self.largest.max() < NIBBLE_ACCUMULATOR)

    def fast(self, packing: Packing) -> np.ndarray:
        """bool (channels,): where the fast fixed-point requantiser of a packing's kernels is
        exact."""
        if not packing.paired:
            return self.is_fast
        assert isinstance(self.requant, FixedPoint)
        small = (self.largest < PAIRED_ACCUMULATOR) & np.isin(-self.requant.shift, PAIRED_SHIFTS)
        return self.is_fast & small

    @functools.cached_property
    def is_fast(self) -> np.ndarray:
        """bool (channels,): where the fast fixed-point requantiser is exact."""
        assert isinstance(self.requant, FixedPoint)
        if not self.is_whole:
            return np.zeros(len(self.bias), bool)
        small = self.largest < FAST_ACCUMULATOR
        # The fast form takes the sum's sign for the product's: weight scales may be negative.
        positive = self.requant.multiplier >= 0
        return small & positive & np.isin(-self.requant.shift, FAST_SHIFTS)

    def has_one_factor(self, packing: Packing) -> bool:
        """True if all channels share a factor, and the fast fixed-point requantiser of a packing's
        kernels is exact for all of them."""
        requant = self.requant
        if not isinstance(requant, FixedPoint):
            return False
        pair = np.stack([requant.multiplier, requant.shift])
        return bool(
            (pair == pair[:, :1]).all()
            and self.fast(packing).all()
            and (not packing.joined or joinable(self).all())
        )

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

    def factors(self, channels: np.ndarray, quick: bool) -> tuple[np.ndarray, np.ndarray]:
        """Returns the words of some channels' requantisers, int32 (channels,) each: multipliers
        and, for the fast one, shifts to the right, one less; else shifts to the left, or the
        words of IntegerScale."""
        if isinstance(self.requant, FloatScale):
            return self.integers.multiplier[channels], self.integers.word[channels]
        picked = self.requant.pick(channels)
        shift = -picked.shift - 1 if quick else picked.shift
        return picked.multiplier.astype(np.int32), shift.astype(np.int32)


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
    """int8 (channels, n, lanes) to (n, bytes of channels * lanes), as kernels read a block."""
    order = packing.weave(len(taps), packing.lanes)
    taps_in_order = np.stack([taps[channel, :, tap] for channel, tap in order], axis=1)
    return nibbles(taps_in_order) if packing.bits == 4 else taps_in_order


def joinable(weights: MacWeights) -> np.ndarray:
    """bool (channels,): where all weights fit if those of two channels are joined, see `joined`,
    and all sums of the second of two into the 24 bits that are left for them."""
    taps = weights.weights.reshape(len(weights.bias), -1).astype(np.int64)
    first, second = taps[0::2][: len(taps) // 2], taps[1::2]
    fit = np.all(256 * second + first >= INT16_MIN, axis=1)
    ends = second * INT8_MIN, second * INT8_MAX
    bias = weights.exact_bias[1::2]
    lowest = bias + np.minimum(*ends).sum(axis=1)
    highest = bias + np.maximum(*ends).sum(axis=1)
    # One without a second is.
    fits = np.ones(len(taps), bool)
    fits[: 2 * len(fit)] = np.repeat(fit & (lowest > -JOINED_SUM) & (highest < JOINED_SUM), 2)
    return fits


def joined(taps: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Taps int8 (channels, ...) and biases int32 (channels,) with those of the second of each two
    channels joined to the first one's: 256 times theirs plus the first one's, of which the first
    one's byte has the lower half."""
    taps, bias = taps.copy(), bias.astype(np.int64)
    taps[1::2] -= taps[0::2] < 0
    bias[1::2] = 256 * bias[1::2] + bias[0::2]
    return taps, wrap_int32(bias).astype(np.int32)


def blocks(
    weights: MacWeights,
    packing: Packing,
    size: int,
    step: int,
    tiled: bool = True,
    has_factors: bool = True,
) -> bytes:
    """The stream of one group: blocks of `size` channels, the last filled up with zeros, of whole
    steps of taps. Every two channels of a block are joined if the packing says so, or apart where
    those of one pair cannot be; such blocks are not fast. tiled: taps meet those of a tile.

    Runs of blocks are headed by the number of fast and of other ones in them. Without factors in
    the stream, all blocks are fast ones and there is no head.
    """
    channels = len(weights.bias)
    taps, bias = lanes(weights.weights, packing, step), weights.folded_bias
    fixed = isinstance(weights.requant, FixedPoint)
    join = joinable(weights) if packing.joined else np.ones(channels, bool)
    fast = weights.fast(packing) & join if fixed else np.zeros(channels, bool)
    bodies: list[tuple[Kind, int, bytes]] = []
    for first in range(0, channels, size):
        pick = np.arange(first, min(first + size, channels))
        quick = fixed and bool(fast[pick].all())
        block, start = fill(taps[pick], size), fill(bias[pick], size)
        kind = Kind.FAST if quick else Kind.EXACT if join[pick].all() else Kind.APART
        code = paired_code(block.reshape(size, -1)) if packing.paired and tiled else 0
        if packing.joined and kind is not Kind.APART:
            block, start = joined(block, start)
        parts = [start, woven(block, packing)]
        parts += constants(weights, pick, size, quick) if has_factors else []
        bodies.append(
            (kind, code, b"".join(np.ascontiguousarray(part).tobytes() for part in parts))
        )
    if not has_factors:
        return b"".join(body for _, _, body in bodies)
    return with_heads(bodies, (channels - 1) % size + 1)


def fill(values: np.ndarray, size: int) -> np.ndarray:
    """Zeros behind the last channel, up to `size`."""
    missing = size - len(values)
    return np.concatenate([values, np.zeros((missing, *values.shape[1:]), values.dtype)])


def constants(weights: MacWeights, pick: np.ndarray, size: int, quick: bool) -> list[np.ndarray]:
    """The requantiser's constants of a block, as its store instruction reads them."""
    multiplier, shift = weights.factors(pick, quick)
    if quick:
        return [fill(multiplier, size), fill(shift.astype(np.uint8), packed_shifts(size))]
    return [fill(multiplier, size), fill(shift, size)]


def lines(stream: bytes, fast: int, exact: int) -> tuple[int, ...]:
    """Words of each head and of each block of so many words, as they follow one another."""
    words, lengths, at = np.frombuffer(stream, np.uint32), [], 0
    while at < len(words):
        head = Head.of(int(words[at]))
        run = [1, *[fast] * head.fast, *[exact] * head.exact]
        lengths += run
        at += sum(run)
    return tuple(lengths)


class Kind(enum.Enum):
    """The kind of a block: with constants of the fast requantiser or of another; the channels of
    all but the last kind are joined."""

    FAST, EXACT, APART = range(3)


def with_heads(bodies: list[tuple[Kind, int, bytes]], left: int) -> bytes:
    """Runs of (fast ... fast, exact ... exact), the latter joined or apart, all of one code for
    paired pixels, each behind its head; `left`: channels of the last block."""
    runs: list[tuple[Kind, int, int, list[bytes]]] = []
    for kind, code, body in bodies:
        latest, same, fast, run = runs[-1] if runs else (kind, code, 0, [])
        quick = kind is Kind.FAST
        full = fast == Head.MOST_FAST if quick else len(run) - fast == Head.MOST_EXACT
        if not runs or full or latest not in (Kind.FAST, kind) or same != code:
            runs.append((kind, code, int(quick), [body]))
        else:
            run.append(body)
            runs[-1] = (kind, code, fast + quick, run)
    stream = b""
    for number, (latest, code, fast, run) in enumerate(runs):
        last, apart = number == len(runs) - 1, latest is Kind.APART
        head = Head(fast, len(run) - fast, apart, left if last else 0, not last, code)
        stream += np.uint32(head.word).tobytes() + b"".join(run)
    return stream


def group_factors(weights: MacWeights, packing: Packing, pick: np.ndarray) -> bytes:
    """Behind the weights of up to four channels of a depthwise convolution of any window, see
    targets/portable/places.py: the requantiser's constants, for the fast one if that is exact for
    four that exist."""
    fixed = isinstance(weights.requant, FixedPoint)
    quick = fixed and len(pick) == GROUP and bool(weights.fast(packing)[pick].all())
    multiplier, other = (fill(values, GROUP) for values in weights.factors(pick, quick))
    if quick:
        return multiplier.tobytes() + other.astype(np.uint8).tobytes()
    return multiplier.tobytes() + bytes([EXACT] * GROUP) + other.tobytes()


def group_streams(weights: MacWeights, packing: Packing, picks: list[np.ndarray]) -> list[bytes]:
    """A depthwise convolution of any window, up to four channels after another."""
    biases = (fill(weights.folded_bias[pick], GROUP).tobytes() for pick in picks)
    return [
        bias + tap_stream(weights.weights[pick, 0]) + group_factors(weights, packing, pick)
        for bias, pick in zip(biases, picks, strict=True)
    ]


def tap_stream(weights: np.ndarray) -> bytes:
    """The weights of up to four channels for any window, int8 (channels, taps)."""
    wide = fill(weights, GROUP)
    return bytes(int(wide[n, tap]) & 0xFF for tap, n in tap_order(weights.shape[1]))
