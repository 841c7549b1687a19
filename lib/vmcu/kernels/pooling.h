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

#ifndef VMCU_KERNELS_POOLING_H_
#define VMCU_KERNELS_POOLING_H_

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

/** The taps of a row that lie inside the image. */
static inline struct vmcu_taps vmcu_row_taps(const struct vmcu_source *in, int32_t row,
					     int32_t pixel)
{
	const struct vmcu_window *w = in->window;

	if (!vmcu_source_row(in, row)) {
		return (struct vmcu_taps){0};
	}
	return vmcu_taps(pixel, w->kernel_w, w->dilation_w, in->tensor->width);
}

/** Takes the next taps in front of the row's split: how many, and in `x` the first. */
static inline int32_t vmcu_next_taps(const struct vmcu_source *in, struct vmcu_taps *taps,
				     int32_t row, const int8_t **x)
{
	const uint32_t first = (uint32_t)vmcu_tap(taps, taps->begin);
	const uint32_t place = vmcu_place(in->tensor, (uint32_t)row, first);
	const int32_t pitch = taps->dilation * in->tensor->channels;
	const int32_t left = (int32_t)(in->tensor->ring - place);
	int32_t count = taps->end - taps->begin;

	if ((count - 1) * pitch >= left) {
		count = (left + pitch - 1) / pitch;
	}
	taps->begin += count;
	*x = vmcu_pixel(in->pool, in->tensor, (uint32_t)row, first);
	return count;
}

/** Adds a row of taps of up to four channels to sums. */
static __attribute__((unused)) void vmcu_sum_row(int32_t *acc, const struct vmcu_source *in,
						 int32_t row, int32_t pixel, int32_t channel,
						 int32_t lanes)
{
	const int32_t pitch = in->window->dilation_w * in->tensor->channels;
	struct vmcu_taps taps = vmcu_row_taps(in, row, pixel);
	const int8_t *x;

	while (taps.begin < taps.end) {
		int32_t n = vmcu_next_taps(in, &taps, row, &x);

		x += channel;
		if (lanes == 4) {
			vmcu_sum_words(acc, x, pitch, n);
			continue;
		}
		for (; n > 0; n--, x += pitch) {
			for (int32_t i = 0; i < lanes; i++) {
				acc[i] += x[i];
			}
		}
	}
}

/** The maxima of acc and of a row of taps of up to four channels. */
static __attribute__((unused)) void vmcu_most_row(int32_t *acc, const struct vmcu_source *in,
						  int32_t row, int32_t pixel, int32_t channel,
						  int32_t lanes)
{
	const int32_t pitch = in->window->dilation_w * in->tensor->channels;
	struct vmcu_taps taps = vmcu_row_taps(in, row, pixel);
	const int8_t *x;

	while (taps.begin < taps.end) {
		int32_t n = vmcu_next_taps(in, &taps, row, &x);

		x += channel;
		if (lanes == 4) {
			vmcu_most_words(acc, x, pitch, n);
			continue;
		}
		for (; n > 0; n--, x += pitch) {
			for (int32_t i = 0; i < lanes; i++) {
				acc[i] = (x[i] > acc[i]) ? x[i] : acc[i];
			}
		}
	}
}

#endif /* VMCU_KERNELS_POOLING_H_ */
