/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/operators.h>

#include "support.h"

#define WEIGHT_BITS 10
#define UNIT        (1 << WEIGHT_BITS)

/** Entries of a table for each output index. */
enum {
	FIRST,
	SECOND,
	WEIGHT,
	ENTRIES,
};

/** The output for a sum of four taps. */
static int8_t finish_output(const struct vmcu_resize_params *p, int32_t sum)
{
	if (!p->rescale) {
		return vmcu_saturate(vmcu_rounding_shift(sum, 2 * WEIGHT_BITS), 0, p->act_min,
				     p->act_max);
	}
	sum = vmcu_scaled(sum - p->input_zero * UNIT * UNIT, p->factor.multiplier, p->factor.shift);
	return vmcu_saturate(sum, p->output_zero, p->act_min, p->act_max);
}

void vmcu_resize(const struct vmcu_call *call)
{
	const struct vmcu_resize_params *p = vmcu_params(call);
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const int16_t *row = (const int16_t *)vmcu_constants(call, p->rows) + ENTRIES * call->y;
	const int16_t *columns = vmcu_constants(call, p->columns);
	const int8_t *top = vmcu_row(call->pool, in, (uint32_t)row[FIRST]);
	const int8_t *bottom = vmcu_row(call->pool, in, (uint32_t)row[SECOND]);
	const int32_t channels = in->channels;
	int8_t *dst = vmcu_pixel(call->pool, vmcu_call_output(call), call->y, call->x);

	for (int32_t x = call->x; x < call->x + call->columns; x++) {
		const int16_t *column = &columns[ENTRIES * x];
		const int32_t weight = column[WEIGHT];
		const int32_t left = column[FIRST] * channels;
		const int32_t right = column[SECOND] * channels;

		for (int32_t c = 0; c < channels; c++) {
			const int32_t upper =
				top[left + c] * (UNIT - weight) + top[right + c] * weight;
			const int32_t lower =
				bottom[left + c] * (UNIT - weight) + bottom[right + c] * weight;

			*dst++ = finish_output(p,
					       upper * (UNIT - row[WEIGHT]) + lower * row[WEIGHT]);
		}
	}
}
