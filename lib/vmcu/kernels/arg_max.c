/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/operators.h>

#include "support.h"

static uint32_t place_of_extreme(const struct vmcu_arg_max_params *p, const int8_t *src,
				 uint32_t channels)
{
	const int32_t least = p->last ? -1 : 0;
	uint32_t found = 0;

	for (uint32_t c = 1; c < channels; c++) {
		const int32_t more = p->smallest ? src[found] - src[c] : src[c] - src[found];

		found ^= (found ^ c) & (uint32_t)vmcu_below(least, more);
	}
	return found;
}

void vmcu_arg_max(const struct vmcu_call *call)
{
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const int8_t *src = vmcu_pixel(call->pool, in, call->y, call->x);
	int8_t *dst = vmcu_pixel(call->pool, vmcu_call_output(call), call->y, call->x);

	for (uint32_t x = 0; x < call->columns; x++) {
		const uint32_t found = place_of_extreme(vmcu_params(call), src, in->channels);

		for (uint32_t i = 0; i < sizeof(found); i++) {
			*dst++ = (int8_t)(uint8_t)(found >> (8U * i));
		}
		src += in->channels;
	}
}
