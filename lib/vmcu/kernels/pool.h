/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Rows of a pooling window, whatever the instruction set makes of four channels.
 *
 * Included by generated kernels after their instruction set, which defines vmcu_sum_words() and
 * vmcu_most_words().
 */

#ifndef VMCU_KERNELS_POOL_H_
#define VMCU_KERNELS_POOL_H_

#include "window.h"

static inline struct vmcu_source vmcu_window_source(const struct vmcu_call *call,
						    const struct vmcu_window *window)
{
	return (struct vmcu_source){
		.pool = call->pool,
		.tensor = vmcu_call_input(call, 0),
		.window = window,
	};
}

/** The taps of a row that lie inside the image: how many, and in `x` the first. */
static int32_t vmcu_row_taps(const struct vmcu_source *in, int32_t row, int32_t pixel,
			     int32_t channel, const int8_t **x)
{
	const struct vmcu_window *w = in->window;
	const int8_t *line = vmcu_source_row(in, row);
	struct vmcu_taps taps;

	if (line == NULL) {
		return 0;
	}
	taps = vmcu_taps(pixel, w->kernel_w, w->dilation_w, in->tensor->width);
	*x = line + vmcu_tap(&taps, taps.begin) * in->tensor->channels + channel;
	return taps.end - taps.begin;
}

/** Adds a row of taps of up to four channels to sums. */
static void vmcu_sum_row(int32_t *acc, const struct vmcu_source *in, int32_t row, int32_t pixel,
			 int32_t channel, int32_t lanes)
{
	const int32_t pitch = in->window->dilation_w * in->tensor->channels;
	const int8_t *x = NULL;
	int32_t count = vmcu_row_taps(in, row, pixel, channel, &x);

	if (lanes == 4) {
		vmcu_sum_words(acc, x, pitch, count);
		return;
	}
	for (; count > 0; count--, x += pitch) {
		for (int32_t i = 0; i < lanes; i++) {
			acc[i] += x[i];
		}
	}
}

/** The same for maxima. */
static void vmcu_most_row(int32_t *acc, const struct vmcu_source *in, int32_t row, int32_t pixel,
			  int32_t channel, int32_t lanes)
{
	const int32_t pitch = in->window->dilation_w * in->tensor->channels;
	const int8_t *x = NULL;
	int32_t count = vmcu_row_taps(in, row, pixel, channel, &x);

	if (lanes == 4) {
		vmcu_most_words(acc, x, pitch, count);
		return;
	}
	for (; count > 0; count--, x += pitch) {
		for (int32_t i = 0; i < lanes; i++) {
			acc[i] = (x[i] > acc[i]) ? x[i] : acc[i];
		}
	}
}

/** x / count to nearest, ties away from zero. */
static inline int32_t vmcu_rounded_quotient(int32_t x, int32_t count)
{
	return ((x < 0) ? x - count / 2 : x + count / 2) / count;
}

/** The int8 output of a window whose taps sum up to @a sum. */
static inline int8_t vmcu_mean(const struct vmcu_average_pool_params *p, int32_t sum,
			       int32_t count)
{
	int32_t mean;

	if (!p->rescale) {
		return vmcu_saturate(vmcu_rounded_quotient(sum, count), 0, p->act_min, p->act_max);
	}
	/* sum * 256 / count in two parts: the product alone would overflow for large windows. */
	mean = sum / count * 256 + vmcu_rounded_quotient(sum % count * 256, count);
	return vmcu_saturate(vmcu_fixed_scale(mean, p->factor.multiplier, p->factor.shift),
			     p->output_zero, p->act_min, p->act_max);
}

#endif /* VMCU_KERNELS_POOL_H_ */
