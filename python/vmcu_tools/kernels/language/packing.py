# SPDX-License-Identifier: Apache-2.0
"""The order of weights and taps in flash streams and tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np


def crossed(count: int) -> list[tuple[int, int]]:
    """The bytes at which the two weights of each of `count` pairs are, where two pairs (a, b) and
    (c, d) are a word (a, c, b, d) and a last one alone is (a, b): SXTB16 widens every other byte
    of a word."""
    words = count // 2
    places = [(4 * (i // 2) + i % 2, 4 * (i // 2) + i % 2 + 2) for i in range(2 * words)]
    return places + [(4 * words, 4 * words + 1)] * (count % 2)


def woven(channels: int, lanes: int) -> list[tuple[int, int]]:
    """(channel, tap) of each byte where `lanes` taps of so many channels are woven into each
    other: the even taps of two channels, of the next two and so on, then the odd ones. SXTB16
    makes of a word of two channels two taps of either."""
    pairs = [range(first, min(first + 2, channels)) for first in range(0, channels, 2)]
    return [
        (channel, tap)
        for odd in (0, 1)
        for pair in pairs
        for tap in range(odd, lanes, 2)
        for channel in pair
    ]


def in_order(channels: int, lanes: int) -> list[tuple[int, int]]:
    """(channel, tap) of each byte: all taps of a channel, then those of the next."""
    return [(channel, tap) for channel in range(channels) for tap in range(lanes)]


def packed_shifts(channels: int) -> int:
    """Bytes that the shifts of so many channels take: whole words."""
    return -(-channels // 4) * 4


def nibbles(weights: np.ndarray) -> np.ndarray:
    """int8 (..., n) of 4 bits, n even, as n / 2 bytes: in the upper halves the first n / 2."""
    first, second = np.split(weights, 2, axis=-1)
    return (first << 4) | (second & 15)


def from_nibbles(packed: np.ndarray) -> np.ndarray:
    """Unpacks the result of nibbles(), int8 or wider."""
    return np.concatenate([packed >> 4, (packed & 15 ^ 8) - 8], axis=-1)


@dataclass(frozen=True)
class Packing:
    """The conventions between kernels and packers. The defaults are those of WORDS.

    lanes: consecutive taps of a channel that stand together in a block of weights, with those of
    the other channels in the order of `weave`; likewise of a pixel in a tile. Every contiguous run
    of taps starts at a multiple of it. step: taps, whole lanes, that one dot instruction of a tile
    takes.
    channels: of a block of the kernels with a wide tile; dense: of those with a narrow tile or
    none; both even and at most 7, see evaluate.Head. pixels: of a block of depthwise kernels, an
    even number. tap: bytes of a tap in a tile, as the core with the widest has it.
    pairs: the bytes at which each of so many consecutive pairs of depthwise weights stands.
    packed: taps of a window, at most, that stand side by side in a tile if a run of them is not
    whole lanes. joined: two channels of a block are joined where they fit, see kernels/pack.py.
    paired: a tile has words of two pixels, see PAIRS. vector: channels of a pixel that depthwise
    kernels compute at once, whatever the window; 0 where square windows have kernels of their own
    and others take four channels.
    bits: of a weight of convolutions and fully connected layers. If they are 4, a byte has two: one
    of the first half of a block's next `lanes` taps, in the order of `weave`, and the one at its
    place in the second half.
    suffix: ends the C names of kernels that read this packing, so that an image may have those of
    several.
    """

    lanes: int = 4
    step: int = 4
    channels: int = 2
    dense: int = 4
    pixels: int = 4
    tap: int = 2
    pairs: Callable[[int], list[tuple[int, int]]] = crossed
    weave: Callable[[int, int], list[tuple[int, int]]] = woven
    packed: int = 32
    joined: bool = True
    paired: bool = False
    vector: int = 0
    bits: int = 8
    suffix: str = ""

    def __post_init__(self) -> None:
        assert self.step % self.lanes == 0 and self.pixels % 2 == 0
        # Two channels may be joined, see kernels/pack.py.
        assert self.channels % 2 == 0 and self.dense % 2 == 0
        assert self.bits == 8 or not self.joined

    def padded(self, taps: int) -> int:
        """A run of taps, filled up to whole lanes."""
        return -(-taps // self.lanes) * self.lanes

    @property
    def has_pooling(self) -> bool:
        """True if pooling and sums have kernels of their own."""
        return self.vector > 0 and self.bits == 8

    @property
    def has_groups(self) -> bool:
        """True if there are kernels for a scale of each group of taps."""
        return self.bits == 4 and not self.paired

    def weight_bytes(self, weights: int) -> int:
        """Counts the bytes of so many weights in a stream."""
        return weights * self.bits // 8

    def steps(self, taps: int) -> int:
        """Dot instructions that so many taps of a tile take."""
        return -(-taps // self.step)


# The most that the weights of taps that are added up together may sum up to where two pixels are a
# word, and of how many taps that may be, by the code in the stream.
PAIRED_SUM = 255
PAIRED_TAPS = (1, 2, 4, 8)


def paired_code(weights: np.ndarray) -> int:
    """The index in PAIRED_TAPS of the most taps that may be added up together in a block of paired
    pixels, of weights int8 (channels, taps). Eight are two steps of a loop, and of an odd number of
    steps the first one is apart."""
    sizes = np.abs(weights.astype(np.int64))
    for code in range(len(PAIRED_TAPS) - 1, 0, -1):
        taps = PAIRED_TAPS[code]
        whole = np.pad(sizes, ((0, 0), (-sizes.shape[1] % taps, 0)))
        if whole.reshape(len(sizes), -1, taps).sum(axis=2).max() <= PAIRED_SUM:
            return code
    return 0


# Four taps of a channel are a word: portable C reads it, and every core without vectors.
WORDS = Packing()

# The same for weights of 4 bits. DSP instructions widen 16 times a weight from the upper half of a
# byte, and two channels of that cannot be joined.
NIBBLES = Packing(joined=False, bits=4, suffix="_int4")

# A multiply of two pixels, for cores that multiply by 32 bits at best: a word of a tile is
# x0 + x1 * 2**16. Where the weights of some taps sum up to at most PAIRED_SUM, the products of the
# first pixel are within int16. So the sum P of these taps has that of the second pixel in its upper
# half once 2**15 is added: A += P; H += (P + 2**15) >> 16. In the end the sums are H and
# A - H * 2**16.
PAIRS = Packing(weave=in_order, joined=False, paired=True, suffix="_pairs")

# The same for weights of 4 bits, which may be added up by eight.
NIBBLE_PAIRS = replace(PAIRS, bits=4, suffix="_pairs_int4")

# Sixteen taps of a channel are a vector.
VECTORS = Packing(
    lanes=16,
    step=16,
    channels=4,
    dense=4,
    tap=1,
    weave=in_order,
    packed=80,
    joined=False,
    vector=16,
    suffix="_helium",
)

# The same for weights of 4 bits: channels 0 and 2 of a block are a vector, 1 and 3 the next.
NIBBLE_VECTORS = replace(VECTORS, bits=4, suffix="_helium_int4")
