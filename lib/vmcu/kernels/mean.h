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
	const union {
		int32_t bits;
		float value;
	} factor = {p->factor.multiplier};
	int32_t value = sum;

	switch (p->rescale) {
	case VMCU_MEAN_KEPT:
		return vmcu_saturate(vmcu_rounded_quotient(sum, count), 0, p->act_min, p->act_max);
	case VMCU_MEAN_OF_SUM_FLOAT:
		value = vmcu_float_scale(sum, factor.value);
		break;
	case VMCU_MEAN_OF_256:
		/* In two parts: sum * 256 alone would overflow for large windows. */
		value = sum / count * 256 + vmcu_rounded_quotient(sum % count * 256, count);
		/* fall through */
	default:
		value = vmcu_fixed_scale(value, p->factor.multiplier, p->factor.shift);
		break;
	}
	return vmcu_saturate(value, p->output_zero, p->act_min, p->act_max);
}

#endif /* VMCU_KERNELS_MEAN_H_ */
