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
		bool found = false;

		for (uint32_t c = 0; c < out->channels; c++) {
			const bool largest = src[c] == top;

			dst[c] = (largest && !found) ? p->one : p->zero;
			found = found || largest;
		}
		src += out->channels;
		dst += out->channels;
	}
}
