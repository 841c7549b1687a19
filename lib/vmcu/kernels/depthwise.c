/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "linear.h"
#include "window.h"

/** Sum over the taps inside the image for one output byte. */
static uint32_t depthwise_taps(const struct vmcu_call *call, const struct vmcu_taps *ty,
			       const struct vmcu_taps *tx, int32_t channel)
{
	const struct vmcu_depthwise_params *p = call->layer->params;
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const int32_t channels = vmcu_call_output(call)->channels;
	const int32_t zero = p->linear.input_zero;
	const int8_t *filter = p->linear.weights + channel;
	uint32_t acc = (uint32_t)p->linear.bias[channel];

	for (int32_t ky = ty->begin; ky < ty->end; ky++) {
		const int8_t *row = vmcu_row(call->pool, in, (uint32_t)vmcu_tap(ty, ky)) +
				    channel / p->multiplier;

		for (int32_t kx = tx->begin; kx < tx->end; kx++) {
			acc = vmcu_accumulate(acc, row[vmcu_tap(tx, kx) * in->channels], zero,
					      filter[(ky * p->window.kernel_w + kx) * channels]);
		}
	}
	return acc;
}

VMCU_BODY depthwise_row(const struct vmcu_call *call, bool fixed)
{
	const struct vmcu_depthwise_params *p = call->layer->params;
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const struct vmcu_taps ty = vmcu_taps_y(&p->window, call->y, in->height);
	int8_t *dst = vmcu_row(call->pool, out, call->y);

	for (int32_t x = 0; x < out->width; x++) {
		const struct vmcu_taps tx = vmcu_taps_x(&p->window, x, in->width);

		for (int32_t c = 0; c < out->channels; c++) {
			const uint32_t acc = depthwise_taps(call, &ty, &tx, c);

			*dst++ = vmcu_linear_output(&p->linear, acc, c, fixed);
		}
	}
}

void vmcu_depthwise_fixed(const struct vmcu_call *call)
{
	depthwise_row(call, true);
}

void vmcu_depthwise_float(const struct vmcu_call *call)
{
	depthwise_row(call, false);
}
