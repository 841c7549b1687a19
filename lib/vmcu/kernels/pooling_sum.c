/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "gen/isa.h"

/** The output, from the sums of all pixels. */
VMCU_CALLED void put_means(const struct vmcu_call *call, const int32_t *sums)
{
	const struct vmcu_average_pool_params *p = vmcu_params(call);
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const int32_t count = in->height * in->width;
	/* A mean that is rescaled counts from the zero point. */
	const int32_t zeros = p->rescale ? p->input_zero * count : 0;
	int8_t *out = vmcu_row(call->pool, vmcu_call_output(call), 0);

	for (uint32_t c = 0; c < in->channels; c++) {
		out[c] = vmcu_mean(p, sums[c] - zeros, count);
	}
}

VMCU_SMALL void vmcu_average_pool_sum(const struct vmcu_call *call)
{
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const int8_t *x = vmcu_pixel(call->pool, in, call->y, call->x);
	int32_t *sums = call->scratch;
	uint32_t c;

	if (call->y == 0U && call->x == 0U) {
		for (c = 0; c < in->channels; c++) {
			sums[c] = 0;
		}
	}
	for (c = 0; c + 4U <= in->channels; c += 4U) {
		vmcu_sum_words(&sums[c], &x[c], in->channels, call->columns);
	}
	for (; c < in->channels; c++) {
		for (uint32_t i = 0; i < call->columns; i++) {
			sums[c] += x[i * in->channels + c];
		}
	}
	if (call->y + 1U == in->height && call->x + call->columns == in->width) {
		put_means(call, sums);
	}
}
