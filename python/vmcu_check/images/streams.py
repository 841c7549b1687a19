# SPDX-License-Identifier: Apache-2.0
"""Weights, biases and factors of layers, read back from the streams that kernels read.

doc/kernels.md describes the streams. A reader returns the parts of a channel's sum, whatever the
order in which a core wants it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .elf import ImageError, LinkedImage
from .params import parts
from .tables import ImageLayer, ImageTensor

# A run of at most so many bytes of several rows is copied, and is one run of taps.
COPIED = 256
# In place of a shift: the constants of another requantiser follow.
EXACT = 0x80
WORD = 4
# Taps of paired pixels that may be added up at once, by the code in a head, and the most that their
# weights may sum up to.
TOGETHER, MOST_TOGETHER = (1, 2, 4, 8), 255
FOUR, VECTOR = 4, 16
# Of a word of a vector: flags, the largest code, and numbers of taps that may be added up instead.
ALONE, LINES, MOST_CODE, SIZES = 1, 0x40, 127, (2, 3, 5, 9)
# Of a line's word: the output's bounds are those of int8.
WHOLE = 0x80
# In the order of a channel's bytes: a zero, and the byte that marks the last two rows.
NO_TAP, MARK = -1, -2


@dataclass(frozen=True)
class LayerWeights:
    """weights: int8 (channels, taps), in the order of the window, of depthwise convolutions too.
    bias: int64 (channels,), with the input's zero point. multiplier, other: int64 (channels,);
    other: the shift, to the left if it is fixed-point, or a line's word."""

    weights: np.ndarray
    bias: np.ndarray
    multiplier: np.ndarray
    other: np.ndarray


class WeightStream:
    """The words and bytes of a stream, one after another."""

    def __init__(self, image: LinkedImage, address: int):
        self.image, self.address, self.at = image, address, address

    def take(self, code: str, count: int) -> np.ndarray:
        """Returns the next `count` numbers, int64."""
        size = np.dtype(code).itemsize * count
        data = self.image.read(self.at, size)
        self.at += size
        return np.frombuffer(data, f"<{code}").astype(np.int64)


def int32(values: np.ndarray) -> np.ndarray:
    """Wraps to 32 bits; int64."""
    wrapped: np.ndarray = np.asarray(values, np.int64).astype(np.int32).astype(np.int64)
    return wrapped


def _woven(channels: int, lanes: int) -> list[tuple[int, int]]:
    """(channel, tap) of each byte: the even taps of two channels, of the next two and so on, then
    the odd ones."""
    return [
        (channel, tap)
        for odd in (0, 1)
        for first in range(0, channels, 2)
        for tap in range(odd, lanes, 2)
        for channel in range(first, min(first + 2, channels))
    ]


def _taps(stream: WeightStream, block: int, count: int, packing: str) -> np.ndarray:
    """int64 (block, count): the next taps of a block of channels."""
    lanes = 16 if "helium" in packing else 4
    is_plain = "helium" in packing or "pairs" in packing
    order = (
        [(channel, tap) for channel in range(block) for tap in range(lanes)]
        if is_plain
        else _woven(block, lanes)
    )
    groups = count // lanes
    if packing.endswith("int4"):
        raw = stream.take("i1", groups * block * lanes // 2).reshape(groups, -1)
        bytes_ = np.concatenate([raw >> 4, ((raw & 15) ^ 8) - 8], axis=1)
    else:
        bytes_ = stream.take("i1", groups * block * lanes).reshape(groups, -1)
    taps = np.zeros((block, groups, lanes), np.int64)
    for place, (channel, tap) in enumerate(order):
        taps[channel, :, tap] = bytes_[:, place]
    return taps.reshape(block, -1)


def _blocks(
    stream: WeightStream, channels: int, block: int, count: int, packing: str
) -> tuple[np.ndarray, ...]:
    """A group of channels in blocks: taps (channels, count), biases, multipliers, others."""
    taps: list[np.ndarray] = []
    bias: list[np.ndarray] = []
    factors, more = [], True
    while more:
        head = int(stream.take("u4", 1)[0])
        fast, exact = head & 0x3FFF, head >> 16 & 0x7FF
        apart, more = bool(head >> 27 & 1), bool(head >> 31)
        together = TOGETHER[head >> 14 & 3]
        if not fast + exact or len(bias) * block > channels:
            raise ImageError(f"the stream at {stream.address:#x} has a wrong head {head:#x}")
        for number in range(fast + exact):
            start = stream.take("i4", block)
            some = _taps(stream, block, count, packing)
            sums = np.abs(np.pad(some, ((0, 0), (0, -count % together))))
            if together > 1 and sums.reshape(block, -1, together).sum(axis=2).max() > MOST_TOGETHER:
                raise ImageError(f"too many taps are added up at once at {stream.address:#x}")
            if not packing and not (apart and number >= fast):
                start, some = _apart(start, some)
            taps.append(some)
            bias.append(start)
            multiplier = stream.take("i4", block)
            if number < fast:
                other = -1 - stream.take("u1", -(-block // 4) * 4)[:block]
            else:
                other = stream.take("i4", block)
            factors.append((multiplier, other))
        if not more and (len(bias) - 1) * block + (head >> 28 & 7) != channels:
            raise ImageError(f"the stream at {stream.address:#x} is not of {channels} channels")
    multiplier, other = (np.concatenate(one)[:channels] for one in zip(*factors, strict=True))
    return np.concatenate(taps)[:channels], np.concatenate(bias)[:channels], multiplier, other


def _apart(bias: np.ndarray, taps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Takes apart the second of each two channels, which was joined to the first one: 256 times its
    own plus the first one's."""
    taps, bias = taps.copy(), bias.copy()
    taps[1::2] += taps[0::2] < 0
    bias[1::2] = int32(bias[1::2] - bias[0::2]) >> 8
    return bias, taps


def _runs(taps: np.ndarray, whole: int, run: int, lanes: int) -> np.ndarray:
    """Takes out what fills runs of taps up to whole lanes; raises ImageError if it is not zero."""
    wide = -(-run // lanes) * lanes
    count = whole // run
    padded = taps[:, : count * wide].reshape(len(taps), count, wide)
    if padded[:, :, run:].any() or taps[:, count * wide :].any():
        raise ImageError("weights behind the last tap of a run are not zero")
    return padded[:, :, :run].reshape(len(taps), -1)


def tiled(
    image: LinkedImage, layer: ImageLayer, p: Mapping[str, Any], out: ImageTensor
) -> LayerWeights:
    """Convolutions and fully connected layers: groups of blocks of two or four channels."""
    kind, form, packing = parts(layer.kernel)
    lanes = 16 if "helium" in packing else 4
    block = FOUR if kind == "dense" or form == "_narrow" or lanes == VECTOR else 2
    whole = p["kernel_h"] * p["kernel_w"] * p["depth"]
    run = p["run"]
    if p["packed"]:
        run = whole
    elif kind == "dense" and p["kernel_h"] > 1 and p["kernel_h"] * run <= COPIED:
        run *= p["kernel_h"]
    if not run or whole % run or not p["groups"] or out.channels % p["groups"]:
        raise ImageError(f"layer {layer.number}: runs of {run} taps of {whole}")
    stream = WeightStream(image, p["stream"])
    size = out.channels // p["groups"]
    parts_ = [_blocks(stream, size, block, p["steps"] * lanes, packing) for _ in range(p["groups"])]
    taps, *others = (np.concatenate(one) for one in zip(*parts_, strict=True))
    return LayerWeights(_runs(taps, whole, run, lanes), *others)


def per_tensor(
    image: LinkedImage, layer: ImageLayer, p: Mapping[str, Any], ins: ImageTensor, out: ImageTensor
) -> LayerWeights:
    """Fully connected layers with one factor: blocks of four channels without factors."""
    packing = parts(layer.kernel)[2]
    lanes = 16 if "helium" in packing else 4
    stream = WeightStream(image, p["stream"])
    bias, taps = [], []
    for _ in range(0, out.channels, FOUR):
        start = stream.take("i4", FOUR)
        some = _taps(stream, FOUR, -(-ins.row // lanes) * lanes, packing)
        if not packing:
            start, some = _apart(start, some)
        bias.append(start)
        taps.append(some)
    alike = np.ones(out.channels, np.int64)
    return LayerWeights(
        _runs(np.concatenate(taps)[: out.channels], ins.row, ins.row, lanes),
        np.concatenate(bias)[: out.channels],
        alike * p["multiplier"],
        alike * (-1 - p["shift"]),
    )


def _crossed(count: int) -> np.ndarray:
    """The bytes of each of `count` pairs: two pairs (a, b), (c, d) are a word (a, c, b, d)."""
    even = count // 2 * 2
    pairs = [(4 * (i // 2) + i % 2, 4 * (i // 2) + i % 2 + 2) for i in range(even)]
    return np.array(pairs + [(2 * even, 2 * even + 1)] * (count % 2))


def _line(taps: int) -> list[tuple[int, int]]:
    """The taps of a window's last row in pairs, -1 for none: at even places, then at odd ones."""
    pairs = [(0, 1)]
    for tap in range(2, taps + 1, 2):
        pairs += [(tap, tap + 1 if tap + 1 < taps else -1), (tap - 1, tap)]
    return pairs


def _strip_order(taps: int, stride: int) -> np.ndarray:
    """The tap of each byte of a channel, int64 (bytes,); NO_TAP for zeros, MARK for -1. Rows are in
    twos, the last one alone, and behind the last two there is the pair (0, -1)."""
    none = [(NO_TAP, NO_TAP)]
    lines = [
        [
            (
                taps * (taps - 1) + a if a >= 0 else NO_TAP,
                taps * (taps - 1) + b if b >= 0 else NO_TAP,
            )
            for a, b in _line(taps)
        ]
    ]
    if taps == 3:
        columns = (0, 1, 2) if stride == 1 else (0, 2, 1)
        rows = [(c, taps + c) for c in columns]
        groups = [[*rows, *(lines[0] if stride == 1 else [(6, 7), (8, NO_TAP), *none])]]
    else:
        order = [s for phase in range(stride) for s in range(phase, taps, stride)]
        groups = [
            [(r * taps + s, (r + 1) * taps + s) for s in order]
            + ([(NO_TAP, MARK)] if r + 3 == taps else none)
            for r in range(0, taps - 1, 2)
        ]
        if stride == 2:
            last = range(taps * (taps - 1), taps * taps, 2)
            lines = [[(s, s + 1 if s + 1 < taps * taps else NO_TAP) for s in last]]
        groups.append([*lines[0], *none * (len(lines[0]) % 2)])
    rows_of_bytes = []
    for group in groups:
        bytes_ = np.full(2 * len(group), NO_TAP)
        bytes_[_crossed(len(group))] = group
        rows_of_bytes.append(bytes_)
    return np.concatenate(rows_of_bytes)


def _strip_taps(raw: np.ndarray, order: np.ndarray, taps: int) -> np.ndarray:
    """Takes the taps of a channel out of its bytes, of which some are there twice."""
    weights = np.zeros(taps, np.int64)
    weights[order[order >= 0]] = raw[order >= 0]
    wanted = np.where(order >= 0, weights[order], np.where(order == MARK, -1, 0))
    if (raw != wanted).any():
        raise ImageError("bytes of a depthwise channel contradict one another")
    return weights


def strips(
    image: LinkedImage, layer: ImageLayer, p: Mapping[str, Any], out: ImageTensor
) -> LayerWeights:
    """Depthwise convolutions of square windows: of each channel a word, weights, a multiplier."""
    taps = p["kernel_w"]
    if parts(layer.kernel)[1] != f"_{taps}_{p['stride_w']}":
        raise ImageError(f"layer {layer.number}: the kernel is for another window")
    order = _strip_order(taps, p["stride_w"])
    if "pairs" in layer.kernel:
        order = np.full(-(-taps * taps // WORD) * WORD, NO_TAP)
        order[: taps * taps] = np.arange(taps * taps)
    stream = WeightStream(image, p["stream"])
    channels = []
    for _ in range(out.channels + out.channels % 2):
        word = int(stream.take("i4", 1)[0])
        weights = _strip_taps(stream.take("i1", len(order)), order, taps * taps)
        multiplier = stream.take("i4", 1)[0]
        bias, other = word >> 8, -1 - (word & 0xFF)
        if word & 0xFF == EXACT:
            start = word >> 8
            rest = WeightStream(image, stream.address + WORD * start).take("i4", 2)
            bias, other = int(int32(rest[0] + start)), int(rest[1])
        channels.append((weights, bias, multiplier, other))
    return LayerWeights(*map(np.array, zip(*channels[: out.channels], strict=True)))


def any_window(
    image: LinkedImage, layer: ImageLayer, p: Mapping[str, Any], out: ImageTensor
) -> LayerWeights:
    """Depthwise convolutions of any window: up to four, or sixteen, channels of a group."""
    is_vector = layer.kernel.endswith("_helium")
    size, taps = VECTOR if is_vector else FOUR, p["kernel_h"] * p["kernel_w"]
    group = out.channels if p["run"] else out.channels // max(p["groups"], 1)
    stream = WeightStream(image, p["stream"])
    blocks: list[tuple[np.ndarray, ...]] = []
    for start in range(0, out.channels, group):
        for first in range(start, start + group, size):
            many = min(size, start + group - first)
            read = _vector_block if is_vector else _four_block
            blocks.append(tuple(one[:many] for one in read(stream, taps)))
    alone = is_vector and image.read(stream.address, 1)[0] & ALONE
    if is_vector and not alone and any(_together(one[0].T) == 1 for one in blocks):
        raise ImageError(f"the first word at {stream.address:#x} lacks a flag")
    return LayerWeights(*(np.concatenate(one) for one in zip(*blocks, strict=True)))


def _together(taps: np.ndarray) -> int:
    """Returns the consecutive taps, of (taps, channels), that may be added up in 16 bits."""

    def fits(count: int) -> bool:
        sums = np.add.reduceat(np.abs(taps), np.arange(0, len(taps), count), axis=0)
        return bool(sums.max() <= MOST_TOGETHER)

    counts = range(len(taps), 1, -1)
    sizes = (*SIZES, MOST_CODE)
    return next((c for c in counts if fits(c) and all(map(fits, (s for s in sizes if s < c)))), 1)


def _four_block(stream: WeightStream, taps: int) -> tuple[np.ndarray, ...]:
    """Biases, taps (all four channels of a first odd one, then two of two channels), factors."""
    bias = stream.take("i4", FOUR)
    order = [(0, n) for n in range(FOUR)] * (taps % 2)
    for tap in range(taps % 2, taps, 2):
        order += [(t, n) for half in (0, 2) for t in (tap, tap + 1) for n in (half, half + 1)]
    raw, weights = stream.take("i1", FOUR * taps), np.zeros((FOUR, taps), np.int64)
    for value, (tap, channel) in zip(raw, order, strict=True):
        weights[channel, tap] = value
    multiplier, shift = stream.take("i4", FOUR), stream.take("u1", FOUR)
    if (shift == EXACT).all():
        return weights, bias, multiplier, stream.take("i4", FOUR)
    return weights, bias, multiplier, -1 - shift


def _vector_block(stream: WeightStream, taps: int) -> tuple[np.ndarray, ...]:
    """A word, biases, taps by channel, factors; constants are in the order of quarters."""
    word = int(stream.take("i4", 1)[0])
    order = np.concatenate([np.arange(first, VECTOR, 4) for first in (0, 2, 1, 3)])
    bias, multiplier, other = (np.zeros(VECTOR, np.int64) for _ in range(3))
    bias[order] = stream.take("i4", VECTOR)
    weights = stream.take("i1", VECTOR * taps).reshape(taps, VECTOR).T
    multiplier[order] = stream.take("i4", VECTOR)
    other[order] = stream.take("i4" if word & EXACT else "i1", VECTOR)
    most = _together(weights.T)
    if word >> 8 & 0xFFFF != most or word >> 24 & 0x7F not in (0, min(most, MOST_CODE)):
        raise ImageError(f"the word {word:#x} of a vector allows more sums than its weights do")
    if word & LINES and not (other & WHOLE).all():
        raise ImageError(f"the word {word:#x} of a vector is for other factors")
    return weights, bias, multiplier, other


def read(
    image: LinkedImage, layer: ImageLayer, p: Mapping[str, Any], ins: ImageTensor, out: ImageTensor
) -> LayerWeights | None:
    """Returns the weights of a layer; None if it has none in a stream."""
    kind, form, _packing = parts(layer.kernel)
    if kind == "dense_per_tensor":
        return per_tensor(image, layer, p, ins, out)
    if kind in ("conv", "pointwise", "dense"):
        return tiled(image, layer, p, out)
    if kind == "depthwise":
        return (any_window if form == "_any" else strips)(image, layer, p, out)
    return None
