/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief From the sum of a pooling window to its mean.
 */

#ifndef VMCU_KERNELS_MEAN_H_
#define VMCU_KERNELS_MEAN_H_

#include <stdint.h>

#include <vmcu/kernels.h>
#include <vmcu/requant.h>

/** x / count to nearest, ties away from zero. */
static inline int32_t vmcu_rounded_quotient(int32_t x, int32_t count)
{
	return ((x < 0) ? x - count / 2 : x + count / 2) / count;
}

/** The int8 output of a window whose taps sum up to @a sum. */
static inline int8_t vmcu_mean(const struct vmcu_average_pool_params *p, int32_t sum,
			       int32_t count)
{
	int32_t mean;

	if (!p->rescale) {
		return vmcu_saturate(vmcu_rounded_quotient(sum, count), 0, p->act_min, p->act_max);
	}
	/* sum * 256 / count in two parts: the product alone would overflow for large windows. */
	mean = sum / count * 256 + vmcu_rounded_quotient(sum % count * 256, count);
	return vmcu_saturate(vmcu_fixed_scale(mean, p->factor.multiplier, p->factor.shift),
			     p->output_zero, p->act_min, p->act_max);
}

#endif /* VMCU_KERNELS_MEAN_H_ */
