/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Code that is not worth its size in every kernel.
 *
 * Included by generated kernels after the instructions that it is made of.
 */

#ifndef VMCU_KERNELS_CALLED_H_
#define VMCU_KERNELS_CALLED_H_

#include "vectors.h"

#if defined(VMCU_OWN_RUN_OF)
/** All blocks of a tile, of @a size channels each, whatever they are. */
VMCU_CALLED const uint8_t *vmcu_blocks(const struct vmcu_mac_params *p, const vmcu_lane_t *tile,
				       const uint8_t *w, int8_t *out, int32_t pitch, int32_t size,
				       int32_t pixels, vmcu_run_of *run)
{
	int32_t acc[VMCU_BLOCK_SUMS];
	uint32_t counts;

	do {
		int32_t whole, some, left;

		counts = vmcu_segment(&w);
		some = vmcu_segment_taken(counts, size);
		whole = some & -size;
		some -= whole;
		if (whole > 0) {
			w = run(w, tile, p->steps, out, whole, vmcu_half(p), pitch, pixels);
			out += whole;
		}
		left = vmcu_segment_exact(counts);
		for (; some > 0 || left > 0; some -= size, out += size) {
#if VMCU_CHANNELS_JOINED
			if (some <= 0 && vmcu_segment_apart(counts)) {
				vmcu_sums_apart(acc, tile, p->steps, size, pixels, &w);
			} else
#endif
			{
				w = run(w, tile, p->steps, (int8_t *)acc, 0, 0, 0, pixels);
				vmcu_seconds(acc, size, pixels);
			}
			if (some > 0) {
				w = vmcu_store_some(p, acc, size, pixels, w, out, pitch,
						    vmcu_min(some, size));
			} else {
				w = vmcu_exact_block(p, acc, size, pixels, w, out, pitch,
						     vmcu_segment_left(counts, left, size));
				left--;
			}
		}
	} while (vmcu_segment_more(counts));
	return w;
}
#endif

#if defined(VMCU_PAIRED)
/** All blocks of a tile of paired pixels, of @a size channels each, whatever they are. */
VMCU_APART const uint8_t *vmcu_paired_blocks(const struct vmcu_mac_params *p,
					     const vmcu_lane_t *tile, const uint8_t *w, int8_t *out,
					     int32_t pitch, int32_t size, int32_t pixels)
{
	vmcu_paired_run *run = VMCU_PAIRED(4x2);
	int32_t acc[8];
	uint32_t counts;

	if (pixels == 2) {
		run = (size == 2) ? VMCU_PAIRED(2x2) : VMCU_PAIRED(2x4);
	} else if (pixels == 1) {
		run = (size == 2) ? VMCU_PAIRED(1x2) : VMCU_PAIRED(1x4);
	}
	do {
		int32_t whole, some, left, code;

		counts = vmcu_segment(&w);
		/* Taps that are added up together, see language/packing.py. */
		code = (int32_t)((counts >> 14) & 3U);
		counts &= ~(3U << 14);
		some = vmcu_segment_taken(counts, size);
		whole = some & -size;
		some -= whole;
		if (whole > 0) {
			w = run(w, tile, p->steps, out, whole, vmcu_half(p), pitch, code);
			out += whole;
		}
		left = vmcu_segment_exact(counts);
		for (; some > 0 || left > 0; out += size) {
			w = run(w, tile, p->steps, (int8_t *)acc, 0, 0, 0, code);
			if (some > 0) {
				w = vmcu_store_some(p, acc, size, pixels, w, out, pitch, some);
				some = 0;
			} else {
				w = vmcu_exact_block(p, acc, size, pixels, w, out, pitch,
						     vmcu_segment_left(counts, left, size));
				left--;
			}
		}
	} while (vmcu_segment_more(counts));
	return w;
}
#endif

#if !defined(VMCU_OWN_SUMS_DENSE)
/** vmcu_dense_sums() of channels that are joined or not, a few taps at a time, not taken apart. */
VMCU_CALLED const uint8_t *vmcu_dense_some(int32_t *sums, const struct vmcu_source *in, int32_t row,
					   int32_t pixel, int32_t channel, const uint8_t *w,
					   bool joined)
{
	vmcu_bias_dense(sums, &w);
	for (int32_t r = 0; r < vmcu_source_rows(in); r++, row += in->window->dilation_h) {
		const int8_t *x = vmcu_source_taps(in, row, pixel) + channel;

		for (int32_t left = in->run; left > 0; left -= 4, x += 4) {
			vmcu_dot_dense_some(sums, x, vmcu_min(left, 4), joined, &w);
		}
	}
	return w;
}

/**
 * The sums of a block of channels of a pixel of a fully connected layer: @a in->run taps of each
 * row of its window. Returns where the flash stream goes on.
 */
VMCU_DENSE_SUMS const uint8_t *vmcu_dense_sums(const struct vmcu_mac_params *p, int32_t *sums,
					       const struct vmcu_source *in, int32_t row,
					       int32_t pixel, int32_t channel, const uint8_t *w)
{
	int8_t *to = (int8_t *)sums;
	int32_t acc[4];

	if (!VMCU_DENSE_IN_PLACE) {
		const int8_t *x = vmcu_source_taps(in, row, pixel) + channel;

		if (vmcu_dense_whole(p, in, x, &w, &to, 0) == 0) {
			return w;
		}
		w = vmcu_dense_some(acc, in, row, pixel, channel, w, true);
	} else {
		vmcu_bias_dense(acc, &w);
		for (int32_t r = 0; r < vmcu_source_rows(in); r++, row += in->window->dilation_h) {
			const int8_t *x = vmcu_source_taps(in, row, pixel) + channel;
			int32_t left = in->run;

			for (; left >= 8; left -= 8, x += 8) {
				vmcu_dot_dense(acc, x, &w);
				vmcu_dot_dense(acc, x + 4, &w);
			}
			if (left >= 4) {
				vmcu_dot_dense(acc, x, &w);
				left -= 4;
				x += 4;
			}
			vmcu_dot_dense_tail(acc, x, left, &w);
		}
	}
	sums[0] = acc[0];
	sums[1] = vmcu_second(acc[1], acc[0]);
	sums[2] = acc[2];
	sums[3] = vmcu_second(acc[3], acc[2]);
	return w;
}
#endif

#if defined(VMCU_VECTORS)
#include "product_vectors.h"
#else
/** Adds `count` taps times as many taps to a sum. */
VMCU_CALLED int32_t vmcu_product_row(int32_t sum, const int8_t *x, const int8_t *y, int32_t count,
				     int32_t x_zero)
{
	int32_t acc[] = {sum};

	for (; count >= 4; count -= 4, x += 4, y += 4) {
		vmcu_dot_row_4(acc, x, y, x_zero);
	}
	for (; count > 0; count--) {
		acc[0] = vmcu_sum(acc[0], (*x++ - x_zero) * *y++);
	}
	return acc[0];
}

/** Adds `count` taps times as many rows of `lanes` channels, `pitch` bytes apart, to four sums. */
VMCU_CALLED void vmcu_product_columns(int32_t *sums, const int8_t *x, const int8_t *y,
				      int32_t count, int32_t pitch, int32_t lanes, int32_t x_zero)
{
	int32_t acc[] = {sums[0], sums[1], sums[2], sums[3]};

	if (lanes == 4) {
		for (; count > 0; count--, x++, y += pitch) {
			vmcu_dot_column_4(acc, x, y, x_zero);
		}
		__builtin_memcpy(sums, acc, sizeof(acc));
		return;
	}
	for (; count > 0; count--, x++, y += pitch) {
		for (int32_t i = 0; i < lanes; i++) {
			sums[i] = vmcu_sum(sums[i], (*x - x_zero) * y[i]);
		}
	}
}
#endif

#endif /* VMCU_KERNELS_CALLED_H_ */
