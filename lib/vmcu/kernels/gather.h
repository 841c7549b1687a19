/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Brings windows of pixels into a tile, whatever the instruction set makes of a tile.
 *
 * Included by generated kernels after their instruction set, which defines vmcu_lane_t,
 * vmcu_lane_put(), vmcu_lane_fours(), vmcu_lane_fill(), vmcu_widen_rows() and
 * vmcu_widen_straight(), VMCU_LANES, of which each run of taps takes a multiple, and VMCU_PACKED,
 * the most taps of a window that is packed: see struct vmcu_mac_params.
 */

#ifndef VMCU_KERNELS_GATHER_H_
#define VMCU_KERNELS_GATHER_H_

#include "vectors.h"
#include "window.h"

/** Pixels of a tile. */
#define VMCU_TILE 4

/** Taps k .. k + count - 1 of a pixel of the tile, from bytes that lie side by side. */
VMCU_APART void vmcu_gather_bytes(vmcu_lane_t *t, int32_t pixels, int32_t lane, int32_t k,
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
 * @a lane of a tile of @a pixels. Each run of contiguous taps starts at whole lanes.
 */
VMCU_CALLED void vmcu_gather_lane(vmcu_lane_t *t, int32_t pixels, const struct vmcu_source *in,
				  int32_t row, int32_t pixel, int32_t channel, int32_t lane)
{
	const struct vmcu_window *window = in->window;
	const struct vmcu_tensor *tensor = in->tensor;
	const struct vmcu_taps rows =
		vmcu_taps(row, window->kernel_h, window->dilation_h, tensor->height);
	const int32_t across = in->run / in->depth;
	const int32_t pitch = (in->run + VMCU_LANES - 1) & -VMCU_LANES;
	const int32_t line = pitch * window->kernel_w / across;
	const int32_t step = window->dilation_h * tensor->width * tensor->channels;

	for (int32_t s = 0; s < line; s += pitch, pixel += window->dilation_w) {
		const int32_t first = (pixel < 0) ? 0 : pixel;
		const int32_t count = vmcu_min(pixel + across, tensor->width) - first;
		int32_t k = s;

		for (int32_t r = 0; r < window->kernel_h; r++, k += line) {
			const bool inside = r >= rows.begin && r < rows.end && count > 0;

			if (!inside || count < across) {
				vmcu_lane_fill(t, pixels, lane, k, in->zero, in->run);
			}
			if (inside && in->rows != NULL) {
				vmcu_gather_bytes(t, pixels, lane, k + (first - pixel) * in->depth,
						  in->rows + r * step + first * tensor->channels +
							  channel,
						  count * in->depth);
				continue;
			}
			for (int32_t done = 0, n; inside && done < count; done += n) {
				const int32_t y = vmcu_tap(&rows, r);

				n = vmcu_source_unsplit(in, y, first + done, count - done);
				vmcu_gather_bytes(t, pixels, lane,
						  k + (first + done - pixel) * in->depth,
						  vmcu_source_at(in, y, first + done) + channel,
						  n * in->depth);
			}
		}
	}
}

/** The windows of a tile's pixels in a row of the input: `step` bytes on if `straight`. */
struct vmcu_span {
	int32_t pixels; /**< from the first column to the last */
	bool inside;    /**< no column is padding, and the window's part of a row is one run */
	bool straight;  /**< all rows lie in memory as they do in the tensor */
	int32_t step;   /**< bytes from a row of the windows to the next */
	const int8_t *x;
};

/** Where windows of @a pixels pixels are whose first tap is at @a row and @a pixel. */
VMCU_INLINE struct vmcu_span vmcu_span_of(const struct vmcu_source *in, int32_t pixels, int32_t row,
					  int32_t pixel)
{
	const struct vmcu_window *window = in->window;
	const struct vmcu_tensor *tensor = in->tensor;
	const int32_t wide = window->kernel_w;
	const int32_t below = (window->kernel_h - 1) * window->dilation_h;
	struct vmcu_span span = {
		.pixels = (pixels - 1) * window->stride_w + (wide - 1) * window->dilation_w + 1,
		.step = window->dilation_h * tensor->width * tensor->channels,
	};

	span.inside =
		in->run == wide * in->depth && pixel >= 0 && pixel + span.pixels <= tensor->width;
	span.straight = span.inside && in->rows != NULL;
	if (span.straight) {
		span.x = in->rows + pixel * tensor->channels;
		return span;
	}
	if (span.inside && row >= 0 && row + below < tensor->height) {
		const uint32_t bytes = (uint32_t)((window->kernel_h - 1) * span.step +
						  span.pixels * tensor->channels);

		span.x = vmcu_source_at(in, row, pixel);
		span.straight = vmcu_straight(in->pool, tensor,
					      vmcu_place(tensor, (uint32_t)row, (uint32_t)pixel),
					      span.x, bytes);
	}
	return span;
}

/** Where the windows are in row @a y, which is inside; NULL if not in one piece. */
static inline const int8_t *vmcu_span_row(const struct vmcu_source *in,
					  const struct vmcu_span *span, int32_t y, int32_t pixel)
{
	if (!span->inside || vmcu_source_unsplit(in, y, pixel, span->pixels) < span->pixels) {
		return NULL;
	}
	return vmcu_source_at(in, y, pixel);
}

/** Copies @a count bytes of each of @a pixels, @a pitch bytes apart. */
VMCU_APART void vmcu_copy_runs(int8_t *to, const int8_t *from, int32_t pitch, int32_t pixels,
			       int32_t count)
{
	const int32_t last = count - 4;
	const int32_t second = vmcu_min(last, 4);

	for (; pixels > 0; pixels--, to += VMCU_PACKED, from += pitch) {
		if (last < 0) {
			/* Three bytes, which may be the same. */
			to[0] = from[0];
			to[count >> 1] = from[count >> 1];
			to[count - 1] = from[count - 1];
			continue;
		}
		if (last <= 8) {
			/* Three words, which may overlap. */
			uint32_t a, b, c;

			vmcu_copy_word(&a, from);
			vmcu_copy_word(&b, from + second);
			vmcu_copy_word(&c, from + last);
			vmcu_copy_word(to, &a);
			vmcu_copy_word(to + second, &b);
			vmcu_copy_word(to + last, &c);
			continue;
		}
		for (int32_t i = 0; i < count; i++) {
			to[i] = from[i];
		}
	}
}

/** Row @a y of a window, tap by tap; @a to holds the zero point. */
VMCU_CALLED void vmcu_gather_taps(int8_t *to, const struct vmcu_source *in, int32_t y,
				  int32_t pixel, int32_t channel)
{
	for (int32_t s = 0; s < in->window->kernel_w; s++, pixel += in->window->dilation_w) {
		const int8_t *x = vmcu_source_pixel(in, y, pixel);

		for (int32_t c = 0; c < in->depth; c++, to++) {
			if (x != NULL) {
				*to = x[channel + c];
			}
		}
	}
}

/** Widens windows whose taps lie side by side, without regard to fours. */
static inline void vmcu_gather_packed(vmcu_lane_t *t, int32_t pixels, const struct vmcu_source *in,
				      const struct vmcu_span *span, int32_t row, int32_t pixel,
				      int32_t channel)
{
	const struct vmcu_window *window = in->window;
	const int32_t line = window->kernel_w * in->depth;
	const int32_t pitch = window->stride_w * in->tensor->channels;
	const uint32_t zeros = (uint8_t)in->zero * 0x01010101U;
	const int8_t *x = span->x;
	uint32_t words[VMCU_TILE * VMCU_PACKED / sizeof(uint32_t)];
	int8_t *const taps = (int8_t *)words;
	int32_t k = 0;

	if (span->straight &&
	    vmcu_widen_straight(t, pixels, window, line, x + channel, span->step, pitch)) {
		return;
	}
	for (size_t i = 0; !span->straight && i < sizeof(words) / sizeof(words[0]); i++) {
		words[i] = zeros;
	}
	for (int32_t r = 0; r < window->kernel_h; r++, row += window->dilation_h, k += line) {
		if (span->straight) {
			vmcu_copy_runs(taps + k, x + channel, pitch, pixels, line);
			x += span->step;
			continue;
		}
		for (int32_t i = 0; i < pixels && vmcu_source_row(in, row); i++) {
			vmcu_gather_taps(taps + k + i * VMCU_PACKED, in, row,
					 pixel + i * window->stride_w, channel);
		}
	}
	/* Taps behind the last one are anything. */
	vmcu_widen_rows(t, pixels, taps, VMCU_PACKED, (k + 3) & ~3);
}

/** Bytes of a tile's windows, at most, that are put together with their padding. */
#define VMCU_EDGE 128

#if defined(VMCU_VECTORS)
/** Copies @a count bytes. */
VMCU_INLINE void vmcu_copy_vectors(int8_t *to, const int8_t *x, int32_t count)
{
	for (; count > 0; count -= 16, to += 16, x += 16) {
		const mve_pred16_t some = vctp8q((uint32_t)count);

		vstrbq_p_s8(to, vldrbq_z_s8(x, some), some);
	}
}
#endif

/**
 * A copy of a tile's windows with their padding, as if that were part of the image; false if they
 * are more than VMCU_EDGE bytes, or in several pieces.
 */
VMCU_CALLED bool vmcu_gather_edge(uint32_t *copy, const struct vmcu_source *in,
				  struct vmcu_span *span, int32_t row, int32_t pixel)
{
	const struct vmcu_window *window = in->window;
	const int32_t bytes = span->pixels * in->depth;
	const int32_t first = (pixel < 0) ? 0 : pixel;
	const int32_t count = vmcu_min(pixel + span->pixels, in->tensor->width) - first;
	int8_t *to = (int8_t *)copy + (first - pixel) * in->depth;

	/* Between windows there may be pixels that none of them has. */
	if (count <= 0 || window->stride_w > window->kernel_w ||
	    in->run != window->kernel_w * in->depth || in->depth != in->tensor->channels ||
	    bytes * window->kernel_h > VMCU_EDGE) {
		return false;
	}
#if defined(VMCU_VECTORS)
	for (int32_t i = 0; i < bytes * window->kernel_h; i += 16) {
		vstrbq_s8((int8_t *)copy + i, vdupq_n_s8((int8_t)in->zero));
	}
#else
	for (int32_t i = 0; 4 * i < bytes * window->kernel_h; i++) {
		copy[i] = (uint8_t)in->zero * 0x01010101U;
	}
#endif
	for (int32_t r = 0; r < window->kernel_h; r++, row += window->dilation_h, to += bytes) {
		const int8_t *x;

		if (!vmcu_source_row(in, row)) {
			continue;
		}
		if (in->rows != NULL) {
			x = in->rows + r * span->step + first * in->depth;
		} else if (vmcu_source_unsplit(in, row, first, count) < count) {
			return false;
		} else {
			x = vmcu_source_at(in, row, first);
		}
#if defined(VMCU_VECTORS)
		vmcu_copy_vectors(to, x, count * in->depth);
#else
		int32_t i = 0;

		for (; i + 4 <= count * in->depth; i += 4) {
			vmcu_copy_word(to + i, x + i);
		}
		for (; i < count * in->depth; i++) {
			to[i] = x[i];
		}
#endif
	}
	span->x = (const int8_t *)copy;
	span->step = bytes;
	span->inside = true;
	span->straight = true;
	return true;
}

/**
 * Widens the windows of a tile of @a pixels, the first of which begins at @a row and @a pixel, from
 * @a channel on.
 */
static void vmcu_gather_windows(vmcu_lane_t *t, int32_t pixels, const struct vmcu_source *in,
				int32_t row, int32_t pixel, int32_t channel)
{
	const struct vmcu_window *window = in->window;
	struct vmcu_span span = vmcu_span_of(in, pixels, row, pixel);
	const int32_t pitch = window->stride_w * in->tensor->channels;
	const int32_t line = VMCU_FOUR * (((in->run + VMCU_LANES - 1) & -VMCU_LANES) >> 2) * pixels;
	uint32_t copy[VMCU_EDGE / sizeof(uint32_t)];
	const bool edge = !span.straight && vmcu_gather_edge(copy, in, &span, row, pixel);
	const int8_t *x = span.x;
	int32_t r = 0;

	if (in->packed) {
		vmcu_gather_packed(t, pixels, in, &span, row, pixel, channel);
		return;
	}
	for (int32_t y = row; span.inside && r < window->kernel_h; y += window->dilation_h) {
		vmcu_lane_t *const to = t + r * line;

		if (!edge && !vmcu_source_row(in, y)) {
			for (int32_t lane = 0; lane < pixels; lane++) {
				vmcu_lane_fill(to, pixels, lane, 0, in->zero, in->run);
			}
		} else {
			if (!span.straight) {
				x = vmcu_span_row(in, &span, y, pixel);
			}
			if (x == NULL) {
				break;
			}
			vmcu_widen_rows(to, pixels, x + channel, pitch, in->run);
			x += span.step;
		}
		r++;
	}
	if (r < window->kernel_h) {
		for (int32_t lane = 0; lane < pixels; lane++) {
			vmcu_gather_lane(t, pixels, in, row, pixel + lane * window->stride_w,
					 channel, lane);
		}
	}
}

#endif /* VMCU_KERNELS_GATHER_H_ */
