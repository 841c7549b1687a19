/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/operators.h>

#include "trained.h"

/** Adds products of a row of the input to @a sum, which wraps. */
VMCU_APART int32_t add_row(int32_t sum, const int8_t *x, const int8_t *w, int32_t run, int32_t zero)
{
	for (int32_t i = 0; i < run; i++, w += VMCU_WEIGHT_BYTES) {
		sum = vmcu_sum(sum, vmcu_int16(w) * (x[i] - zero));
	}
	return sum;
}

void vmcu_trained_dense(const struct vmcu_call *call)
{
	const struct vmcu_trained_dense_params *p = vmcu_params(call);
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const int32_t run = vmcu_run(in);
	const int32_t outputs = vmcu_call_output(call)->channels;
	int8_t *dst = vmcu_output_start(call);

	for (int32_t n = 0; n < outputs; n++) {
		const int8_t *w = vmcu_input_row(call, 1, n);
		int32_t sum = 0;

		for (int32_t y = 0; y < in->height; y++, w += run * VMCU_WEIGHT_BYTES) {
			sum = add_row(sum, vmcu_input_row(call, 0, y), w, run, p->input_zero);
		}
		sum = vmcu_scaled(vmcu_sum(sum, vmcu_bias(w)), p->factor.multiplier,
				  p->factor.shift);
		dst[n] = vmcu_saturate(sum, p->output_zero, p->act_min, p->act_max);
	}
}
