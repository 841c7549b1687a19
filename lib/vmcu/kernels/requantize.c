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

	for (int32_t i = 0; i < bytes; i++) {
		const int32_t x = src[i] - p->input_zero;

		dst[i] = p->rescale ? vmcu_saturate(
					      vmcu_scaled(x, p->factor.multiplier, p->factor.shift),
					      p->output_zero, p->act_min, p->act_max)
				    : vmcu_saturate(src[i], 0, p->act_min, p->act_max);
	}
}
