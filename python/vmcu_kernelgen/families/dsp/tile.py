# SPDX-License-Identifier: Apache-2.0
"""Multiply-accumulate kernels with the DSP extension: two 16-bit taps in a word.

SXTB16 widens bytes 0 and 2 of a word, with ROR #8 bytes 1 and 3, so a tile holds its taps in that
order and weights, which are widened as they are read, meet them without being shuffled.
"""

from __future__ import annotations

from vmcu_tools.kernels.targets.portable.blocks import sums_apart
from vmcu_tools.kernels.targets.portable.blocks_all import BLOCKS_NARROW, BLOCKS_WIDE
from vmcu_tools.kernels.targets.portable.shapes import NARROW, WIDE

from . import blocks_c, dense, widen

HELPERS = {
    "once": r"""
/* What several kernels have in common is there once: assembly fills registers anyhow. */
#define VMCU_ONCE VMCU_CALLED
""",
    "words": r"""
/* Bytes 0 and 2 of x, widened. */
VMCU_INLINE uint32_t vmcu_sxtb16(uint32_t x)
{
	uint32_t result;

	__asm__("sxtb16 %0, %1" : "=r"(result) : "r"(x));
	return result;
}

/* Bytes 1 and 3 of x, widened. */
VMCU_INLINE uint32_t vmcu_sxtb16_odd(uint32_t x)
{
	uint32_t result;

	__asm__("sxtb16 %0, %1, ror #8" : "=r"(result) : "r"(x));
	return result;
}

VMCU_INLINE int32_t vmcu_smlad(uint32_t x, uint32_t y, int32_t acc)
{
	int32_t result;

	__asm__("smlad %0, %1, %2, %3" : "=r"(result) : "r"(x), "r"(y), "r"(acc));
	return result;
}

VMCU_INLINE uint32_t vmcu_load32(const void *x)
{
	uint32_t word;

	__builtin_memcpy(&word, x, sizeof(word));
	return word;
}
""",
    "tile": r"""
typedef uint32_t vmcu_lane_t;

/* What four taps of a pixel take of a tile. */
#define VMCU_FOUR 2

/* Tap k of pixel `lane` of a tile of `pixels`. */
VMCU_INLINE void vmcu_lane_put(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				 int32_t value)
{
	int16_t half = (int16_t)value;
	int32_t word = (k >> 2) * 2 * pixels + (k & 1) * pixels + lane;

	__builtin_memcpy((uint8_t *)&t[word] + (k & 2), &half, sizeof(half));
}

/* Taps k .. k + count - 1 of pixel `lane`; k and count are multiples of four. */
VMCU_INLINE void vmcu_lane_fours(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				   const int8_t *x, int32_t count)
{
	t += (k >> 1) * pixels + lane;
	for (; count > 0; count -= 4, x += 4, t += 2 * pixels) {
		const uint32_t word = vmcu_load32(x);

		t[0] = vmcu_sxtb16(word);
		t[pixels] = vmcu_sxtb16_odd(word);
	}
}

/* All of the fours that have any of `count` taps, the same `value`. */
VMCU_INLINE void vmcu_lane_fill(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				  int32_t value, int32_t count)
{
	const uint32_t word = (uint16_t)value * 0x10001U;

	t += (k >> 1) * pixels + lane;
	for (; count > 0; count -= 4, t += 2 * pixels) {
		t[0] = word;
		t[pixels] = word;
	}
}
""",
    "fixed": r"""
/* See fixed_fast() in targets/portable/tile.py: SMMLAR is its 64-bit sum. */
VMCU_INLINE int8_t vmcu_fixed_twice(int32_t twice, int32_t like, int32_t multiplier,
				    int32_t bias, int32_t shift)
{
	int32_t result;

	__asm__("smmlar %0, %1, %2, %3"
		: "=r"(result)
		: "r"(twice), "r"(multiplier), "r"(bias + (like >> 31)));
	return vmcu_half8(result >> shift);
}
""",
}

OWN = {
    BLOCKS_WIDE: blocks_c.blocks_body(WIDE, "wide"),
    BLOCKS_NARROW: blocks_c.blocks_body(NARROW, "narrow"),
    sums_apart: "*w = vmcu_words_apart(acc, tile, steps, channels, pixels, *w);",
    **dense.OWN,
}
HELPERS |= {**widen.HELPERS, **blocks_c.HELPERS, **dense.HELPERS}
