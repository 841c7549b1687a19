/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "support.h"

static int32_t sum_channels(const int8_t *src, int32_t channels, int32_t zero)
{
	int32_t sum = 0;

	for (int32_t c = 0; c < channels; c++) {
		sum += src[c] - zero;
	}
	return sum;
}

VMCU_SMALL void vmcu_cum_sum(const struct vmcu_call *call)
{
	const struct vmcu_cum_sum_params *p = vmcu_params(call);
	const int32_t channels = vmcu_call_output(call)->channels;
	const int8_t *src = vmcu_pixel(call->pool, vmcu_call_input(call, 0), call->y, call->x);
	int8_t *dst = vmcu_pixel(call->pool, vmcu_call_output(call), call->y, call->x);
	const union {
		int32_t bits;
		float value;
	} scale = {p->scale};

	for (uint32_t x = 0; x < call->columns; x++) {
		/* From the last channel on: all of them, less those in front. */
		int32_t sum = p->reverse ? sum_channels(src, channels, p->input_zero) : 0;

		for (int32_t c = 0; c < channels; c++) {
			const int32_t before = sum;
			const int32_t value = src[c] - p->input_zero;
			const int32_t after = before + (p->reverse ? -value : value);
			const int32_t chosen = (p->exclusive == p->reverse) ? after : before;

			sum = after;
			dst[c] = vmcu_saturate(vmcu_float_scale(chosen, scale.value),
					       p->output_zero, p->act_min, p->act_max);
		}
		src += channels;
		dst += channels;
	}
}
