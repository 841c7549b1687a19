/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Brings a pixel's window into a tile, whatever the instruction set makes of a tile.
 *
 * Included by generated kernels after their instruction set, which defines vmcu_lane_t,
 * vmcu_lane_put(), vmcu_lane_fours() and vmcu_lane_fill().
 */

#ifndef VMCU_KERNELS_GATHER_H_
#define VMCU_KERNELS_GATHER_H_

#include "window.h"

/** Taps k .. k + count - 1 of a pixel of the tile, from bytes that lie side by side. */
static inline void vmcu_gather_bytes(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
				     const int8_t *x, int32_t count)
{
	while (count > 0) {
		int32_t taken = 1;

		if ((k & 3) == 0 && count >= 4) {
			taken = count & ~3;
			vmcu_lane_fours(t, pixels, lane, k, x, taken);
		} else {
			vmcu_lane_put(t, pixels, lane, k, *x);
		}
		k += taken;
		x += taken;
		count -= taken;
	}
}

/**
 * Widens the window whose first tap is at @a row and @a pixel, from @a channel on, into pixel
 * @a lane of a tile of @a pixels. Each run of contiguous taps starts at a multiple of four.
 */
static void vmcu_gather(vmcu_lane_t *t, int32_t pixels, const struct vmcu_source *in, int32_t row,
			int32_t pixel, int32_t channel, int32_t lane)
{
	const struct vmcu_window *window = in->window;
	const struct vmcu_tensor *tensor = in->tensor;
	const struct vmcu_taps rows =
		vmcu_taps(row, window->kernel_h, window->dilation_h, tensor->height);
	const int32_t across = in->run / in->depth;
	const int32_t pitch = (in->run + 3) & ~3;
	const int32_t line = pitch * window->kernel_w / across;
	const int32_t step = window->dilation_h * tensor->width * tensor->channels;

	for (int32_t s = 0; s < line; s += pitch, pixel += window->dilation_w) {
		const int32_t first = (pixel < 0) ? 0 : pixel;
		const int32_t count = vmcu_min(pixel + across, tensor->width) - first;
		const uint32_t top = (uint32_t)vmcu_tap(&rows, rows.begin);
		const uint32_t place = vmcu_place(tensor, top, (uint32_t)first);
		const int8_t *at = vmcu_pixel(in->pool, tensor, top, (uint32_t)first);
		const bool straight = vmcu_straight(
			in->pool, tensor, place, at,
			(uint32_t)((rows.end - rows.begin - 1) * step + count * tensor->channels));
		const int8_t *x = at + channel;
		int32_t k = s;

		for (int32_t r = 0; r < window->kernel_h; r++, k += line) {
			const bool inside = r >= rows.begin && r < rows.end && count > 0;

			if (!inside || count < across) {
				vmcu_lane_fill(t, pixels, lane, k, in->zero, in->run);
			}
			for (int32_t done = 0, n = count; inside && done < count; done += n) {
				if (!straight) {
					const uint32_t y = (uint32_t)vmcu_tap(&rows, r);
					const uint32_t column = (uint32_t)(first + done);

					n = vmcu_unsplit(tensor, y, column, count - done);
					x = vmcu_pixel(in->pool, tensor, y, column) + channel;
				}
				vmcu_gather_bytes(t, pixels, lane,
						  k + (first + done - pixel) * in->depth, x,
						  n * in->depth);
			}
			x += inside ? step : 0;
		}
	}
}

#endif /* VMCU_KERNELS_GATHER_H_ */
