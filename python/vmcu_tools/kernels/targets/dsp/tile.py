# SPDX-License-Identifier: Apache-2.0
"""Multiply-accumulate kernels with the DSP extension: two 16-bit taps in a word.

SXTB16 widens bytes 0 and 2 of a word, with ROR #8 bytes 1 and 3, so a tile holds its taps in that
order and weights, which are widened as they are read, meet them without being shuffled.
"""

from __future__ import annotations

from ..portable.dense import dot_dense, dot_dense_tail
from ..portable.tile import PIXELS, RUN, SUMS
from ..thumb import sums_body
from . import blocks, widen

HELPERS = {
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
    "ldrd": r"""
/* The next two words of the flash stream. */
VMCU_INLINE void vmcu_ldrd(const uint8_t **w, int32_t *a, int32_t *b)
{
	__asm__ volatile("ldrd %0, %1, [%2], #8" : "=&r"(*a), "=&r"(*b), "+&r"(*w));
}
""",
    "dense": r"""
/* Four taps in a word times those of four channels. */
VMCU_INLINE void vmcu_dot_dense_word(int32_t *acc, uint32_t x, const uint8_t **w)
{
	uint32_t even, odd, w0, w1, v;

	__asm__("ldrd %[w0], %[w1], [%[w]], #8\n\t"
		"sxtb16 %[even], %[x]\n\t"
		"sxtb16 %[odd], %[x], ror #8\n\t"
		"sxtb16 %[v], %[w0]\n\t"
		"smlad %[a0], %[even], %[v], %[a0]\n\t"
		"sxtb16 %[w0], %[w0], ror #8\n\t"
		"smlad %[a0], %[odd], %[w0], %[a0]\n\t"
		"sxtb16 %[v], %[w1]\n\t"
		"smlad %[a1], %[even], %[v], %[a1]\n\t"
		"sxtb16 %[w1], %[w1], ror #8\n\t"
		"smlad %[a1], %[odd], %[w1], %[a1]\n\t"
		"ldrd %[w0], %[w1], [%[w]], #8\n\t"
		"sxtb16 %[v], %[w0]\n\t"
		"smlad %[a2], %[even], %[v], %[a2]\n\t"
		"sxtb16 %[w0], %[w0], ror #8\n\t"
		"smlad %[a2], %[odd], %[w0], %[a2]\n\t"
		"sxtb16 %[v], %[w1]\n\t"
		"smlad %[a3], %[even], %[v], %[a3]\n\t"
		"sxtb16 %[w1], %[w1], ror #8\n\t"
		"smlad %[a3], %[odd], %[w1], %[a3]"
		: [a0] "+&r"(acc[0]), [a1] "+&r"(acc[1]), [a2] "+&r"(acc[2]), [a3] "+&r"(acc[3]),
		  [w] "+&r"(*w), [w0] "=&r"(w0), [w1] "=&r"(w1), [even] "=&r"(even),
		  [odd] "=&r"(odd), [v] "=&r"(v)
		: [x] "r"(x));
}
""",
    "fixed": r"""
/* See fixed_fast() in targets/portable/tile.py: SMMLAR is its 64-bit sum. */
VMCU_INLINE int8_t vmcu_fixed(int32_t acc, int32_t multiplier, int32_t bias, int32_t shift)
{
	int32_t result;

	__asm__("smmlar %0, %1, %2, %3"
		: "=r"(result)
		: "r"((uint32_t)acc << 1), "r"(multiplier), "r"(bias + (acc >> 31)));
	return vmcu_saturate8(result >> shift);
}
""",
}

DOT_DENSE = r"""
vmcu_dot_dense_word(acc, vmcu_load32(x), w);
"""

DOT_DENSE_TAIL = r"""
uint32_t word = 0;

if (left == 0) {
	return;
}
for (; left > 0; left--) {
	word = (word << 8) | (uint8_t)x[left - 1];
}
vmcu_dot_dense_word(acc, word, w);
"""

OWN = {
    **{SUMS[pixels]: sums_body(pixels) for pixels in PIXELS},
    **{RUN[pixels]: blocks.run_body(pixels) for pixels in PIXELS},
    dot_dense: DOT_DENSE,
    dot_dense_tail: DOT_DENSE_TAIL,
}
HELPERS |= {**widen.HELPERS, **blocks.HELPERS}
