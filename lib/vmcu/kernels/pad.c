/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <stddef.h>

#include <vmcu/kernels.h>

void vmcu_pad(const struct vmcu_call *call)
{
	const struct vmcu_pad_params *p = call->layer->params;
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const int32_t y = (int32_t)call->y - p->top;
	const int8_t *row = NULL;
	int8_t *dst = vmcu_row(call->pool, out, call->y);

	if (y >= 0 && y < in->height) {
		row = vmcu_row(call->pool, in, (uint32_t)y);
	}
	for (int32_t out_x = 0; out_x < out->width; out_x++) {
		const int32_t x = out_x - p->left;
		const bool inside = row != NULL && x >= 0 && x < in->width;

		for (int32_t out_c = 0; out_c < out->channels; out_c++) {
			const int32_t c = out_c - p->before;

			*dst++ = (inside && c >= 0 && c < in->channels) ? row[x * in->channels + c]
									: p->value;
		}
	}
}
