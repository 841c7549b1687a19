# SPDX-License-Identifier: Apache-2.0
"""Code that multiply-accumulate kernels share, for RV32IM."""

from __future__ import annotations

HELPERS = {
    "fixed": r"""
/* Of four times a sum, the upper word of a product is twice what fixed_fast() in
 * targets/portable/tile.py rounds; so are the constants. Sums are below 2**29, shifts below 22. */
VMCU_INLINE int8_t vmcu_fixed(int32_t acc, int32_t multiplier, int32_t bias, int32_t shift)
{
	const int32_t four = (int32_t)((uint32_t)acc << 2);
	const int32_t twice = (int32_t)(((int64_t)four * multiplier) >> 32);

	return vmcu_saturate8((twice + 2 * bias + ((acc >> 31) | 1)) >> ((shift + 2) & 31));
}
""",
    "fixed_once": "",
}
