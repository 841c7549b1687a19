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

/**
 * Pieces of the tile of the largest window that has a kernel of its own: a run for every phase of
 * three pairs of rows, one for the last row. A ring is no smaller than what a strip looks at, so
 * one row at most is split in a strip; that adds two.
 */
#define VMCU_BAND_PIECES 9

/**
 * A run of words of a tile that hold more than padding, each made from input pixels a and b: first
 * maybe one whose a is padding, then those with both inside the image, then maybe one whose b is
 * padding.
 */
struct vmcu_piece {
	uint32_t *u;
	const int8_t *a; /**< the first a inside, of channel 0 */
	const int8_t *b;
	int32_t pitch_a; /**< from a word's a to the next word's; 0: a is padding in all of them */
	int32_t pitch_b;
	uint16_t middle;
	uint8_t head;
	uint8_t tail;
};

/** What is read for every four channels of a strip; see targets/portable/depthwise.py. */
struct vmcu_band {
	uint32_t zeros; /**< four times what stands for padding */
	int32_t plane;  /**< words of a tile from channels 0 and 1 to channels 2 and 3 */
	int32_t width;
	bool splits; /**< rows may be split */
	struct vmcu_piece *end;
	struct vmcu_piece pieces[VMCU_BAND_PIECES];
};

/** How many of `words` pixels from `pixel` on, `step` apart, lie in front of `end`. */
static inline int32_t vmcu_before(int32_t pixel, int32_t end, int32_t step, int32_t words)
{
	/* Steps are one or two. */
	const int32_t count = (end - pixel + step - 1) >> (step - 1);

	return (count < 0) ? 0 : vmcu_min(count, words);
}

static void vmcu_band_padding(uint32_t *u, const struct vmcu_band *band, int32_t words)
{
	for (; words > 0; words--, u++) {
		u[0] = band->zeros;
		u[band->plane] = band->zeros;
	}
}

/** Words from pixels `step` apart, a's in one row and b's in another from pixel + `apart` on. */
struct vmcu_run {
	int32_t row_a;
	int32_t row_b;
	int32_t pixel;
	int32_t apart;
	int32_t step;
};

/**
 * The next words of a run, in front of its rows' splits. Its padding is written now: it stays for
 * all channels.
 */
static void vmcu_band_piece(struct vmcu_band *band, uint32_t *u, const struct vmcu_source *in,
			    const struct vmcu_run *run, int32_t words)
{
	const int32_t pixel = run->pixel, step = run->step;
	const int32_t outside_a = vmcu_before(pixel, 0, step, words);
	const int32_t outside_b = vmcu_before(pixel + run->apart, 0, step, words);
	const int32_t end_a = vmcu_before(pixel, band->width, step, words);
	const int32_t end_b = vmcu_before(pixel + run->apart, band->width, step, words);
	const bool has_a = vmcu_source_row(in, run->row_a);
	const bool has_b = vmcu_source_row(in, run->row_b);
	const int8_t *zeros = (const int8_t *)&band->zeros;
	struct vmcu_piece *piece = band->end;

	if ((!has_a && !has_b) || outside_b == end_a) {
		vmcu_band_padding(u, band, words);
		return;
	}
	vmcu_band_padding(u, band, outside_b);
	vmcu_band_padding(u + end_a, band, words - end_a);
	*piece = (struct vmcu_piece){
		.u = u + outside_b,
		.a = zeros,
		.b = zeros,
		.head = (uint8_t)(outside_a - outside_b),
		.middle = (uint16_t)(end_b - outside_a),
		.tail = (uint8_t)(end_a - end_b),
	};
	if (has_a) {
		piece->a = vmcu_source_at(in, run->row_a, pixel + outside_a * step);
		piece->pitch_a = step * in->tensor->channels;
	}
	if (has_b) {
		piece->b = vmcu_source_at(in, run->row_b, pixel + run->apart + outside_b * step);
		piece->pitch_b = step * in->tensor->channels;
	}
	band->end++;
}

/** How many words, from `pixel` of a row on, precede the row's split. */
static int32_t vmcu_band_unsplit(const struct vmcu_band *band, const struct vmcu_source *in,
				 int32_t row, int32_t pixel, int32_t step, int32_t words)
{
	const int32_t first = (pixel < 0) ? 0 : pixel;
	const int32_t pixels = band->width - first;
	int32_t count;

	if (pixels <= 0 || !vmcu_source_row(in, row)) {
		return words;
	}
	count = vmcu_source_unsplit(in, row, first, pixels);
	return (count == pixels) ? words : vmcu_before(pixel, first + count, step, words);
}

/** A run of words, in as many pieces as its rows. */
static void vmcu_band_run(struct vmcu_band *band, uint32_t *u, const struct vmcu_source *in,
			  struct vmcu_run run, int32_t words)
{
	while (band->splits && words > 0) {
		int32_t part = words;

		part = vmcu_band_unsplit(band, in, run.row_a, run.pixel, run.step, part);
		part = vmcu_band_unsplit(band, in, run.row_b, run.pixel + run.apart, run.step,
					 part);
		vmcu_band_piece(band, u, in, &run, part);
		u += part;
		words -= part;
		run.pixel += part * run.step;
	}
	if (words > 0) {
		vmcu_band_piece(band, u, in, &run, words);
	}
}

/** A strip of `wide` output pixels whose first column is `pixel`. */
static void vmcu_band_start(struct vmcu_band *band, const struct vmcu_call *call, uint32_t *tile,
			    int32_t pixel, int32_t wide)
{
	const struct vmcu_mac_params *p = call->layer->params;
	const struct vmcu_source in = vmcu_mac_source(call, p);
	const int32_t taps = p->window.kernel_h;
	const int32_t step = p->window.stride_w;
	/* A tile's places are those of a whole strip. */
	const int32_t phase = p->steps - 1 + ((taps + step - 1) >> (step - 1));
	const int32_t row = (step == 1) ? phase : phase + p->steps - 1 + (taps >> 1);
	const int32_t even = phase + wide - p->steps;
	const uint32_t row_bytes = (uint32_t)in.tensor->width * in.tensor->channels;
	struct vmcu_run run = {.pixel = pixel, .step = step};

	band->zeros = (uint8_t)p->input_zero * 0x01010101U;
	band->plane = row * (taps >> 1) + ((p->steps * step + taps + 1 - step) >> 1);
	/* What is behind the strip's last column counts as padding: it may be gone already. */
	band->width = vmcu_min(in.tensor->width, pixel + (wide - 1) * step + taps);
	band->splits = in.tensor->ring % row_bytes != 0U || in.tensor->phase % row_bytes != 0U;
	band->end = band->pieces;
	run.row_a = call->y * p->window.stride_h - p->window.pad_top;
	for (int32_t r = taps; r > 1; r -= 2, tile += row) {
		run.row_b = run.row_a + p->window.dilation_h;
		vmcu_band_run(band, tile, &in, run, even);
		if (step > 1) {
			run.pixel = pixel + 1;
			vmcu_band_run(band, tile + phase, &in, run, wide - 1 + (taps >> 1));
			run.pixel = pixel;
		}
		run.row_a = run.row_b + p->window.dilation_h;
	}
	run.row_b = run.row_a;
	run.apart = 1;
	run.step = 2;
	/* The last word's second column may be one too many; it is padding and its weight zero. */
	vmcu_band_run(band, tile, &in, run, (wide * step + taps + 1 - step) >> 1);
}

/** Fewer than four channels of a pixel. */
static uint32_t vmcu_few(const int8_t *x, int32_t lanes)
{
	const uint8_t *byte = (const uint8_t *)x;
	uint16_t pair;

	if (lanes == 1) {
		return byte[0];
	}
	__builtin_memcpy(&pair, x, sizeof(pair));
	return (lanes == 2) ? pair : pair | (uint32_t)byte[2] << 16;
}

/** The tensor's last channels, fewer than four, which may be the last bytes of the pool. */
VMCU_APART void vmcu_stage_few(const struct vmcu_band *band, int32_t channel, int32_t lanes)
{
	for (const struct vmcu_piece *piece = band->pieces; piece != band->end; piece++) {
		const int32_t last_b = piece->head + piece->middle;
		const int8_t *a = piece->a + ((piece->pitch_a == 0) ? 0 : channel);
		const int8_t *b = piece->b + ((piece->pitch_b == 0) ? 0 : channel);
		uint32_t *u = piece->u;

		for (int32_t i = 0; i < last_b + piece->tail; i++, u++) {
			uint32_t pixel_a = band->zeros;
			uint32_t pixel_b = band->zeros;

			if (i >= piece->head) {
				pixel_a = vmcu_few(a, lanes);
				a += piece->pitch_a;
			}
			if (i < last_b) {
				pixel_b = vmcu_few(b, lanes);
				b += piece->pitch_b;
			}
			u[0] = (pixel_a & 0xffffU) | pixel_b << 16;
			u[band->plane] = pixel_a >> 16 | (pixel_b & 0xffff0000U);
		}
	}
}

/** Channels of a strip's columns into its tile. */
static void vmcu_stage_band(const struct vmcu_band *band, int32_t channel, int32_t lanes)
{
	const struct vmcu_piece *piece = band->pieces;

	if (lanes < 4) {
		vmcu_stage_few(band, channel, lanes);
		return;
	}
	for (; piece != band->end; piece++) {
		const int8_t *a = piece->a + ((piece->pitch_a == 0) ? 0 : channel);
		const int8_t *b = piece->b + ((piece->pitch_b == 0) ? 0 : channel);
		uint32_t *u = piece->u;
		uint32_t *v = u + band->plane;

		if (piece->head > 0) {
			const int8_t *zeros = (const int8_t *)&band->zeros;

			vmcu_interleave(&u, &v, &zeros, 0, &b, piece->pitch_b, 1);
		}
		vmcu_interleave(&u, &v, &a, piece->pitch_a, &b, piece->pitch_b, piece->middle);
		if (piece->tail > 0) {
			const int8_t *zeros = (const int8_t *)&band->zeros;

			vmcu_interleave(&u, &v, &a, 0, &zeros, 0, 1);
		}
	}
}

/** A channel of some pixels, whatever its constants, into a patch. */
VMCU_APART void vmcu_finish_any(const struct vmcu_mac_params *p, const int32_t *acc, int32_t pixels,
				const uint8_t *w, int8_t *patch)
{
	const int32_t *c = (const int32_t *)w;

	if (!vmcu_are_lines(p, c[1])) {
		(void)vmcu_store_any(p, acc, 1, pixels, w, patch, 4, 1);
		return;
	}

	const struct vmcu_line line = vmcu_line(c[0], c[1], p->output_zero);

	for (int32_t i = 0; i < pixels; i++) {
		patch[4 * i] = vmcu_saturate8(vmcu_on_line(line, acc[i]));
	}
}

/** Those pixels and channels of a patch that exist. */
VMCU_APART void vmcu_store_part(const int32_t *patch, int8_t *out, int32_t pitch, int32_t wide,
				int32_t lanes)
{
	for (; wide > 0; wide--, patch++, out += pitch) {
		const int8_t *bytes = (const int8_t *)patch;

		if (lanes == 4) {
			__builtin_memcpy(out, bytes, 4);
			continue;
		}
		if (lanes != 1) {
			__builtin_memcpy(out, bytes, 2);
		}
		if (lanes != 2) {
			out[lanes - 1] = bytes[lanes - 1];
		}
	}
}

#endif /* VMCU_KERNELS_BAND_H_ */
