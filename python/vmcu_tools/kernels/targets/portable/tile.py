# SPDX-License-Identifier: Apache-2.0
"""Instructions that widen the input of multiply-accumulate kernels into a tile, and the code that
all such kernels share.

A tile holds the taps of up to four pixels, as many of one as there are lanes after as many of the
next. In portable C it is bytes: cores without SIMD instructions widen a byte as they load it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....quant import INT8_MAX, INT8_MIN, FixedPoint, requantize, wrap_int32
from ...integer_scale import IntegerScale
from ...language.evaluate import Machine
from ...language.ir import Ram, Tile
from ...language.packing import packed_shifts
from .registry import define

# Pixels of a tile.
PIXELS = (4, 2, 1)
SEVERAL = {4: "four pixels", 2: "two pixels", 1: "one pixel"}

HELPERS = {
    "once": r"""
/* Of what several kernels have in common: calls. */
#define VMCU_ONCE VMCU_APART
""",
    "mac": r"""
/*
 * Accumulators wrap, as they do on every other target. That makes sums associative, and compilers
 * would rather add up products in pairs than use the multiply-accumulate that is there.
 */
VMCU_INLINE int32_t vmcu_mac(int32_t acc, int32_t x, int32_t y)
{
	acc = (int32_t)((uint32_t)acc + (uint32_t)(x * y));
	__asm__("" : "+r"(acc));
	return acc;
}
""",
    "second": r"""
/* The lower half of a byte of two weights of 4 bits; the other is the byte >> 4. */
VMCU_INLINE int32_t vmcu_low_half(int8_t byte)
{
	return (int8_t)((uint8_t)byte << 4) >> 4;
}

/* Of two joined channels, see kernels/pack.py, 256 times the sum of the second one. */
VMCU_INLINE int32_t vmcu_second(int32_t both, int32_t first)
{
	return VMCU_CHANNELS_JOINED ? (int32_t)((uint32_t)both - (uint32_t)first) : both;
}
""",
    "tile": r"""
typedef int8_t vmcu_lane_t;

/* What four taps of a pixel take of a tile. */
#define VMCU_FOUR 4

/* Where tap k of pixel `lane` is in a tile of `pixels`. */
VMCU_INLINE int32_t vmcu_lane_at(int32_t pixels, int32_t lane, int32_t k)
{
	return ((k & ~3) * pixels) + 4 * lane + (k & 3);
}

VMCU_INLINE void vmcu_lane_put(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				 int32_t value)
{
	t[vmcu_lane_at(pixels, lane, k)] = (int8_t)value;
}

/* Taps k .. k + count - 1 of pixel `lane`; k and count are multiples of four. */
VMCU_INLINE void vmcu_lane_fours(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				   const int8_t *x, int32_t count)
{
	t += vmcu_lane_at(pixels, lane, k);
	for (; count > 0; count -= 4, t += 4 * pixels, x += 4) {
		vmcu_copy_word(t, x);
	}
}

/* All of the fours that have any of `count` taps, the same `value`. */
VMCU_INLINE void vmcu_lane_fill(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				  int32_t value, int32_t count)
{
	const uint32_t word = (uint8_t)value * 0x01010101U;

	t += vmcu_lane_at(pixels, lane, k);
	for (; count > 0; count -= 4, t += 4 * pixels) {
		vmcu_copy_word(t, &word);
	}
}
""",
    "tile_done": r"""
/* What has been written to a tile is in memory before assembly reads it. */
VMCU_INLINE void vmcu_tile_done(void)
{
	__asm__ volatile("" ::: "memory");
}
""",
    "fixed": r"""
/* See fixed_fast() in targets/portable/tile.py; of twice a sum, and of what has its sign. */
VMCU_INLINE int8_t vmcu_fixed_twice(int32_t twice, int32_t like, int32_t multiplier, int32_t bias,
				    int32_t shift)
{
	const uint32_t high = (uint32_t)(bias + (like >> 31));
	const uint64_t sum = ((uint64_t)high << 32) | 0x80000000U;
	const uint64_t product = (uint64_t)vmcu_product(twice, multiplier);

	return vmcu_half8((int32_t)((sum + product) >> 32) >> shift);
}
""",
}

HELPERS["fixed_once"] = r"""
VMCU_INLINE int8_t vmcu_fixed(int32_t acc, int32_t multiplier, int32_t bias, int32_t shift)
{
	return vmcu_fixed_twice((int32_t)((uint32_t)acc << 1), acc, multiplier, bias, shift);
}

/* Of 256 times a sum. */
VMCU_INLINE int8_t vmcu_fixed_second(int32_t acc, int32_t multiplier, int32_t bias, int32_t shift)
{
	return vmcu_fixed_twice(acc >> 7, acc, multiplier, bias, shift);
}
"""


def fixed_fast(
    m: Machine, acc: np.ndarray, multiplier: np.ndarray, shift: np.ndarray
) -> np.ndarray:
    """FixedPoint with a right shift by one more than `shift`, in one 64-bit sum; int64 as acc,
    within int8.

    SaturatingRoundingDoublingHighMul(x, m) is (2 x m + 2**31) >> 32; the rounding division that
    follows adds half, less one for a negative x, before it shifts. Half and the zero point are
    one constant: (2 zero_point + 1) << shift.
    """
    bias = (2 * m.names["p->output_zero"] + 1) << np.asarray(shift, np.int64)
    total = (acc << 1) * multiplier + ((bias + (acc >> 63)) << 32) + (1 << 31)
    shifted = wrap_int32(total >> 32) >> (shift + 1)
    clipped: np.ndarray = np.minimum(np.maximum(shifted, INT8_MIN), INT8_MAX)
    return clipped


def take_shifts(m: Machine, channels: int) -> np.ndarray:
    """Shifts of a block, int64 (channels,): a byte each, up to whole words."""
    return m.take(np.uint8, packed_shifts(channels))[:channels]


def any_requant(m: Machine, channels: int) -> FixedPoint | IntegerScale:
    """A block's constants where the fast requantiser does not apply, taken from the stream."""
    kind = IntegerScale if m.names["p->is_float"] else FixedPoint
    return kind(m.take(np.int32, channels), m.take(np.int32, channels))


def finish(m: Machine, acc: np.ndarray, requant: Any, pixels: int) -> np.ndarray:
    """(pixels, channels) int8 of accumulators (channels * pixels,), by the reference
    requantisers."""
    zero, low, high = (m.names[f"p->{name}"] for name in ("output_zero", "act_min", "act_max"))
    return requantize(wrap_int32(acc).reshape(-1, pixels).T, requant, zero, low, high)


def widen_rows(pixels: int) -> str:
    taps = ["x", *("x + pitch" if i == 1 else f"x + {i} * pitch" for i in range(1, pixels))]
    fours = "\n".join(f"\t\tvmcu_copy_word(t + {4 * i}, {x});" for i, x in enumerate(taps))
    rest = "\n".join(f"\t\tt[k + {4 * i}] = *({x} + k);" for i, x in enumerate(taps))
    return f"""
/* `count` taps of each of {SEVERAL[pixels]}, `pitch` bytes apart. */
VMCU_INLINE void vmcu_widen_rows_{pixels}(vmcu_lane_t *t, const int8_t *x, int32_t pitch,
					 int32_t count)
{{
	for (; count >= 4; count -= 4, x += 4, t += {4 * pixels}) {{
{fours}
	}}
	for (int32_t k = 0; k < count; k++) {{
{rest}
	}}
	(void)pitch;
}}
"""


# `count` taps of each pixel of a tile.
WIDEN_ROWS = """
/* The same for tiles of any number of pixels. */
VMCU_INLINE void vmcu_widen_rows(vmcu_lane_t *t, int32_t pixels, const int8_t *x, int32_t pitch,
				 int32_t count)
{
	if (pixels == 4) {
		vmcu_widen_rows_4(t, x, pitch, count);
	} else if (pixels == 2) {
		vmcu_widen_rows_2(t, x, pitch, count);
	} else {
		vmcu_widen_rows_1(t, x, pitch, count);
	}
}
"""
NINES = """
/* Windows of three rows of nine bytes; false: there is no faster way. */
VMCU_INLINE bool vmcu_widen_nines(vmcu_lane_t *t, int32_t pixels, const struct vmcu_source *in,
				  int32_t pixel, int32_t channel)
{
	(void)t;
	(void)pixels;
	(void)in;
	(void)pixel;
	(void)channel;
	return false;
}

/* The same where they are said to be in one piece, `step` bytes from row to row. */
VMCU_INLINE bool vmcu_widen_straight(vmcu_lane_t *t, int32_t pixels,
				     const struct vmcu_window *window, int32_t line,
				     const int8_t *x, int32_t step, int32_t pitch)
{
	(void)t;
	(void)pixels;
	(void)window;
	(void)line;
	(void)x;
	(void)step;
	(void)pitch;
	return false;
}
"""
HELPERS |= {"widen_rows": "".join(map(widen_rows, PIXELS)), "nines": NINES, "widen_any": WIDEN_ROWS}


@define(
    "RAMLoad",
    "vmcu_lane_t *t, const int8_t *x, int32_t depth, int32_t pixels",
    "vmcu_widen_rows(t, pixels, x, depth, depth);\nvmcu_tile_done();",
)
def widen(m: Machine, tile: Tile, ram: Ram, depth: int, pixels: int) -> None:
    """Widens some pixels of depth channels each, taps beyond depth are anything."""
    values = m.load(ram)
    m.tile = np.zeros((pixels, m.packing.steps(depth) * m.packing.step), np.int64)
    m.tile[:, :depth] = values


@define(
    "RAMLoad",
    "vmcu_lane_t *t, const struct vmcu_source *in, int32_t row, int32_t pixel, int32_t channel, "
    "int32_t pixels",
    """
if (!vmcu_widen_nines(t, pixels, in, pixel, channel)) {
	vmcu_gather_windows(t, pixels, in, row, pixel, channel);
}
vmcu_tile_done();
""",
)
def gather(m: Machine, tile: Tile, ram: Ram, pixels: int) -> None:
    """Widens the windows of some pixels; the zero point stands in for taps in the padding."""
    taps = np.moveaxis(m.load(ram, m.names["p->input_zero"]), 1, 0)
    runs = taps.reshape(pixels, -1, taps[0].size if m.names["p->packed"] else m.names["p->run"])
    m.tile = np.zeros((pixels, m.names["p->steps"] * m.packing.step), np.int64)
    for number in range(runs.shape[1]):
        at = number * m.packing.padded(runs.shape[2])
        m.tile[:, at : at + runs.shape[2]] = runs[:, number]
