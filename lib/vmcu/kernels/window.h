/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The taps of a window inside the image, and the scratch of a sum over an image.
 */

#ifndef VMCU_WINDOW_H_
#define VMCU_WINDOW_H_

#include <stdint.h>

#include <vmcu/access.h>
#include <vmcu/kernels.h>

/** Along one axis, taps begin to end (excluded) are inside; tap k reads first + k * dilation. */
struct vmcu_taps {
	int32_t first;
	int32_t dilation;
	int32_t begin;
	int32_t end;
};

/** The taps of a window of @a kernel taps at @a first over an axis of @a size elements. */
struct vmcu_taps vmcu_taps(int32_t first, int32_t kernel, int32_t dilation, int32_t size);

/** Input index that tap @a k reads. */
static inline int32_t vmcu_tap(const struct vmcu_taps *taps, int32_t k)
{
	return taps->first + k * taps->dilation;
}

/** Bytes of the sum of a channel of @a image: two where they hold its pixels whatever these are. */
static inline uint32_t vmcu_sum_bytes(const struct vmcu_tensor *image)
{
	return ((uint32_t)image->height * image->width <= 256U) ? 2U : 4U;
}

#endif /* VMCU_WINDOW_H_ */
