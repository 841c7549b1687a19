# SPDX-License-Identifier: Apache-2.0
"""Weights, biases and factors of layers, read back from the streams that kernels read.

doc/kernels.md describes the streams. A reader returns the parts of a channel's sum, whatever the
order in which a core wants it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .elf import Image, require
from .tables import FOUR, VECTOR, WORD, ImageLayer

# A run of at most so many bytes of several rows is copied, and is one run of taps.
COPIED = 256
# In place of a shift: the constants of another requantiser follow.
EXACT = 0x80
# Taps of paired pixels that may be added up at once, by the code in a head, and the most that their
# weights may sum up to.
TOGETHER, MOST_TOGETHER = (1, 2, 4, 8), 255
# Of a word of a vector: flags, the largest code, and numbers of taps that may be added up instead.
ALONE, LINES, MOST_CODE, SIZES = 1, 0x40, 127, (2, 3, 5, 9)
# Of a line's word: the output's bounds are those of int8.
WHOLE = 0x80
# The taps of a channel's bytes, by window and stride. Rows of taps are in pairs, and the last one
# has its own. "." is a zero, "*" is -1, which marks the last pair of rows.
STRIPS = {
    "_3_1": "0 1 3 4 2 6 5 7 8 7 . 8",
    "_3_2": "0 2 3 5 1 6 4 7 8 . . .",
    "_5_1": "0 1 5 6 2 3 7 8 4 . 9 . 10 11 15 16 12 13 17 18 14 . 19 *"
    " 20 22 21 23 21 24 22 . 23 . 24 .",
    "_5_2": "0 2 5 7 4 1 9 6 3 . 8 . 10 12 15 17 14 11 19 16 13 . 18 * 20 22 21 23 24 . . .",
    "_7_1": "0 1 7 8 2 3 9 10 4 5 11 12 6 . 13 . 14 15 21 22 16 17 23 24 18 19 25 26 20 . 27 ."
    " 28 29 35 36 30 31 37 38 32 33 39 40 34 . 41 * 42 44 43 45 43 46 44 47 45 48 46 . 47 . 48 .",
    "_7_2": "0 2 7 9 4 6 11 13 1 3 8 10 5 . 12 . 14 16 21 23 18 20 25 27 15 17 22 24 19 . 26 ."
    " 28 30 35 37 32 34 39 41 29 31 36 38 33 . 40 * 42 44 43 45 46 48 47 .",
}


class WeightBlock(NamedTuple):
    """Weights of channels: int8 (channels, taps), in the order of the window, of depthwise
    convolutions too. bias: int64 (channels,), with the input's zero point. multiplier, other: int64
    (channels,); other: the shift, to the left if it is fixed-point, or a line's word."""

    weights: np.ndarray
    bias: np.ndarray
    multiplier: np.ndarray
    other: np.ndarray


class WeightStream:
    """The words and bytes of a stream, one after another."""

    def __init__(self, image: Image, address: int):
        self.image, self.address, self.at = image, address, address

    def take(self, code: str, count: int) -> np.ndarray:
        """Returns the next `count` numbers, int64."""
        values = self.image.array(code, self.at, count)
        self.at += values.nbytes
        return values.astype(np.int64)


def int32(values: np.ndarray) -> np.ndarray:
    """Wraps to 32 bits; int64."""
    wrapped: np.ndarray = np.asarray(values, np.int64).astype(np.int32).astype(np.int64)
    return wrapped


def _taps(stream: WeightStream, block: int, count: int, packing: str) -> np.ndarray:
    """int64 (block, count): the next taps of a block of channels."""
    lanes = VECTOR if "helium" in packing else FOUR
    groups, size = count // lanes, count // lanes * block * lanes
    if packing.endswith("int4"):
        raw = stream.take("i1", size // 2).reshape(groups, -1)
        raw = np.concatenate([raw >> 4, ((raw & 15) ^ 8) - 8], axis=1)
    else:
        raw = stream.take("i1", size)
    if "helium" not in packing and "pairs" not in packing:
        # The even taps of two channels, of the next two and so on, then the odd ones.
        woven = raw.reshape(groups, 2, block // 2, lanes // 2, 2)
        return woven.transpose(2, 4, 0, 3, 1).reshape(block, count)
    return raw.reshape(groups, block, lanes).transpose(1, 0, 2).reshape(block, count)


def _joined(blocks: Iterable[WeightBlock]) -> WeightBlock:
    """Returns blocks of channels as one."""
    return WeightBlock(*map(np.concatenate, zip(*blocks, strict=True)))


def _first(count: int, block: WeightBlock) -> WeightBlock:
    return WeightBlock(*(one[:count] for one in block))


def _blocks(
    stream: WeightStream, channels: int, block: int, count: int, layer: ImageLayer
) -> WeightBlock:
    """A group of channels in blocks."""
    packing, bits = layer.packing, 16
    if "pairs" in packing and layer.kind != "dense":
        # The upper ones are a code.
        bits = 14
    blocks: list[WeightBlock] = []
    more = 1
    while more:
        head = int(stream.take("u4", 1)[0])
        fast, exact, more = head % (1 << bits), head >> 16 & 0x7FF, head >> 31
        together = TOGETHER[(head & 0xFFFF) >> bits]
        has_some = fast + exact and len(blocks) * block <= channels
        require(has_some, f"the stream at {stream.address:#x} has a wrong head {head:#x}")
        for number in range(fast + exact):
            is_fast = number < fast
            start, some = stream.take("i4", block), _taps(stream, block, count, packing)
            sums = np.abs(np.pad(some, ((0, 0), (0, -count % together)))).reshape(-1, together)
            are_small = together == 1 or sums.sum(axis=1).max() <= MOST_TOGETHER
            require(are_small, f"too many taps are added up at once at {stream.address:#x}")
            if not packing and (is_fast or not head >> 27 & 1):
                start, some = _apart(start, some)
            multiplier = stream.take("i4", block)
            if is_fast:
                other = -1 - stream.take("u1", -(-block // WORD) * WORD)[:block]
            else:
                other = stream.take("i4", block)
            blocks.append(WeightBlock(some, start, multiplier, other))
    stored = (len(blocks) - 1) * block + (head >> 28 & 7)
    require(stored == channels, f"the stream at {stream.address:#x} is not of {channels} channels")
    return _first(channels, _joined(blocks))


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
    is_zero = not padded[:, :, run:].any() and not taps[:, count * wide :].any()
    require(is_zero, "weights behind the last tap of a run are not zero")
    return padded[:, :, :run].reshape(len(taps), -1)


def tiled(image: Image, layer: ImageLayer) -> WeightBlock:
    """Convolutions and fully connected layers: groups of blocks of two or four channels."""
    kind, p, lanes, run = layer.kind, layer.p, layer.lanes, layer.p["run"]
    block = FOUR if kind == "dense" or layer.form == "_narrow" or lanes == VECTOR else 2
    whole = p["kernel_h"] * p["kernel_w"] * p["depth"]
    if p["packed"]:
        run = whole
    elif kind == "dense" and p["kernel_h"] > 1 and p["kernel_h"] * run <= COPIED:
        run *= p["kernel_h"]
    is_whole = run and whole % run == 0 and layer.out.channels % p["groups"] == 0
    require(is_whole, f"layer {layer.number}: runs of {run} taps of {whole}")
    size, count = layer.out.channels // p["groups"], p["steps"] * lanes
    stream = WeightStream(image, p["stream"])
    groups = [_blocks(stream, size, block, count, layer) for _ in range(p["groups"])]
    taps, *others = _joined(groups)
    return WeightBlock(_runs(taps, whole, run, lanes), *others)


def per_tensor(image: Image, layer: ImageLayer) -> WeightBlock:
    """Fully connected layers with one factor: blocks of four channels without factors."""
    lanes, row, count = layer.lanes, layer.ins[0].row, layer.out.channels
    stream, blocks = WeightStream(image, layer.p["stream"]), []
    for _ in range(0, count, FOUR):
        start = stream.take("i4", FOUR)
        some = _taps(stream, FOUR, -(-row // lanes) * lanes, layer.packing)
        blocks.append((start, some) if layer.packing else _apart(start, some))
    bias, taps = (np.concatenate(one)[:count] for one in zip(*blocks, strict=True))
    factor = (np.full(count, one) for one in (layer.p["multiplier"], -1 - layer.p["shift"]))
    return WeightBlock(_runs(taps, row, row, lanes), bias, *factor)


def strips(image: Image, layer: ImageLayer) -> WeightBlock:
    """Depthwise convolutions of square windows: of each channel a word, weights, a multiplier."""
    p, taps, form = layer.p, layer.p["kernel_w"] ** 2, layer.form
    is_for_it = form == f"_{p['kernel_w']}_{p['stride_w']}"
    require(is_for_it, f"layer {layer.number}: the kernel is for another window")
    text = STRIPS[form].split()
    if layer.packing.startswith("_pairs"):
        text = [*map(str, range(taps)), *"." * (-taps % WORD)]
    # Behind the taps of a channel, the two values that are no weights.
    order = np.array([{".": taps, "*": taps + 1}.get(one) or int(one) for one in text])
    stream, channels = WeightStream(image, p["stream"]), []
    for _ in range(layer.out.channels + layer.out.channels % 2):
        word, weights = int(stream.take("i4", 1)[0]), np.array([0] * taps + [0, -1])
        raw = stream.take("i1", len(order))
        weights[order[order < taps]] = raw[order < taps]
        is_same = (raw == weights[order]).all()
        require(is_same, "bytes of a depthwise channel contradict one another")
        multiplier, bias, other = stream.take("i4", 1)[0], word >> 8, -1 - (word & 0xFF)
        if word & 0xFF == EXACT:
            rest = WeightStream(image, stream.address + WORD * bias).take("i4", 2)
            bias, other = int(int32(rest[0] + bias)), int(rest[1])
        channels.append((weights[:taps], bias, multiplier, other))
    columns = zip(*channels[: layer.out.channels], strict=True)
    return WeightBlock(*map(np.array, columns))


def any_window(image: Image, layer: ImageLayer) -> WeightBlock:
    """Depthwise convolutions of any window: up to four, or sixteen, channels of a group."""
    p, size, channels = layer.p, layer.lanes, layer.out.channels
    group = channels if p["run"] else channels // max(p["groups"], 1)
    stream, taps = WeightStream(image, p["stream"]), p["kernel_h"] * p["kernel_w"]
    read = _vector_block if size == VECTOR else _four_block
    blocks = [
        _first(min(size, start + group - first), read(stream, taps))
        for start in range(0, channels, group)
        for first in range(start, start + group, size)
    ]
    alone = size != VECTOR or image.read(stream.address, 1)[0] & ALONE
    are_more = all(_together(one.weights.T) > 1 for one in blocks) if not alone else True
    require(are_more, f"the first word at {stream.address:#x} lacks a flag")
    return _joined(blocks)


def _together(taps: np.ndarray) -> int:
    """Returns the consecutive taps, of (taps, channels), that may be added up in 16 bits."""

    def fits(count: int) -> bool:
        sums = np.add.reduceat(np.abs(taps), np.arange(0, len(taps), count), axis=0)
        return bool(sums.max() <= MOST_TOGETHER)

    counts = range(len(taps), 1, -1)
    sizes = (*SIZES, MOST_CODE)
    return next((c for c in counts if fits(c) and all(map(fits, (s for s in sizes if s < c)))), 1)


def _four_block(stream: WeightStream, taps: int) -> WeightBlock:
    """Biases, taps (all four channels of a first odd one, then two of two channels), factors."""
    bias, raw = stream.take("i4", FOUR), stream.take("i1", FOUR * taps)
    odd, rest = np.split(raw, [taps % 2 * FOUR])
    pairs = rest.reshape(-1, 2, 2, 2).transpose(1, 3, 0, 2).reshape(FOUR, -1)
    weights = np.concatenate([odd.reshape(FOUR, -1), pairs], axis=1)
    multiplier, shift = stream.take("i4", FOUR), stream.take("u1", FOUR)
    if (shift == EXACT).all():
        return WeightBlock(weights, bias, multiplier, stream.take("i4", FOUR))
    return WeightBlock(weights, bias, multiplier, -1 - shift)


def _vector_block(stream: WeightStream, taps: int) -> WeightBlock:
    """A word, biases, taps by channel, factors; constants are in the order of quarters."""
    word = int(stream.take("i4", 1)[0])
    order = np.concatenate([np.arange(first, VECTOR, 4) for first in (0, 2, 1, 3)])
    bias, multiplier, other = (np.zeros(VECTOR, np.int64) for _ in range(3))
    bias[order] = stream.take("i4", VECTOR)
    weights = stream.take("i1", VECTOR * taps).reshape(taps, VECTOR).T
    multiplier[order] = stream.take("i4", VECTOR)
    other[order] = stream.take("i4" if word & EXACT else "i1", VECTOR)
    most = _together(weights.T)
    is_most = word >> 8 & 0xFFFF == most and word >> 24 & 0x7F in (0, min(most, MOST_CODE))
    require(is_most, f"the word {word:#x} of a vector allows more sums than its weights do")
    is_of_lines = not word & LINES or (other & WHOLE).all()
    require(is_of_lines, f"the word {word:#x} of a vector is for other factors")
    return WeightBlock(weights, bias, multiplier, other)


READERS = {
    "dense_per_tensor": per_tensor,
    **dict.fromkeys(("conv", "pointwise", "dense"), tiled),
    "depthwise": strips,
    "depthwise_any": any_window,
}


def has_weights(layer: ImageLayer) -> bool:
    """Returns true if a layer has weights in a stream that read() can read."""
    return layer.kind in READERS


def read(image: Image, layer: ImageLayer) -> WeightBlock:
    """Returns the weights of a layer that has some."""
    return READERS[layer.kind + layer.form * (layer.form == "_any")](image, layer)
