/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "support.h"

VMCU_SMALL void vmcu_hardmax(const struct vmcu_call *call)
{
	const struct vmcu_hardmax_params *p = vmcu_params(call);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const int8_t *src = vmcu_pixel(call->pool, vmcu_call_input(call, 0), call->y, call->x);
	int8_t *dst = vmcu_pixel(call->pool, out, call->y, call->x);

	for (uint32_t x = 0; x < call->columns; x++) {
		const int32_t top = vmcu_maximum(src, out->channels);
		int32_t left = p->one - p->zero;

		for (uint32_t c = 0; c < out->channels; c++) {
			const int32_t smaller = vmcu_sign(src[c] - top);

			dst[c] = (int8_t)(p->zero + (left & ~smaller));
			left &= smaller;
		}
		src += out->channels;
		dst += out->channels;
	}
}
