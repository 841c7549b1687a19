/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "support.h"

VMCU_SMALL void vmcu_requantize(const struct vmcu_call *call)
{
	const struct vmcu_requantize_params *p = vmcu_params(call);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const int8_t *src = vmcu_pixel(call->pool, vmcu_call_input(call, 0), call->y, call->x);
	int8_t *dst = vmcu_pixel(call->pool, out, call->y, call->x);
	const int32_t bytes = call->columns * out->channels;
	const int32_t zero = p->rescale ? p->output_zero : 0;

	for (int32_t i = 0; i < bytes; i++) {
		int32_t x = src[i];

		if (p->rescale) {
			x = vmcu_scaled(x - p->input_zero, p->factor.multiplier, p->factor.shift);
		}
		dst[i] = vmcu_saturate(x, zero, p->act_min, p->act_max);
	}
}
