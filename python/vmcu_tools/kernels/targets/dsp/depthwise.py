# SPDX-License-Identifier: Apache-2.0
"""The tile of depthwise convolutions with the DSP extension. It stays bytes until it is read:
widening it there costs as much as widening it here, and would take twice the room."""

from __future__ import annotations

HELPERS = {
    "interleave": r"""
/* Words of two taps, see targets/portable/depthwise.py: u has channels 0 and 1, v 2 and 3. */
VMCU_INLINE void vmcu_interleave(uint32_t **u, uint32_t **v, const int8_t **a, int32_t pitch_a,
				 const int8_t **b, int32_t pitch_b, int32_t words)
{
	uint32_t a0, a1, b0, b1, low;

	for (int32_t n = words >> 1; n != 0; n--) {
		__asm__ volatile("ldr %[a0], [%[a]]\n\t"
			"ldr %[a1], [%[a], %[pa]]\n\t"
			"ldr %[b0], [%[b]]\n\t"
			"ldr %[b1], [%[b], %[pb]]\n\t"
			"add %[a], %[a], %[pa], lsl #1\n\t"
			"add %[b], %[b], %[pb], lsl #1\n\t"
			"pkhbt %[low], %[a0], %[b0], lsl #16\n\t"
			"pkhtb %[a0], %[b0], %[a0], asr #16\n\t"
			"pkhbt %[b0], %[a1], %[b1], lsl #16\n\t"
			"pkhtb %[a1], %[b1], %[a1], asr #16\n\t"
			"str %[low], [%[u]], #4\n\t"
			"str %[b0], [%[u]], #4\n\t"
			"str %[a0], [%[v]], #4\n\t"
			"str %[a1], [%[v]], #4"
			: [a] "+&r"(*a), [b] "+&r"(*b), [u] "+&r"(*u), [v] "+&r"(*v),
			  [a0] "=&r"(a0), [a1] "=&r"(a1), [b0] "=&r"(b0), [b1] "=&r"(b1),
			  [low] "=&r"(low)
			: [pa] "r"(pitch_a), [pb] "r"(pitch_b)
			: "memory");
	}
	if ((words & 1) != 0) {
		a0 = vmcu_load32(*a);
		b0 = vmcu_load32(*b);
		__asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(**u) : "r"(a0), "r"(b0));
		__asm__("pkhtb %0, %2, %1, asr #16" : "=r"(**v) : "r"(a0), "r"(b0));
		*a += pitch_a;
		*b += pitch_b;
		(*u)++;
		(*v)++;
	}
}
""",
}
