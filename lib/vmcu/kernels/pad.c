/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <stddef.h>

#include "support.h"

VMCU_SMALL void vmcu_pad(const struct vmcu_call *call)
{
	const struct vmcu_pad_params *p = vmcu_params(call);
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const int32_t y = (int32_t)call->y - p->top;
	const int32_t left = (int32_t)call->x - p->left;
	int8_t *dst = vmcu_pixel(call->pool, out, call->y, call->x);

	for (int32_t x = left; x < left + call->columns; x++) {
		const bool inside = y >= 0 && y < in->height && x >= 0 && x < in->width;
		const int8_t *src = NULL;

		if (inside) {
			src = vmcu_pixel(call->pool, in, (uint32_t)y, (uint32_t)x);
		}
		if (inside && p->before == 0 && in->channels == out->channels) {
			__builtin_memcpy(dst, src, in->channels);
			dst += in->channels;
			continue;
		}
		for (int32_t out_c = 0; out_c < out->channels; out_c++) {
			const int32_t c = out_c - p->before;

			*dst++ = (inside && c >= 0 && c < in->channels) ? src[c] : p->value;
		}
	}
}
