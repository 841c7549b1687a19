/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief What the kernels with weights share: the dot product and the way out to int8.
 */

#ifndef VMCU_LINEAR_H_
#define VMCU_LINEAR_H_

#include <stdbool.h>
#include <stdint.h>

#include <vmcu/kernels.h>
#include <vmcu/requant.h>

/** Each body is compiled once per requantiser: the choice must not survive into the loops. */
#define VMCU_BODY static inline __attribute__((always_inline)) void

/**
 * acc + (q - zero) * weight. Accumulators wrap like the hardware's, which a signed sum may not in
 * C; dead channels of real models have biases that are one step from doing so.
 */
static inline uint32_t vmcu_accumulate(uint32_t acc, int32_t q, int32_t zero, int32_t weight)
{
	return acc + (uint32_t)((q - zero) * weight);
}

/** acc + the sum of (in[i] - zero) * weights[i] over @a n bytes. */
static inline uint32_t vmcu_dot(uint32_t acc, const int8_t *in, const int8_t *weights, int32_t n,
				int32_t zero)
{
	for (int32_t i = 0; i < n; i++) {
		acc = vmcu_accumulate(acc, in[i], zero, weights[i]);
	}
	return acc;
}

/** The int8 output of channel @a c. */
static inline __attribute__((always_inline)) int8_t vmcu_linear_output(const struct vmcu_linear *l,
								       uint32_t acc, int32_t c,
								       bool fixed)
{
	const int32_t sum = (int32_t)acc;
	const int32_t scaled = fixed ? vmcu_fixed_scale(sum, l->factors.fixed.multiplier[c],
							l->factors.fixed.shift[c])
				     : vmcu_float_scale(sum, l->factors.scale[c]);

	return vmcu_saturate(scaled, l->output_zero, l->act_min, l->act_max);
}

#endif /* VMCU_LINEAR_H_ */
