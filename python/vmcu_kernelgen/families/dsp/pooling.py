# SPDX-License-Identifier: Apache-2.0
"""Pooling and sums with the DSP extension: two sums or four maxima in a word."""

from __future__ import annotations

HELPERS = {
    "four": r"""
/* Adds `count` pixels, `pitch` bytes apart, to four sums. */
VMCU_INLINE void vmcu_sum_words(int32_t *acc, const int8_t *x, int32_t pitch, int32_t count)
{
	while (count > 0) {
		/* What 16 bits hold: 255 times -128. */
		int32_t few = vmcu_min(count, 255);
		uint32_t even = 0;
		uint32_t odd = 0;

		count -= few;
		for (; few > 0; few--, x += pitch) {
			const uint32_t word = vmcu_load32(x);

			__asm__("sxtab16 %0, %0, %1" : "+r"(even) : "r"(word));
			__asm__("sxtab16 %0, %0, %1, ror #8" : "+r"(odd) : "r"(word));
		}
		acc[0] += (int16_t)even;
		acc[1] += (int16_t)odd;
		acc[2] += (int32_t)even >> 16;
		acc[3] += (int32_t)odd >> 16;
	}
}

/* The maximum of each of four channels. */
VMCU_INLINE void vmcu_most_words(int32_t *acc, const int8_t *x, int32_t pitch, int32_t count)
{
	uint32_t most = (uint8_t)acc[0] | (uint32_t)(uint8_t)acc[1] << 8 |
			(uint32_t)(uint8_t)acc[2] << 16 | (uint32_t)(uint8_t)acc[3] << 24;

	for (; count > 0; count--, x += pitch) {
		const uint32_t word = vmcu_load32(x);
		uint32_t less;

		__asm__("ssub8 %1, %2, %0\n\tsel %0, %2, %0"
			: "+&r"(most), "=&r"(less)
			: "r"(word)
			: "cc");
	}
	acc[0] = (int8_t)most;
	acc[1] = (int8_t)(most >> 8);
	acc[2] = (int8_t)(most >> 16);
	acc[3] = (int8_t)(most >> 24);
}
"""
}
