/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/access.h>
#include <vmcu/operators.h>

void vmcu_lookup(const struct vmcu_call *call)
{
	const struct vmcu_lookup_params *p = vmcu_params(call);
	const int8_t *table = (const int8_t *)vmcu_constants(call, p->table) - INT8_MIN;
	const int8_t *src = vmcu_pixel(call->pool, vmcu_call_input(call, 0), call->y, call->x);
	int8_t *dst = vmcu_pixel(call->pool, vmcu_call_output(call), call->y, call->x);
	const int32_t bytes = call->columns * vmcu_call_output(call)->channels;

	for (int32_t i = 0; i < bytes; i++) {
		dst[i] = table[src[i]];
	}
}
