# SPDX-License-Identifier: Apache-2.0
"""Pooling and sums with the DSP extension: two sums or four maxima in a word."""

from __future__ import annotations

HELPERS = {
    "four": r"""
/* A loop for each kind of pooling. */
#define VMCU_POOL_ROW  VMCU_INLINE
#define VMCU_POOL_PART VMCU_INLINE

/* Up to four bytes in the lower ones of a word. */
VMCU_INLINE uint32_t vmcu_load_some(const int8_t *x, int32_t lanes)
{
	uint32_t word;

	if (lanes == 4) {
		return vmcu_load32(x);
	}
	word = (uint8_t)x[0];
	if (lanes > 1) {
		word |= (uint32_t)(uint8_t)x[1] << 8;
	}
	if (lanes > 2) {
		word |= (uint32_t)(uint8_t)x[2] << 16;
	}
	return word;
}

/* Adds taps of up to four channels, each so far from x, to sums: 16 bits hold those of 255. */
VMCU_INLINE void vmcu_sum_list(int32_t *acc, const int8_t *x, const int32_t *offset,
			       const int32_t *end, int32_t lanes)
{
	uint32_t even = 0;
	uint32_t odd = 0;

	do {
		const uint32_t word = vmcu_load_some(x + *offset++, lanes);

		even = vmcu_sxtab16(even, word);
		odd = vmcu_sxtab16_odd(odd, word);
	} while (offset != end);
	acc[0] += (int16_t)even;
	acc[1] += (int16_t)odd;
	acc[2] += (int32_t)even >> 16;
	acc[3] += (int32_t)odd >> 16;
}

/* Four maxima are the bytes of acc[0]; they start at the lower bound. */
VMCU_INLINE void vmcu_most_start(int32_t *acc, int32_t low)
{
	acc[0] = (int32_t)((uint8_t)low * 0x01010101U);
}

/* The greater ones of four bytes. */
VMCU_INLINE uint32_t vmcu_max_bytes(uint32_t a, uint32_t b)
{
	__asm__("ssub8 r12, %0, %1\n\tsel %0, %0, %1" : "+r"(a) : "r"(b) : "r12", "cc");
	return a;
}

/* The maxima of these and of taps of up to four channels, each so far from x; there is one more. */
VMCU_INLINE void vmcu_most_list(int32_t *acc, const int8_t *x, const int32_t *offset,
				const int32_t *end, int32_t lanes)
{
	uint32_t most = (uint32_t)acc[0];

	do {
		uint32_t a, b;

		if (lanes == 4) {
			__asm__("ldrd %0, %1, [%2], #8\n\tldr %0, [%3, %0]\n\tldr %1, [%3, %1]"
				: "=&r"(a), "=&r"(b), "+r"(offset)
				: "r"(x), "m"(*(const int32_t(*)[])offset),
				  "m"(*(const int8_t(*)[])x));
		} else {
			a = vmcu_load_some(x + *offset++, lanes);
			b = vmcu_load_some(x + *offset++, lanes);
		}
		most = vmcu_max_bytes(vmcu_max_bytes(most, a), b);
	} while (offset < end);
	acc[0] = (int32_t)most;
}

/* Stores maxima up to the upper bound. */
VMCU_INLINE void vmcu_most_store(const int32_t *acc, int8_t *out, int32_t high, int32_t lanes)
{
	const uint32_t highs = (uint8_t)high * 0x01010101U;
	uint32_t most = (uint32_t)acc[0];

	__asm__("ssub8 r12, %0, %1\n\tsel %0, %1, %0"
		: "+r"(most)
		: "r"(highs)
		: "r12", "cc");
	if (lanes == 4) {
		__builtin_memcpy(out, &most, 4);
		return;
	}
	for (int32_t i = 0; i < lanes; i++, most >>= 8) {
		out[i] = (int8_t)most;
	}
}
"""
}
