/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/operators.h>

#include "trained.h"

/** The largest bias, which with a sum of products is within int32. */
#define MOST_BIAS 0x40000000

/** @a value less a step, between -most and most. */
static int32_t subtract_step(int32_t value, int32_t step, int32_t most)
{
	const int64_t found = (int64_t)value - step;

	return (found > most) ? most : (found < -most) ? -most : (int32_t)found;
}

/** Takes a step with the weights of a row of the input. */
VMCU_APART void step_row(const struct vmcu_dense_update_params *p, const int8_t *x, const int8_t *w,
			 int8_t *dst, int32_t run, int32_t error)
{
	for (int32_t i = 0; i < run; i++, w += VMCU_WEIGHT_BYTES, dst += VMCU_WEIGHT_BYTES) {
		const int32_t step = vmcu_scaled(error * (x[i] - p->input_zero),
						 p->weight_step.multiplier, p->weight_step.shift);

		vmcu_put_int16(dst, subtract_step(vmcu_int16(w), step, p->most));
	}
}

void vmcu_dense_update(const struct vmcu_call *call)
{
	const struct vmcu_dense_update_params *p = vmcu_params(call);
	const struct vmcu_tensor *in = vmcu_call_input(call, 2);
	const int32_t run = vmcu_run(in);
	const int8_t *errors = vmcu_input_row(call, 1, 0);
	const int32_t error = vmcu_int16(errors + 2 * (p->first + call->y));
	const int32_t step = vmcu_scaled(error, p->bias_step.multiplier, p->bias_step.shift);
	const int8_t *w = vmcu_input_row(call, 0, call->y);
	int8_t *dst = vmcu_output_start(call);

	for (int32_t y = 0; y < in->height; y++) {
		step_row(p, vmcu_input_row(call, 2, y), w, dst, run, error);
		w += run * VMCU_WEIGHT_BYTES;
		dst += run * VMCU_WEIGHT_BYTES;
	}
	const int32_t bias = subtract_step(vmcu_bias(w), step, MOST_BIAS);

	__builtin_memcpy(dst, &bias, sizeof(bias));
}
