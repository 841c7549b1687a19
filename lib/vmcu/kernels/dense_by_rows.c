/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "gen/isa.h"

/** In a row: where sums begin, and the number of the row, in bytes by channels. */
#define SUMS   1
#define NUMBER 5

/** The number of a call's row in its inference; @a before: the row before. */
static uint32_t number_of(const struct vmcu_call *call, const int8_t *before, uint32_t rows)
{
	const uint32_t channels = vmcu_call_output(call)->channels;
	uint32_t number;

	if (call->y == 0U) {
		return 0U;
	}
	number = (uint8_t)before[NUMBER * channels] + 1U;
	return (number < rows) ? number : 0U;
}

VMCU_SMALL void vmcu_dense_by_rows(const struct vmcu_call *call)
{
	const struct vmcu_dense_by_rows_params *p = vmcu_params(call);
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const uint32_t channels = vmcu_call_output(call)->channels;
	const int32_t taps = in->width * in->channels;
	const int32_t *begins = vmcu_constants(call, p->begins);
	const int32_t *multipliers = vmcu_constants(call, p->multipliers);
	const int32_t *shifts = vmcu_constants(call, p->shifts);
	const int8_t *x = vmcu_input_row(call, 0, call->y);
	const int8_t *before = (call->y == 0U) ? x : vmcu_input_row(call, 1, call->y - 1);
	const uint32_t number = number_of(call, before, p->rows);
	const int8_t *w = (const int8_t *)vmcu_constants(call, p->weights) +
			  number * channels * (uint32_t)taps;
	int8_t *out = vmcu_output_start(call);

	for (uint32_t c = 0; c < channels; c++, w += taps) {
		const uint32_t place = SUMS * channels + (uint32_t)sizeof(int32_t) * c;
		int32_t sum = begins[c];

		if (number != 0U) {
			__builtin_memcpy(&sum, &before[place], sizeof(sum));
		}
		sum = vmcu_product_row(sum, x, w, taps, 0);
		out[c] = vmcu_saturate(vmcu_scaled(sum, multipliers[c], shifts[c]), p->output_zero,
				       p->act_min, p->act_max);
		__builtin_memcpy(&out[place], &sum, sizeof(sum));
	}
	__builtin_memset(&out[NUMBER * channels], (int)number, channels);
}
