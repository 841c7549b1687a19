# SPDX-License-Identifier: Apache-2.0
"""Products of two activations with the DSP extension.

Along rows SMLAD takes two taps of both at once. Down columns four channels are a word of the
second operand: SMLABB and SMLABT meet its halves with one tap of the first.
"""

from __future__ import annotations

from vmcu_tools.kernels.targets.portable.products import WIDE, dot_column_4, dot_row_4, dot_rows_4

HELPERS = {
    "halves": r"""
/* acc + the low halves' product. */
VMCU_INLINE int32_t vmcu_smlabb(uint32_t x, uint32_t y, int32_t acc)
{
	int32_t result;

	__asm__("smlabb %0, %1, %2, %3" : "=r"(result) : "r"(x), "r"(y), "r"(acc));
	return result;
}

/* acc + the product of x's low and y's high half. */
VMCU_INLINE int32_t vmcu_smlabt(uint32_t x, uint32_t y, int32_t acc)
{
	int32_t result;

	__asm__("smlabt %0, %1, %2, %3" : "=r"(result) : "r"(x), "r"(y), "r"(acc));
	return result;
}

/* x + bytes 0 and 2 of y, or 1 and 3, in both halves. */
VMCU_INLINE uint32_t vmcu_sxtab16(uint32_t x, uint32_t y)
{
	uint32_t result;

	__asm__("sxtab16 %0, %1, %2" : "=r"(result) : "r"(x), "r"(y));
	return result;
}

VMCU_INLINE uint32_t vmcu_sxtab16_odd(uint32_t x, uint32_t y)
{
	uint32_t result;

	__asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(result) : "r"(x), "r"(y));
	return result;
}
"""
}

DOT_ROW = r"""
const uint32_t zeros = (uint32_t)(-x_zero & 0xffff) | (uint32_t)-x_zero << 16;
const uint32_t a = vmcu_load32(x);
const uint32_t b = vmcu_load32(y);

acc[0] = vmcu_smlad(vmcu_sxtab16(zeros, a), vmcu_sxtb16(b), acc[0]);
acc[0] = vmcu_smlad(vmcu_sxtab16_odd(zeros, a), vmcu_sxtb16_odd(b), acc[0]);
"""

DOT_COLUMN = r"""
const uint32_t word = vmcu_load32(y);
const uint32_t even = vmcu_sxtb16(word);
const uint32_t odd = vmcu_sxtb16_odd(word);
const uint32_t tap = (uint32_t)(x[0] - x_zero);

acc[0] = vmcu_smlabb(tap, even, acc[0]);
acc[1] = vmcu_smlabb(tap, odd, acc[1]);
acc[2] = vmcu_smlabt(tap, even, acc[2]);
acc[3] = vmcu_smlabt(tap, odd, acc[3]);
"""

DOT_ROWS = "\n".join(
    [
        "const uint32_t taps = vmcu_load32(x);",
        "const uint32_t even = vmcu_sxtb16(taps);",
        "const uint32_t odd = vmcu_sxtb16_odd(taps);",
        "uint32_t word;",
        "",
        *(
            f"""\
word = vmcu_load32(y + {4 * n});
acc[{n}] = vmcu_smlad(even, vmcu_sxtb16(word), acc[{n}]);
acc[{n}] = vmcu_smlad(odd, vmcu_sxtb16_odd(word), acc[{n}]);"""
            for n in range(WIDE)
        ),
    ]
)

OWN = {dot_row_4: DOT_ROW, dot_rows_4: DOT_ROWS, dot_column_4: DOT_COLUMN}
