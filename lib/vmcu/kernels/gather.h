/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Brings a pixel's window into a tile, whatever the instruction set makes of a tile.
 *
 * Included by generated kernels after their instruction set, which defines vmcu_lane_t,
 * vmcu_lane_put() and vmcu_lane_run().
 */

#ifndef VMCU_KERNELS_GATHER_H_
#define VMCU_KERNELS_GATHER_H_

/** A run that reaches into the padding, or that the row's split cuts in two: tap by tap. */
static void vmcu_gather_edge(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
			     const struct vmcu_source *in, int32_t row, int32_t pixel,
			     int32_t channel)
{
	const int32_t last = k + in->run;

	for (; k < last; pixel++) {
		const int8_t *x = vmcu_source_pixel(in, row, pixel);

		for (int32_t c = 0; c < in->depth; c++, k++) {
			vmcu_lane_put(t, pixels, lane, k, (x != NULL) ? x[channel + c] : in->zero);
		}
	}
}

/** The pixels under a run if they lie side by side in the pool, else NULL. */
static inline const int8_t *vmcu_gather_run(const struct vmcu_source *in, int32_t row,
					    int32_t pixel, int32_t across)
{
	const struct vmcu_tensor *tensor = in->tensor;
	uint32_t place;

	if (!vmcu_source_row(in, row) || pixel < 0 || pixel + across > tensor->width) {
		return NULL;
	}
	place = vmcu_place(tensor, (uint32_t)row, (uint32_t)pixel);
	if (place + (uint32_t)across * tensor->channels > tensor->ring) {
		return NULL;
	}
	return vmcu_byte(in->pool, tensor, place);
}

/**
 * Widens the window whose first tap is at @a row and @a pixel, from @a channel on, into pixel
 * @a lane of a tile of @a pixels. Each run of contiguous taps starts at a multiple of four.
 */
static void vmcu_gather(vmcu_lane_t *t, int32_t pixels, const struct vmcu_source *in, int32_t row,
			int32_t pixel, int32_t channel, int32_t lane)
{
	const struct vmcu_window *window = in->window;
	const int32_t across = in->run / in->depth;
	int32_t k = 0;

	for (int32_t r = 0; r < window->kernel_h; r++, row += window->dilation_h) {
		int32_t at = pixel;

		for (int32_t s = 0; s < window->kernel_w; s += across, at += window->dilation_w) {
			const int8_t *x = vmcu_gather_run(in, row, at, across);

			if (x != NULL) {
				vmcu_lane_run(t, pixels, lane, k, x + channel, in->run);
			} else {
				vmcu_gather_edge(t, pixels, lane, k, in, row, at, channel);
			}
			k += (in->run + 3) & ~3;
		}
	}
}

#endif /* VMCU_KERNELS_GATHER_H_ */
