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

/** vmcu_saturate() of some of four numbers, and stores them. */
VMCU_INLINE void vmcu_put_four(int8_t *out, int32x4_t x, int32_t zero, int32_t low, int32_t high,
			       mve_pred16_t some)
{
	x = vmaxq_s32(vqaddq_n_s32(x, zero), vdupq_n_s32(low));
	vstrbq_p_s32(out, vminq_s32(x, vdupq_n_s32(high)), some);
}
#endif

#endif /* VMCU_KERNELS_VECTORS_H_ */
