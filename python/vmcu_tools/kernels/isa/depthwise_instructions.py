# SPDX-License-Identifier: Apache-2.0
"""What the instructions of depthwise convolutions mean.

The tile holds the columns under a strip of output pixels for four channels, as bytes. Its words
join two taps of two channels: bytes (a0, a1, b0, b1) are channels 0 and 1 of taps a and b, and the
same word of the second plane holds channels 2 and 3. Taps a and b are either one above the
other, in rows 2r and 2r + 1 of the window, a word for each column, or, in the window's last row,
side by side, a word for two columns. With a stride of two, columns 0, 2, 4 ... precede columns 1,
3, 5 ..., so that neighbouring output pixels always meet neighbouring words.

The flash stream holds, for each channel: the bias, gap bytes, the weights in reading order, the
requantiser's constants. Weights come in pairs, one for each of a and b; two pairs (a, b) and (c, d)
are a word (a, c, b, d).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...quant import FixedPoint
from ..integer_scale import IntegerScale
from ..language.evaluate import Machine
from ..language.instruction import Instruction, instruction
from ..language.ir import Ram, Stream, Tile
from .instructions import INSTRUCTIONS, finish, fixed_fast, wrap_int32

# The taps across a window that have a kernel of their own, and the pixels of its blocks: even, so
# that the first stands at an even place, where pairs of taps are aligned.
TAPS = (3, 5, 7)
BLOCK = 4
STRIDES = (1, 2)
GROUP = 4  # channels in a tile
EXACT = -1  # in place of a shift: the fast requantiser would not be exact
# Words of a tile that no column was staged for.
UNUSED = 77

PAIR: dict[int, Instruction] = {}
LINE: dict[int, Instruction] = {}

DOT_PARAMETERS = "int32_t *acc, const vmcu_lane_t *tile, int32_t at, int32_t odd, const uint8_t **w"
SQUARE_TAPS = 3


def pair_bytes(count: int) -> list[tuple[int, int]]:
    """Where in the stream the two weights of each of `count` consecutive pairs are."""
    words = count // 2
    places = [(4 * (i // 2) + i % 2, 4 * (i // 2) + i % 2 + 2) for i in range(2 * words)]
    return places + [(4 * words, 4 * words + 1)] * (count % 2)


def take_pairs(m: Machine, count: int) -> np.ndarray:
    """(count, 2) weights."""
    data = m.take(np.int8, 2 * count)
    return np.array([[data[a], data[b]] for a, b in pair_bytes(count)])


def line_order(taps: int) -> Iterator[tuple[int, int]]:
    """The weights of a window's last row in pairs, -1 for none. Output pixels at an even place
    meet pairs (0, 1), (2, 3) ..., those at an odd place (-1, 0), (1, 2) ...; the first of the
    latter is made from the first of the former."""
    yield 0, 1
    for tap in range(2, taps + 1, 2):
        yield tap, tap + 1 if tap + 1 < taps else -1
        yield tap - 1, tap


def widened(m: Machine, at: int, count: int, odd: int) -> np.ndarray:
    """(count, 2) taps of one channel."""
    return m.tile[at : at + count, odd::2]


@instruction(
    INSTRUCTIONS,
    "RAMLoad",
    "vmcu_lane_t *tile, struct vmcu_band *in, int32_t row, int32_t pixel, "
    "int32_t channel, const struct vmcu_call *call, int32_t wide, int32_t lanes",
)
def stage(m: Machine, tile: Tile, ram: Ram, call: int, wide: int, lanes: int) -> None:
    """Brings the columns under `wide` output pixels into the tile, for `lanes` channels."""
    taps = m.load(ram, m.names["p->input_zero"])
    rows, columns, _ = taps.shape
    taps = np.pad(taps, ((0, 0), (0, 0), (0, GROUP - lanes)))
    phase, row, plane = (m.names[name] for name in ("phase", "row", "plane"))
    stride = m.names["p->window.stride_w"]
    m.tile = np.full((2 * plane, GROUP), UNUSED, np.int64)
    for r in range(rows):
        for column in range(columns):
            if r + 1 < rows or rows % 2 == 0:
                word, half = r // 2 * row + column % stride * phase + column // stride, r % 2
            else:
                word, half = rows // 2 * row + column // 2, column % 2
            for lane in range(GROUP):
                m.tile[lane // 2 * plane + word, 2 * half + lane % 2] = taps[r, column, lane]


@instruction(INSTRUCTIONS, "FlashLoad", "int32_t *acc, const uint8_t **w, int32_t gap")
def bias_depthwise(m: Machine, acc: np.ndarray, stream: Stream, gap: int) -> None:
    """Starts four accumulators at a channel's bias."""
    acc[:] = m.take(np.int32, 1)
    m.take(np.int8, gap)


def _define_pair(count: int) -> None:
    def pair(m: Machine, acc: np.ndarray, tile: Tile, at: int, odd: int, stream: Stream) -> None:
        add_pairs(m, acc, at, odd, take_pairs(m, count))

    words = "A word" if count == 1 else f"{count} words"
    pair.__doc__ = f"{words} for each of four pixels times a channel's pairs of weights."
    made = instruction(INSTRUCTIONS, "Dot", DOT_PARAMETERS, f"dot_pair_{count}")
    PAIR[count] = made(pair)


def add_line(m: Machine, acc: np.ndarray, at: int, odd: int, pairs: np.ndarray) -> None:
    """Adds a row of taps at a stride of one; a pair of weights for each tap."""
    taps, pixels = len(pairs), len(acc)
    weights = np.zeros(taps + 1, np.int64)
    for (a, b), (weight_a, weight_b) in zip(line_order(taps), pairs, strict=True):
        weights[a], weights[b] = weight_a, weight_b
    columns = widened(m, at, (taps + pixels) // 2, odd).reshape(-1)
    for pixel in range(pixels):
        acc[pixel] += weights[:taps] @ columns[pixel : pixel + taps]


def add_pairs(m: Machine, acc: np.ndarray, at: int, odd: int, pairs: np.ndarray) -> None:
    """Adds words that each meet a pair of weights."""
    for pixel in range(len(acc)):
        acc[pixel] += (pairs * widened(m, at + pixel, len(pairs), odd)).sum()


def _define_line(taps: int) -> None:
    def line(m: Machine, acc: np.ndarray, tile: Tile, at: int, odd: int, stream: Stream) -> None:
        add_line(m, acc, at, odd, take_pairs(m, taps))

    line.__doc__ = f"A row of {taps} taps for each of four pixels, at a stride of one."
    made = instruction(INSTRUCTIONS, "Dot", DOT_PARAMETERS, f"dot_line_{taps}")
    LINE[taps] = made(line)


@instruction(
    INSTRUCTIONS, "Dot", DOT_PARAMETERS.replace("int32_t odd", "int32_t last, int32_t odd")
)
def dot_square(
    m: Machine, acc: np.ndarray, tile: Tile, at: int, last: int, odd: int, stream: Stream
) -> None:
    """The bias and nine taps for each of four pixels, at a stride of one; the last three taps are
    at `last`."""
    acc[:] = m.take(np.int32, 1)
    pairs = take_pairs(m, 2 * SQUARE_TAPS)
    add_pairs(m, acc, at, odd, pairs[:SQUARE_TAPS])
    add_line(m, acc, last, odd, pairs[SQUARE_TAPS:])


def take_requant(m: Machine) -> tuple[np.ndarray, FixedPoint | IntegerScale | None]:
    """The constants of a channel, and the requantiser where the fast one does not apply."""
    constants = m.take(np.int32, 3)
    if constants[2] != EXACT:
        return constants, None
    if m.names["p->is_float"]:
        return constants, IntegerScale(constants[:1], constants[1:2])
    return constants, FixedPoint(constants[0], constants[1])


@instruction(
    INSTRUCTIONS,
    "Call",
    "const struct vmcu_mac_params *p, const int32_t *acc, const uint8_t **w, int32_t *patch, "
    "int32_t channel",
)
def finish_depthwise(
    m: Machine, p: int, acc: np.ndarray, stream: Stream, patch: np.ndarray, channel: int
) -> None:
    """Requantises a channel of four pixels into a patch: a word for the bytes of each pixel."""
    constants, requant = take_requant(m)
    if requant is None:
        values = fixed_fast(wrap_int32(acc), *constants)
    else:
        values = finish(m, acc, requant, BLOCK).ravel()
    patch[:] &= ~(0xFF << 8 * channel)
    patch[:] |= (values.astype(np.int64) & 0xFF) << 8 * channel


@instruction(
    INSTRUCTIONS,
    "RAMStore",
    "const int32_t *patch, int8_t *out, int32_t pitch, int32_t wide, int32_t lanes",
)
def store_patch(m: Machine, patch: np.ndarray, ram: Ram, pitch: int, wide: int, lanes: int) -> None:
    """Stores those pixels and channels of a patch that exist."""
    channels = patch[:, None] >> 8 * np.arange(GROUP)
    m.store(ram, channels[:wide, :lanes].astype(np.int8))


@instruction(
    INSTRUCTIONS,
    "Dot",
    "int32_t *acc, const struct vmcu_source *in, int32_t row, int32_t pixel, int32_t channel, "
    "int32_t lanes, int32_t spread, const uint8_t **w",
)
def dot_taps(
    m: Machine, acc: np.ndarray, ram: Ram, lanes: int, spread: int, stream: Stream
) -> None:
    """A row of taps of up to four channels, `spread` bytes apart in the input, straight from the
    pool: any window, slowly."""
    taps = m.load(ram, m.names["p->input_zero"])
    weights = m.take(np.int8, GROUP * len(taps)).reshape(-1, GROUP)
    acc[:lanes] += (taps * weights[:, :lanes]).sum(axis=0)


def pair_counts(taps: int, stride: int) -> list[int]:
    """Words that one output pixel meets in two rows of the window, by phase of the stride."""
    return [len(range(phase, taps, stride)) for phase in range(stride)]


def _define_all() -> None:
    for taps in TAPS:
        if taps != SQUARE_TAPS:
            _define_line(taps)
    counts = {
        count
        for taps in TAPS
        for stride in STRIDES
        if (taps, stride) != (SQUARE_TAPS, 1)
        for count in pair_counts(taps, stride)
    }
    for count in sorted(counts):
        _define_pair(count)


_define_all()
