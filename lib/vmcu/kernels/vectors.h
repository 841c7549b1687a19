/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief VMCU_VECTORS where C of all targets may use the integer vector extension (MVE).
 */

#ifndef VMCU_KERNELS_VECTORS_H_
#define VMCU_KERNELS_VECTORS_H_

#if defined(__ARM_FEATURE_MVE) && !defined(VMCU_PORTABLE)
#include <arm_mve.h>

#include "support.h"

#define VMCU_VECTORS 1

/** vmcu_fixed_scale() of four numbers. */
VMCU_INLINE int32x4_t vmcu_fixed_four(int32x4_t x, int32_t multiplier, int32_t shift)
{
	if (shift >= 0) {
		return vqrdmulhq_n_s32(vshlq_r_s32(x, shift), multiplier);
	}
	x = vqrdmulhq_n_s32(x, multiplier);
	return vrshlq_n_s32(vaddq_s32(x, vshrq_n_s32(x, 31)), shift);
}

/** vmcu_on_line() of four numbers, with a zero point of zero. */
VMCU_INLINE int32x4_t vmcu_line_four(int32x4_t x, int32_t multiplier, int32_t word)
{
	const int32x4_t factor = vdupq_n_s32(multiplier);
	const int32_t adjust = word - (word & VMCU_LINE_BITS);
	/* Half of the lower words' sum has their carry at its top. */
	const uint32x4_t low = vhaddq_n_u32((uint32x4_t)vmulq_s32(x, factor), (uint32_t)adjust);

	x = vaddq_n_s32(vmulhq_s32(x, factor), adjust >> 31);
	x = vaddq_s32(x, (int32x4_t)vshrq_n_u32(low, 31));
	return vrshlq_n_s32(x, -(word & VMCU_LINE_SHIFT));
}

/** Four bytes, or zeros behind the last @a left ones. */
VMCU_INLINE int32x4_t vmcu_four(const int8_t *x, int32_t left)
{
	return (left >= 4) ? vldrbq_s32(x) : vldrbq_z_s32(x, vctp32q((uint32_t)left));
}

/** The same of words. */
VMCU_INLINE int32x4_t vmcu_four_words(const int32_t *x, int32_t left)
{
	return (left >= 4) ? vldrwq_s32(x) : vldrwq_z_s32(x, vctp32q((uint32_t)left));
}

/** Eight bytes less @a zero, or zeros less that behind the last @a left ones. */
VMCU_INLINE int16x8_t vmcu_eight(const int8_t *x, int32_t zero, int32_t left)
{
	const int16x8_t bytes =
		(left >= 8) ? vldrbq_s16(x) : vldrbq_z_s16(x, vctp16q((uint32_t)left));

	return vsubq_n_s16(bytes, (int16_t)zero);
}

/** vmcu_saturate() of four numbers; stores them, or the first @a left ones. */
VMCU_INLINE void vmcu_put_four(int8_t *out, int32x4_t x, int32_t zero, int32_t low, int32_t high,
			       int32_t left)
{
	x = vmaxq_s32(vqaddq_n_s32(x, zero), vdupq_n_s32(low));
	x = vminq_s32(x, vdupq_n_s32(high));
	if (left >= 4) {
		vstrbq_s32(out, x);
	} else {
		vstrbq_p_s32(out, x, vctp32q((uint32_t)left));
	}
}
#endif

#endif /* VMCU_KERNELS_VECTORS_H_ */
