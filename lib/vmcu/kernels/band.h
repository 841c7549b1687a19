/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The input rows under one output row, and how depthwise convolutions read them.
 *
 * Included by generated kernels after their instruction set, which defines vmcu_interleave().
 */

#ifndef VMCU_KERNELS_BAND_H_
#define VMCU_KERNELS_BAND_H_

/** Rows of the largest window that has a kernel of its own. */
#define VMCU_BAND_ROWS 7

/** What a tile of a depthwise convolution is made from; see isa/depthwise_instructions.py. */
struct vmcu_band {
	const int8_t *rows[VMCU_BAND_ROWS]; /**< NULL in the padding */
	uint32_t zeros;                     /**< four times what stands for padding */
	int32_t width;
	int32_t channels;
	int32_t taps;
	int32_t stride;
	int32_t phase; /**< words of a tile before those of odd columns */
	int32_t row;   /**< words of a tile from two rows to the next two */
	int32_t plane; /**< words of a tile from channels 0 and 1 to channels 2 and 3 */
};

static inline struct vmcu_band vmcu_band(const struct vmcu_call *call,
					 const struct vmcu_mac_params *p, int32_t phase,
					 int32_t row, int32_t plane)
{
	const struct vmcu_source in = vmcu_mac_source(call, p);
	struct vmcu_band band = {
		.zeros = (uint8_t)p->input_zero * 0x01010101U,
		.width = in.tensor->width,
		.channels = in.tensor->channels,
		.taps = p->window.kernel_h,
		.stride = p->window.stride_w,
		.phase = phase,
		.row = row,
		.plane = plane,
	};
	int32_t y = call->y * p->window.stride_h - p->window.pad_top;

	for (int32_t i = 0; i < band.taps; i++, y += p->window.dilation_h) {
		band.rows[i] = vmcu_source_row(&in, y);
	}
	return band;
}

/** Up to four channels of a pixel; what stands for padding outside the image. */
static uint32_t vmcu_band_pixel(const struct vmcu_band *in, const int8_t *row, int32_t x,
				int32_t channel, int32_t lanes)
{
	uint32_t word = in->zeros;

	if (row != NULL && x >= 0 && x < in->width) {
		__builtin_memcpy(&word, row + x * in->channels + channel, (size_t)lanes);
	}
	return word;
}

/** Input pixels that every `step`-th word of a tile is made from: the first of row a and of b. */
struct vmcu_band_pair {
	const int8_t *a;
	const int8_t *b;
	int32_t xa;
	int32_t xb;
	int32_t step;
};

/** Words first to last (excluded), near the image's border or of fewer than four channels. */
static void vmcu_stage_edge(uint32_t *u, const struct vmcu_band *in,
			    const struct vmcu_band_pair *pair, int32_t channel, int32_t lanes,
			    int32_t first, int32_t last)
{
	for (int32_t i = first; i < last; i++) {
		const int32_t x = i * pair->step;
		const uint32_t a = vmcu_band_pixel(in, pair->a, pair->xa + x, channel, lanes);
		const uint32_t b = vmcu_band_pixel(in, pair->b, pair->xb + x, channel, lanes);

		vmcu_interleave(&u[i], &u[i + in->plane], (const int8_t *)&a, 0, (const int8_t *)&b,
				0, 1);
	}
}

/** `words` words of both planes. */
static void vmcu_stage_words(uint32_t *u, const struct vmcu_band *in,
			     const struct vmcu_band_pair *pair, int32_t channel, int32_t lanes,
			     int32_t words)
{
	/* Steps are one or two: the words before the image, and those not behind it. */
	const int32_t half = pair->step - 1;
	int32_t first = (pair->xa < 0) ? (half - pair->xa) >> half : 0;
	int32_t last = vmcu_min((in->width - pair->xb + half) >> half, words);
	const int8_t *a = (const int8_t *)&in->zeros;
	const int8_t *b = a;
	int32_t pitch_a = 0;
	int32_t pitch_b = 0;

	if (lanes < 4 || first >= last) {
		vmcu_stage_edge(u, in, pair, channel, lanes, 0, words);
		return;
	}
	if (pair->a != NULL) {
		pitch_a = pair->step * in->channels;
		a = pair->a + pair->xa * in->channels + first * pitch_a + channel;
	}
	if (pair->b != NULL) {
		pitch_b = pair->step * in->channels;
		b = pair->b + pair->xb * in->channels + first * pitch_b + channel;
	}
	vmcu_stage_edge(u, in, pair, channel, lanes, 0, first);
	vmcu_interleave(u + first, u + in->plane + first, a, pitch_a, b, pitch_b, last - first);
	vmcu_stage_edge(u, in, pair, channel, lanes, last, words);
}

/** The columns from `pixel` on under `wide` output pixels. */
static void vmcu_stage_band(uint32_t *tile, const struct vmcu_band *in, int32_t pixel,
			    int32_t channel, int32_t wide, int32_t lanes)
{
	const int32_t half = in->stride - 1;
	const int8_t *const *rows = in->rows;
	struct vmcu_band_pair pair;

	for (int32_t r = in->taps; r > 1; r -= 2, rows += 2, tile += in->row) {
		pair = (struct vmcu_band_pair){rows[0], rows[1], pixel, pixel, in->stride};
		vmcu_stage_words(tile, in, &pair, channel, lanes,
				 wide - 1 + ((in->taps + half) >> half));
		if (half > 0) {
			pair.xa++;
			pair.xb++;
			vmcu_stage_words(tile + in->phase, in, &pair, channel, lanes,
					 wide - 1 + (in->taps >> 1));
		}
	}
	/* The last word's second column may be one too many; its weight is zero. */
	pair = (struct vmcu_band_pair){rows[0], rows[0], pixel, pixel + 1, 2};
	vmcu_stage_words(tile, in, &pair, channel, lanes,
			 (((wide - 1) << half) + in->taps + 1) >> 1);
}

/** Adds a row of taps of up to four channels to acc; returns where the flash stream goes on. */
static const uint8_t *vmcu_tap_row(int32_t *acc, const struct vmcu_source *in, int32_t row,
				   int32_t pixel, int32_t channel, int32_t lanes, int32_t spread,
				   const uint8_t *w)
{
	const int8_t *line = vmcu_source_row(in, row);
	const int8_t *v = (const int8_t *)w;

	for (int32_t s = 0; s < in->window->kernel_w; s++, v += 4, pixel += in->window->dilation_w) {
		if (line == NULL || pixel < 0 || pixel >= in->tensor->width) {
			for (int32_t i = 0; i < lanes; i++) {
				acc[i] = vmcu_mac(acc[i], in->zero, v[i]);
			}
			continue;
		}
		const int8_t *x = line + pixel * in->tensor->channels + channel;

		for (int32_t i = 0; i < lanes; i++) {
			acc[i] = vmcu_mac(acc[i], x[i * spread], v[i]);
		}
	}
	return (const uint8_t *)v;
}

#endif /* VMCU_KERNELS_BAND_H_ */
