/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/access.h>
#include <vmcu/operators.h>

void vmcu_pick(const struct vmcu_call *call)
{
	const struct vmcu_pick_params *p = vmcu_params(call);
	const uint16_t *bytes = vmcu_constants(call, p->bytes);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const int8_t *row = vmcu_row(call->pool, vmcu_call_input(call, 0), call->y);
	int8_t *dst = vmcu_pixel(call->pool, out, call->y, 0U);

	for (uint32_t left = (uint32_t)out->width * out->channels; left != 0U; left -= p->run) {
		const int8_t *src = row + *bytes++;

		for (uint32_t c = 0; c < p->run; c++) {
			*dst++ = *src++;
		}
	}
}
