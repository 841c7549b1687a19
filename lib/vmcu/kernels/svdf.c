/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "gen/isa.h"

/** Elements whose sums are computed at a time. */
#define ROWS 4

/** Sums of products of taps with rows of weights. */
VMCU_APART void sum_rows(int32_t *sums, const int8_t *x, const int8_t *w, int32_t taps,
			 int32_t zero)
{
	const int8_t *const end = x + (taps & ~3);
	int32_t a[] = {0}, b[] = {0}, c[] = {0}, d[] = {0};

	for (; x < end; x += 4, w += 4) {
		vmcu_dot_row_4(a, x, w, zero);
		vmcu_dot_row_4(b, x, w + taps, zero);
		vmcu_dot_row_4(c, x, w + 2 * taps, zero);
		vmcu_dot_row_4(d, x, w + 3 * taps, zero);
	}
	sums[0] = a[0];
	sums[1] = b[0];
	sums[2] = c[0];
	sums[3] = d[0];
	for (int32_t n = 0; (taps & 3) != 0 && n < ROWS; n++, w += taps) {
		sums[n] = vmcu_product_row(sums[n], x, w, taps & 3, zero);
	}
}

void vmcu_dense_int16(const struct vmcu_call *call)
{
	const struct vmcu_dense_int16_params *p = vmcu_params(call);
	const int8_t *weights = vmcu_constants(call, p->weights);
	const int32_t taps = vmcu_call_input(call, 0)->channels;
	const int32_t elements = vmcu_call_output(call)->channels / 2;
	const int8_t *src = vmcu_input_start(call, 0);
	int8_t *dst = vmcu_output_start(call);

	for (int32_t x = 0; x < call->columns; x++, src += taps) {
		for (int32_t n = 0; n < elements; n += ROWS) {
			const int32_t count = vmcu_min(elements - n, ROWS);
			int32_t sums[ROWS];

			for (int32_t i = 0; count < ROWS && i < count; i++) {
				sums[i] = vmcu_product_row(0, src, &weights[(n + i) * taps], taps,
							   p->input_zero);
			}
			if (count == ROWS) {
				sum_rows(sums, src, &weights[n * taps], taps, p->input_zero);
			}
			for (int32_t i = 0; i < count; i++, dst += 2) {
				const int32_t scaled =
					vmcu_scaled(sums[i], p->factor.multiplier, p->factor.shift);

				vmcu_put_int16(dst, vmcu_at_most(vmcu_at_least(scaled, INT16_MIN),
								 INT16_MAX));
			}
		}
	}
}

/** Output channels whose sums are kept at a time, so that each row is looked up once for them. */
#define BLOCK 64

/** Adds elements times their weights to the sums of @a count channels, both @a step apart. */
VMCU_INLINE void add_filters(int32_t *sums, const int8_t *src, const int16_t *w, int32_t count,
			     int32_t step)
{
#pragma GCC unroll 4
	for (int32_t n = 0; n < count; n++) {
		sums[n] = vmcu_sum(sums[n], w[n * step] * vmcu_int16(&src[2 * n * step]));
	}
}

/** Adds a row's elements times their weights to the sums of @a count channels. */
VMCU_APART void add_row(int32_t *sums, const int8_t *src, const int16_t *w, int32_t count,
			int32_t rank)
{
	/* The channels are the inner loop: most filters are alone. */
	if (rank == 1) {
		add_filters(sums, src, w, count, 1);
		return;
	}
	for (int32_t r = 0; r < rank; r++) {
		add_filters(sums, &src[2 * r], &w[r], count, rank);
	}
}

/** Adds the window's part of the filters of channels from @a first on to their sums. */
static void add_window(const struct vmcu_call *call, int32_t *sums, int32_t first, int32_t count)
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

void vmcu_filter_int16(const struct vmcu_call *call)
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
