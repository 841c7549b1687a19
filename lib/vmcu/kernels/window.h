/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Which taps of a window fall inside the image.
 */

#ifndef VMCU_WINDOW_H_
#define VMCU_WINDOW_H_

#include <stdint.h>

#include <vmcu/kernels.h>

/** Along one axis, taps begin to end (excluded) are inside; tap k reads first + k * dilation. */
struct vmcu_taps {
	int32_t first;
	int32_t dilation;
	int32_t begin;
	int32_t end;
};

/** The taps of a window of @a kernel taps at @a first over an axis of @a size elements. */
static inline struct vmcu_taps vmcu_taps(int32_t first, int32_t kernel, int32_t dilation,
					 int32_t size)
{
	struct vmcu_taps taps = {.first = first, .dilation = dilation, .begin = 0, .end = kernel};

	if (first < 0) {
		taps.begin = (dilation - 1 - first) / dilation;
	}
	if (first + (kernel - 1) * dilation >= size) {
		taps.end = (first < size) ? (size - first + dilation - 1) / dilation : 0;
	}
	if (taps.begin > taps.end) {
		taps.begin = taps.end;
	}
	return taps;
}

static inline struct vmcu_taps vmcu_taps_y(const struct vmcu_window *w, int32_t y, int32_t height)
{
	return vmcu_taps(y * w->stride_h - w->pad_top, w->kernel_h, w->dilation_h, height);
}

static inline struct vmcu_taps vmcu_taps_x(const struct vmcu_window *w, int32_t x, int32_t width)
{
	return vmcu_taps(x * w->stride_w - w->pad_left, w->kernel_w, w->dilation_w, width);
}

/** Input index that tap @a k reads. */
static inline int32_t vmcu_tap(const struct vmcu_taps *taps, int32_t k)
{
	return taps->first + k * taps->dilation;
}

#endif /* VMCU_WINDOW_H_ */
