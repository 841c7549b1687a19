/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "gen/isa.h"

VMCU_SMALL void vmcu_dense_int16(const struct vmcu_call *call)
{
	const struct vmcu_dense_int16_params *p = vmcu_params(call);
	const int8_t *weights = vmcu_constants(call, p->weights);
	const int32_t taps = vmcu_call_input(call, 0)->channels;
	const int32_t elements = vmcu_call_output(call)->channels / 2;
	const int8_t *src = vmcu_input_start(call, 0);
	int8_t *dst = vmcu_output_start(call);

	for (int32_t x = 0; x < call->columns; x++, src += taps) {
		for (int32_t n = 0; n < elements; n++, dst += 2) {
			const int32_t sum =
				vmcu_product_row(0, src, &weights[n * taps], taps, p->input_zero);
			const int32_t scaled =
				vmcu_scaled(sum, p->factor.multiplier, p->factor.shift);

			vmcu_put_int16(dst, (scaled < INT16_MIN) ? INT16_MIN
								 : vmcu_min(scaled, INT16_MAX));
		}
	}
}

/** Adds the filters of an output channel to a sum; those of the first are at byte @a first. */
static int32_t filtered(const struct vmcu_call *call, int32_t sum, const int16_t *w, uint32_t first)
{
	const struct vmcu_filter_int16_params *p = vmcu_params(call);
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);

	for (int32_t k = 0; k < p->window.kernel_h; k++, w += p->rank) {
		const int32_t y =
			call->y * p->window.stride_h - p->window.pad_top + k * p->window.dilation_h;

		if (y >= 0 && y < in->height) {
			const int8_t *src = vmcu_input_row(call, 0, y) + first;

			for (int32_t r = 0; r < p->rank; r++, src += 2) {
				sum = vmcu_sum(sum, w[r] * vmcu_int16(src));
			}
		}
	}
	return sum;
}

VMCU_SMALL void vmcu_filter_int16(const struct vmcu_call *call)
{
	const struct vmcu_filter_int16_params *p = vmcu_params(call);
	const int16_t *weights = vmcu_constants(call, p->weights);
	const int32_t *bias = vmcu_constants(call, p->bias);
	const uint32_t taps = (uint32_t)p->window.kernel_h * p->rank;
	int8_t *dst = vmcu_output_start(call);

	for (uint32_t n = 0; n < vmcu_call_output(call)->channels; n++) {
		const int32_t sum = filtered(call, bias[n], &weights[n * taps], 2U * n * p->rank);

		dst[n] = vmcu_saturate(vmcu_scaled(sum, p->factor.multiplier, p->factor.shift),
				       p->output_zero, p->act_min, p->act_max);
	}
}
