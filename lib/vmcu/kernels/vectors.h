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

#include "../compiled.h"

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
#endif

#endif /* VMCU_KERNELS_VECTORS_H_ */
