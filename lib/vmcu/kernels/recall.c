/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/access.h>
#include <vmcu/operators.h>

/** A row's columns of a call. */
static int8_t *columns_of(const struct vmcu_call *call, const struct vmcu_tensor *t)
{
	return vmcu_pixel(call->pool, t, call->y, call->x);
}

void vmcu_recall(const struct vmcu_call *call)
{
	const struct vmcu_recall_params *p = vmcu_params(call);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const size_t bytes = (size_t)call->columns * out->channels;
	uint16_t number;

	__builtin_memcpy(&number, vmcu_row(call->pool, vmcu_call_input(call, 1), 0U),
			 sizeof(number));
	if (number == 0U) {
		__builtin_memset(columns_of(call, out), p->zero, bytes);
	} else {
		__builtin_memcpy(columns_of(call, out), columns_of(call, vmcu_call_input(call, 0)),
				 bytes);
	}
}

void vmcu_remember(const struct vmcu_call *call)
{
	const struct vmcu_tensor *out = vmcu_call_output(call);

	__builtin_memcpy(columns_of(call, out), columns_of(call, vmcu_call_input(call, 0)),
			 (size_t)call->columns * out->channels);
}
