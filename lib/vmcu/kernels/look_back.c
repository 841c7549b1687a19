/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/access.h>
#include <vmcu/operators.h>

void vmcu_hop_count(const struct vmcu_call *call)
{
	const uint16_t number = call->y;

	__builtin_memcpy(vmcu_row(call->pool, vmcu_call_output(call), 0U), &number, sizeof(number));
}

void vmcu_look_back(const struct vmcu_call *call)
{
	const struct vmcu_look_back_params *p = vmcu_params(call);
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const uint32_t end = (uint32_t)call->x + call->columns;
	uint32_t x = call->x;
	uint16_t number;
	uint32_t y;

	__builtin_memcpy(&number, vmcu_row(call->pool, vmcu_call_input(call, 1), 0U),
			 sizeof(number));
	y = (uint32_t)number * p->step + call->y;
#if defined(VMCU_CONTAINERS)
	if (y >= in->height) {
		/* A number is data: of a model that nobody has proven it may be any. */
		return;
	}
#endif
	while (x < end) {
		const uint32_t part = (uint32_t)vmcu_unsplit(in, y, x, (int32_t)(end - x));

		__builtin_memcpy(vmcu_pixel(call->pool, out, call->y, x),
				 vmcu_pixel(call->pool, in, y, x), (size_t)part * out->channels);
		x += part;
	}
}
