/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "linear.h"

VMCU_BODY fully_connected_row(const struct vmcu_call *call, bool fixed)
{
	const struct vmcu_fully_connected_params *p = call->layer->params;
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const int32_t depth = in->channels;
	const int8_t *src = vmcu_row(call->pool, in, call->y);
	int8_t *dst = vmcu_row(call->pool, out, call->y);

	for (int32_t x = 0; x < out->width; x++) {
		const int8_t *weights = p->linear.weights;

		for (int32_t c = 0; c < out->channels; c++) {
			const uint32_t acc = vmcu_dot((uint32_t)p->linear.bias[c], src, weights,
						      depth, p->linear.input_zero);

			*dst++ = vmcu_linear_output(&p->linear, acc, c, fixed);
			weights += depth;
		}
		src += depth;
	}
}

void vmcu_fully_connected_fixed(const struct vmcu_call *call)
{
	fully_connected_row(call, true);
}

void vmcu_fully_connected_float(const struct vmcu_call *call)
{
	fully_connected_row(call, false);
}
