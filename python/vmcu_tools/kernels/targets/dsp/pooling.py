# SPDX-License-Identifier: Apache-2.0
"""Pooling and sums with the DSP extension: two sums or four maxima in a word."""

from __future__ import annotations

from ..portable.sums import ADD_SHIFT, TERM, add_terms

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


def term(tensor: str, first: bool) -> str:
    """The term of an input in one block, so that its constants are in registers just then."""
    result = "%[sum]" if first else "%[x]"
    code = [
        f"ldrsb %[x], [%[{tensor}]]",
        f"rsb %[x], %[offset], %[x], lsl #{ADD_SHIFT}",
        "add %[y], %[half], %[x], asr #31",
        "smmlar %[x], %[x], %[multiplier], %[y]",
        f"asr {result}, %[x], %[shift]",
    ]
    code += [] if first else ["add %[sum], %[sum], %[x]"]
    text = "\n\t".join(f'"{line}\\n\\t"' for line in code)
    kind = "=&r" if first else "+&r"
    constants = [f'[{name}] "r"({tensor}_{name})' for name in TERM]
    lines = [
        f"__asm__ volatile({text}",
        f'\t: [sum] "{kind}"(acc[0]), [x] "=&r"(x), [y] "=&r"(y)',
        f'\t: [{tensor}] "r"({tensor}), {", ".join(constants[:2])},',
        f"\t  {', '.join(constants[2:])});",
    ]
    return "\n".join(lines)


OWN = {add_terms: "\n".join(["int32_t x, y;", "", term("a", True), term("b", False)])}
