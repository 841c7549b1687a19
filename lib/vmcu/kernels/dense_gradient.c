/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/operators.h>

#include "trained.h"

/** Bits that products lose, so that a sum of 127 is within int32. */
#define LOST_BITS 7

/** The sum of all errors times the weights of value @a n. */
static int32_t sum_of(const struct vmcu_call *call, const int8_t *errors, int32_t n)
{
	const int32_t rows = vmcu_call_input(call, 1)->height;
	int32_t sum = 0;

	for (int32_t y = 0; y < rows; y++, errors += 2) {
		const int8_t *w = vmcu_input_row(call, 1, y) + n * VMCU_WEIGHT_BYTES;
		const int32_t product = vmcu_int16(errors) * vmcu_int16(w);

		sum = vmcu_sum(sum, (product + (1 << LOST_BITS >> 1)) >> LOST_BITS);
	}
	return sum;
}

void vmcu_dense_gradient(const struct vmcu_call *call)
{
	const struct vmcu_dense_gradient_params *p = vmcu_params(call);
	const int32_t values = vmcu_call_output(call)->channels / 2;
	const int8_t *errors = vmcu_input_row(call, 0, 0);
	const int8_t *src = vmcu_input_row(call, 2, 0);
	int8_t *dst = vmcu_output_start(call);

	for (int32_t n = 0; n < values; n++, dst += 2) {
		const bool cut = src[n] <= p->low || src[n] >= p->high;
		const int32_t sum = cut ? 0 : sum_of(call, errors, n);
		const int32_t error = vmcu_scaled(sum, p->factor.multiplier, p->factor.shift);

		vmcu_put_int16(dst, (error < INT16_MIN) ? INT16_MIN : vmcu_min(error, INT16_MAX));
	}
}
