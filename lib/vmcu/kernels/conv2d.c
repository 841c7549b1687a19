/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "linear.h"
#include "window.h"

/** Sum over the taps inside the image for one output byte. */
static uint32_t conv2d_taps(const struct vmcu_call *call, const struct vmcu_taps *ty,
			    const struct vmcu_taps *tx, int32_t channel, int32_t channels)
{
	const struct vmcu_conv2d_params *p = call->layer->params;
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const int32_t group = channel / (vmcu_call_output(call)->channels / p->groups);
	const int32_t kernel_w = p->window.kernel_w;
	const int8_t *filter = p->linear.weights + channel * p->window.kernel_h * kernel_w * channels;
	uint32_t acc = (uint32_t)p->linear.bias[channel];

	for (int32_t ky = ty->begin; ky < ty->end; ky++) {
		const int8_t *row = vmcu_row(call->pool, in, (uint32_t)vmcu_tap(ty, ky));

		for (int32_t kx = tx->begin; kx < tx->end; kx++) {
			acc = vmcu_dot(acc,
				       row + vmcu_tap(tx, kx) * in->channels + group * channels,
				       filter + (ky * kernel_w + kx) * channels, channels,
				       p->linear.input_zero);
		}
	}
	return acc;
}

VMCU_BODY conv2d_row(const struct vmcu_call *call, bool fixed)
{
	const struct vmcu_conv2d_params *p = call->layer->params;
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const struct vmcu_taps ty = vmcu_taps_y(&p->window, call->y, in->height);
	const int32_t channels = in->channels / p->groups;
	int8_t *dst = vmcu_row(call->pool, out, call->y);

	for (int32_t x = 0; x < out->width; x++) {
		const struct vmcu_taps tx = vmcu_taps_x(&p->window, x, in->width);

		for (int32_t c = 0; c < out->channels; c++) {
			const uint32_t acc = conv2d_taps(call, &ty, &tx, c, channels);

			*dst++ = vmcu_linear_output(&p->linear, acc, c, fixed);
		}
	}
}

void vmcu_conv2d_fixed(const struct vmcu_call *call)
{
	conv2d_row(call, true);
}

void vmcu_conv2d_float(const struct vmcu_call *call)
{
	conv2d_row(call, false);
}
