/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/access.h>
#include <vmcu/operators.h>

void vmcu_fetch(const struct vmcu_call *call)
{
	const struct vmcu_fetch_params *p = vmcu_params(call);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const uint32_t pixel = (uint32_t)call->y * p->width + p->first + call->x;

	__builtin_memcpy(vmcu_pixel(call->pool, out, call->y, call->x),
			 &call->input[pixel * out->channels],
			 (size_t)call->columns * out->channels);
}
