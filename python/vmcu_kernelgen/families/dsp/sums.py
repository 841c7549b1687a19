# SPDX-License-Identifier: Apache-2.0
"""Sums with the DSP extension: SMLAWB and SMLAWT take a byte that is the upper half of 16 bits."""

from __future__ import annotations

from vmcu_tools.kernels.targets.portable.sums import ADD_LINE

HELPERS = {
    "wide_halves": r"""
/* acc + the upper 32 of 48 bits of x times the low half of y. */
VMCU_INLINE int32_t vmcu_smlawb(int32_t x, uint32_t y, int32_t acc)
{
	int32_t result;

	__asm__("smlawb %0, %1, %2, %3" : "=r"(result) : "r"(x), "r"(y), "r"(acc));
	return result;
}

/* The same with the high half. */
VMCU_INLINE int32_t vmcu_smlawt(int32_t x, uint32_t y, int32_t acc)
{
	int32_t result;

	__asm__("smlawt %0, %1, %2, %3" : "=r"(result) : "r"(x), "r"(y), "r"(acc));
	return result;
}
"""
}
LINE = r"""
const uint32_t mask = UINT32_C(0xff00ff00);
const uint32_t x = vmcu_load32(*a);
const uint32_t y = vmcu_load32(*b);
/* Bytes 0 and 2, then 1 and 3. */
const uint32_t x_even = x << 8 & mask;
const uint32_t y_even = y << 8 & mask;
const uint32_t x_odd = x & mask;
const uint32_t y_odd = y & mask;

*a += 4;
*b += 4;
acc[0] = vmcu_smlawb(b_scale, y_even, vmcu_smlawb(a_scale, x_even, bias));
acc[1] = vmcu_smlawb(b_scale, y_odd, vmcu_smlawb(a_scale, x_odd, bias));
acc[2] = vmcu_smlawt(b_scale, y_even, vmcu_smlawt(a_scale, x_even, bias));
acc[3] = vmcu_smlawt(b_scale, y_odd, vmcu_smlawt(a_scale, x_odd, bias));
"""
OWN = {ADD_LINE[4]: LINE}
