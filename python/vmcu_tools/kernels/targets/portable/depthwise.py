# SPDX-License-Identifier: Apache-2.0
"""Instructions of depthwise convolutions.

The tile holds the columns under a strip of output pixels for four channels, as bytes. Its words
join two taps of two channels: bytes (a0, a1, b0, b1) are channels 0 and 1 of taps a and b, and the
same word of the second plane holds channels 2 and 3. Taps a and b are either one above the
other, in rows 2r and 2r + 1 of the window, a word for each column, or, in the window's last row,
side by side, a word for two columns. With a stride of two, columns 0, 2, 4 ... precede columns 1,
3, 5 ..., so that neighbouring output pixels always meet neighbouring words.

The flash stream holds, for each channel: a word, the weights in reading order, the requantiser's
multiplier. The word has the bias and, in its lowest byte, the shift, one less. EXACT is there where
the fast requantiser does not apply: then the word names one further on in the stream instead of the
bias, where the rest of the bias is, and the shift, or the word of a float32 factor. Weights come in
pairs, one for each of a and b, which stand where Packing.pairs says: all of 3 x 3 taps in one run,
of larger windows each two rows and the last one, up to whole words. A target may see from
LAST_ROWS, which stands behind the pairs, that two rows are the last. Where pixels are paired,
weights are row by row instead, up to whole words. Portable C multiplies the tile's bytes one at a
time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

import numpy as np

from ....quant import FixedPoint, wrap_int32
from ...integer_scale import IntegerScale
from ...language.evaluate import Machine
from ...language.ir import Ram, Tile
from ...language.packing import WORDS, Packing
from .registry import define
from .tile import finish, fixed_fast

# The taps across a window that have a kernel of their own.
TAPS = (3, 5, 7)
STRIDES = (1, 2)
GROUP = 4  # channels in a tile
EXACT = 0x80  # in place of a shift: the fast requantiser would not be exact
SHIFTS = 0x20  # limit of shifts
BIAS = 8  # bits below the bias in a word
LAST_ROWS = (0, -1)
# Words of a tile that no column was staged for.
UNUSED = 77

HELPERS = {
    "interleave": r"""
/* Words of two taps, see targets/portable/depthwise.py: u has channels 0 and 1, v 2 and 3. */
VMCU_INLINE void vmcu_interleave(uint32_t **u, uint32_t **v, const int8_t **a, int32_t pitch_a,
				 const int8_t **b, int32_t pitch_b, int32_t words)
{
	for (; words > 0; words--, *a += pitch_a, *b += pitch_b) {
		uint32_t x, y;

		vmcu_copy_word(&x, *a);
		vmcu_copy_word(&y, *b);
		*(*u)++ = (x & 0xffffU) | y << 16;
		*(*v)++ = x >> 16 | (y & 0xffff0000U);
	}
}
""",
    "stage_pieces": r"""
/* Four channels of all pieces of a strip, of which there are some. */
VMCU_INLINE void vmcu_stage_pieces(const struct vmcu_piece *piece, const struct vmcu_piece *end,
				   int32_t channel, int32_t plane, uint32_t zeros)
{
	for (; piece != end; piece++) {
		const int8_t *a = piece->a + ((piece->pitch_a == 0) ? 0 : channel);
		const int8_t *b = piece->b + ((piece->pitch_b == 0) ? 0 : channel);
		const int8_t *padding = (const int8_t *)&zeros;
		uint32_t *u = piece->u;
		uint32_t *v = u + plane;

		if ((piece->count & VMCU_PIECE_HEAD) != 0) {
			vmcu_interleave(&u, &v, &padding, 0, &b, piece->pitch_b, 1);
		}
		vmcu_interleave(&u, &v, &a, piece->pitch_a, &b, piece->pitch_b,
				piece->count >> VMCU_PIECE_WORDS);
		if ((piece->count & VMCU_PIECE_TAIL) != 0) {
			vmcu_interleave(&u, &v, &a, 0, &padding, 0, 1);
		}
	}
}
""",
}

SQUARE_TAPS = 3


def pair_counts(taps: int, stride: int) -> list[int]:
    """Words that one output pixel meets in two rows of the window, by phase of the stride."""
    return [len(range(phase, taps, stride)) for phase in range(stride)]


def whole_pairs(count: int) -> int:
    """So many pairs, up to whole words."""
    return count + count % 2


def weight_bytes(taps: int, stride: int, packing: Packing) -> int:
    """Weights of one channel in the stream."""
    if packing.paired:
        return -(-taps * taps // 4) * 4
    if taps == SQUARE_TAPS:
        return 4 * taps
    last = taps if stride == 1 else pair_counts(taps, stride)[0]
    return 2 * (taps // 2 * whole_pairs(taps) + whole_pairs(last))


def channel_bytes(taps: int, stride: int, packing: Packing = WORDS) -> int:
    """Counts the bytes of a channel in the stream: word, weights, multiplier."""
    return 4 + weight_bytes(taps, stride, packing) + 4


def line_order(taps: int) -> Iterator[tuple[int, int]]:
    """The weights of a window's last row in pairs, -1 for none. Output pixels at an even place
    meet pairs (0, 1), (2, 3) ..., those at an odd place (-1, 0), (1, 2) ...; the first of the
    latter is made from the first of the former."""
    yield 0, 1
    for tap in range(2, taps + 1, 2):
        yield tap, tap + 1 if tap + 1 < taps else -1
        yield tap - 1, tap


Couples = Iterable[tuple[int, int]]


def pairs_c(pixels: int, places: Couples) -> list[str]:
    """Words times pairs of weights, whose bytes are at `places` in the stream."""
    return [
        f"acc[{pixel}] = vmcu_mac(acc[{pixel}], x[{4 * (word + pixel) + 2 * half}], v[{place}]);"
        for word, couple in enumerate(places)
        for half, place in enumerate(couple)
        for pixel in range(pixels)
    ]


def line_c(pixels: int, taps: int, places: Couples) -> list[str]:
    """The last row of a window."""
    place: dict[int, int] = {}
    for weights, couple in zip(line_order(taps), places, strict=True):
        place |= dict(zip(weights, couple, strict=True))
    return [
        f"acc[{pixel}] = vmcu_mac(acc[{pixel}], x[{2 * (tap + pixel)}], v[{place[tap]}]);"
        for tap in range(taps)
        for pixel in range(pixels)
    ]


@define(
    "RAMLoad",
    "vmcu_lane_t *tile, struct vmcu_band *in, int32_t row, int32_t pixel, "
    "int32_t channel, const struct vmcu_call *call, int32_t wide, int32_t lanes",
    """
(void)row;
if (channel == 0) {
	vmcu_band_start(in, call, (uint32_t *)tile, pixel, wide);
}
vmcu_stage_band(in, channel, lanes);
vmcu_tile_done();
""",
)
def stage(m: Machine, tile: Tile, ram: Ram, call: int, wide: int, lanes: int) -> None:
    """Brings the columns under `wide` output pixels into the tile, for `lanes` channels or for one
    that as many read."""
    taps = m.load(ram, m.names["p->input_zero"])
    rows, columns, _ = taps.shape
    taps = np.broadcast_to(taps, (rows, columns, lanes))
    taps = np.pad(taps, ((0, 0), (0, 0), (0, GROUP - lanes)))
    phase, row, plane = (m.names[name] for name in ("phase", "row", "plane"))
    stride = m.names["p->window.stride_w"]
    m.tile = np.full((2 * plane, GROUP), UNUSED, np.int64)
    word, half = _staged(rows, columns, phase, row, stride)
    lane = np.arange(GROUP)
    m.tile[lane // 2 * plane + word, 2 * half + lane % 2] = taps


@functools.lru_cache(maxsize=256)
def _staged(
    rows: int, columns: int, phase: int, row: int, stride: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the word of a tile, and the tap there, of each of a window's bytes: (rows,
    columns, 1)."""
    r, column, _ = np.indices((rows, columns, 1))
    last = (rows % 2 == 1) & (r + 1 == rows)
    above = r // 2 * row + column % stride * phase + column // stride
    word = np.where(last, rows // 2 * row + column // 2, above)
    return word, np.where(last, column % 2, r % 2)


def sums_c(pixels: int) -> str:
    return f"int32_t sums[] = {{{', '.join(f'acc[{i}]' for i in range(pixels))}}};"


def finish_channel_c(pixels: int) -> list[str]:
    """C that converts a channel's sums to bytes, for a loop over channels; `o` is the address of
    the first byte. Accumulators that the fast requantiser does not support are copied: their own
    address must not escape from registers."""
    return [
        "if (vmcu_is_exact(word)) {",
        f"\t{sums_c(pixels)}",
        "",
        f"\tvmcu_finish_any(p, sums, {pixels}, word, multiplier, o);",
        "\tcontinue;",
        "}",
        "shift = word & VMCU_SHIFT;",
        "bias = vmcu_wrapping_shift(half, shift);",
        *(f"o[{4 * i}] = vmcu_fixed(acc[{i}], multiplier, bias, shift);" for i in range(pixels)),
    ]


def finish_channels(
    m: Machine, acc: np.ndarray, words: np.ndarray, multipliers: np.ndarray
) -> np.ndarray:
    """Requantised sums (channels, pixels), of channels with these words and multipliers, both
    (channels, 1)."""
    values = fixed_fast(m, wrap_int32(acc), multipliers, words % SHIFTS)
    for channel in np.flatnonzero(words & EXACT):
        kind = IntegerScale if m.names["p->is_float"] else FixedPoint
        lacking, other = m.words(int(words[channel, 0]) >> BIAS, 2)
        scale = kind(multipliers[channel], np.array([other]))
        values[channel] = finish(m, acc[channel] + lacking, scale, acc.shape[1]).ravel()
    return values
