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

/** Output channels whose sums are kept at a time, so that each row is looked up once for them. */
#define BLOCK 16

/** Adds a row's elements times their weights to the sums of @a count channels. */
VMCU_APART void add_row(int32_t *sums, const int8_t *src, const int16_t *w, int32_t count,
			int32_t rank)
{
	/* The channels are the inner loop: most filters are alone. */
	for (int32_t r = 0; r < rank; r++, src += 2, w++) {
		const int8_t *x = src;
		const int16_t *y = w;

		for (int32_t n = 0; n < count; n++, x += 2 * rank, y += rank) {
			sums[n] = vmcu_sum(sums[n], *y * vmcu_int16(x));
		}
	}
}

/** Adds the window's part of the filters of channels from @a first on to their sums. */
VMCU_SMALL static void add_window(const struct vmcu_call *call, int32_t *sums, int32_t first,
				  int32_t count)
{
	const struct vmcu_filter_int16_params *p = vmcu_params(call);
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const int32_t filters = in->channels / 2;
	const int16_t *w = (const int16_t *)vmcu_constants(call, p->weights) + first * p->rank;

	for (int32_t k = 0; k < p->window.kernel_h; k++, w += filters) {
		const int32_t y =
			call->y * p->window.stride_h - p->window.pad_top + k * p->window.dilation_h;

		if (y >= 0 && y < in->height) {
			const int8_t *src = vmcu_input_row(call, 0, y) + 2 * first * p->rank;

			add_row(sums, src, w, count, p->rank);
		}
	}
}

VMCU_SMALL void vmcu_filter_int16(const struct vmcu_call *call)
{
	const struct vmcu_filter_int16_params *p = vmcu_params(call);
	const int32_t *bias = vmcu_constants(call, p->bias);
	const int32_t channels = vmcu_call_output(call)->channels;
	int8_t *dst = vmcu_output_start(call);
	int32_t sums[BLOCK];

	for (int32_t first = 0; first < channels; first += BLOCK) {
		const int32_t count = vmcu_min(channels - first, BLOCK);

		__builtin_memcpy(sums, &bias[first], (uint32_t)count * sizeof(*bias));
		add_window(call, sums, first, count);
		for (int32_t n = 0; n < count; n++) {
			const int32_t scaled =
				vmcu_scaled(sums[n], p->factor.multiplier, p->factor.shift);

			*dst++ = vmcu_saturate(scaled, p->output_zero, p->act_min, p->act_max);
		}
	}
}
