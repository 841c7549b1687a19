/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <stddef.h>

#include "support.h"

/** The input index that kernel element @a k brings to output index @a out, or -1. */
static int32_t source_index(int32_t out, int32_t k, int32_t pad, int32_t dilation, int32_t stride,
			    int32_t size)
{
	const int32_t at = out + pad - k * dilation;

	return (at >= 0 && at % stride == 0 && at / stride < size) ? at / stride : -1;
}

/** Sum of the taps of one output channel; @a first is the first input channel of its group. */
static int32_t sum_taps(const struct vmcu_call *call, const int8_t *weights, int32_t x,
			int32_t first)
{
	const struct vmcu_transpose_conv_params *p = vmcu_params(call);
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const struct vmcu_window *w = &p->window;
	const int32_t depth = p->depth;
	int32_t acc = 0;

	for (int32_t ky = 0; ky < w->kernel_h; ky++) {
		const int32_t y = source_index(call->y, ky, w->pad_top, w->dilation_h, w->stride_h,
					       in->height);

		for (int32_t kx = 0; kx < w->kernel_w; kx++, weights += depth) {
			const int32_t column = source_index(x, kx, w->pad_left, w->dilation_w,
							    w->stride_w, in->width);

			if (y < 0 || column < 0) {
				continue;
			}

			const int8_t *src =
				vmcu_pixel(call->pool, in, (uint32_t)y, (uint32_t)column) + first;

			for (int32_t c = 0; c < depth; c++) {
				acc += (src[c] - p->input_zero) * weights[c];
			}
		}
	}
	return acc;
}

void vmcu_transpose_conv(const struct vmcu_call *call)
{
	VMCU_OWN_PARAMS(vmcu_transpose_conv_params, p, call);
	const int32_t channels = vmcu_call_output(call)->channels;
	const int32_t per_group = channels / p->groups;
	const int32_t taps = p->window.kernel_h * p->window.kernel_w * p->depth;
	int8_t *dst = vmcu_pixel(call->pool, vmcu_call_output(call), call->y, call->x);

	VMCU_OWN_POINTER(call, p, weights);
	VMCU_OWN_POINTER(call, p, bias);
	VMCU_OWN_POINTER(call, p, multiplier);
	VMCU_OWN_POINTER(call, p, shift);
	VMCU_OWN_POINTER(call, p, scale);
	for (int32_t x = call->x; x < call->x + call->columns; x++) {
		for (int32_t n = 0; n < channels; n++) {
			const int32_t sum =
				sum_taps(call, p->weights + n * taps, x, n / per_group * p->depth);
			const int32_t acc = (int32_t)((uint32_t)sum + (uint32_t)p->bias[n]);
			const int32_t value =
				vmcu_requant_is_float(p->scale != NULL)
					? vmcu_float_scale(acc, p->scale[n])
					: vmcu_scaled(acc, p->multiplier[n], p->shift[n]);

			*dst++ = vmcu_saturate(value, p->output_zero, p->act_min, p->act_max);
		}
	}
}
