/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "support.h"

VMCU_SMALL void vmcu_reshape(const struct vmcu_call *call)
{
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const uint32_t in_bytes = (uint32_t)in->width * in->channels;
	const uint32_t out_bytes = (uint32_t)out->width * out->channels;
	const uint32_t first = call->y * out_bytes;
	uint32_t y = first / in_bytes;
	uint32_t at = first % in_bytes;
	const int8_t *src = vmcu_row(call->pool, in, y);
	int8_t *dst = vmcu_row(call->pool, out, call->y);

	for (uint32_t i = 0; i < out_bytes; i++) {
		if (at == in_bytes) {
			at = 0;
			y++;
			src = vmcu_row(call->pool, in, y);
		}
		dst[i] = src[at++];
	}
}
