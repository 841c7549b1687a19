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

/** Rows of that window. */
#define VMCU_BAND_ROWS 7

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

/** Where a tile's words are: those of odd columns, of two rows, of a plane. */
struct vmcu_band_places {
	int32_t phase;
	int32_t row;
	int32_t even; /**< words of a strip's even columns, or of all of them */
	int32_t odd;
	int32_t line; /**< of the last row, for two columns each */
};

/** A strip whose rows may be split. */
VMCU_CALLED void vmcu_band_search(struct vmcu_band *band, const struct vmcu_call *call,
				  uint32_t *tile, int32_t pixel,
				  const struct vmcu_band_places *places)
{
	const struct vmcu_mac_params *p = call->layer->params;
	const struct vmcu_source in = vmcu_mac_source(call, p);
	const int32_t step = p->window.stride_w;
	struct vmcu_run run = {.pixel = pixel, .step = step};

	run.row_a = call->y * p->window.stride_h - p->window.pad_top;
	for (int32_t r = p->window.kernel_h; r > 1; r -= 2, tile += places->row) {
		run.row_b = run.row_a + p->window.dilation_h;
		vmcu_band_run(band, tile, &in, run, places->even);
		if (step > 1) {
			run.pixel = pixel + 1;
			vmcu_band_run(band, tile + places->phase, &in, run, places->odd);
			run.pixel = pixel;
		}
		run.row_a = run.row_b + p->window.dilation_h;
	}
	run.row_b = run.row_a;
	run.apart = 1;
	run.step = 2;
	vmcu_band_run(band, tile, &in, run, places->line);
}

/**
 * The first pixel inside the image of each row under a strip, NULL where a row is padding; false
 * if one is split. @a first is that pixel's column, @a bytes are those of all inside.
 */
static bool vmcu_band_rows(const int8_t **rows, const struct vmcu_call *call,
			   const struct vmcu_tensor *t, int32_t first, int32_t bytes)
{
	const struct vmcu_mac_params *p = call->layer->params;
	int32_t y = call->y * p->window.stride_h - p->window.pad_top;

	for (int32_t r = p->window.kernel_h; r > 0; r--, rows++, y += p->window.dilation_h) {
		*rows = NULL;
		if (y >= 0 && y < t->height) {
			if (vmcu_place(t, (uint32_t)y, (uint32_t)first) + (uint32_t)bytes > t->ring) {
				return false;
			}
			*rows = vmcu_pixel(call->pool, t, (uint32_t)y, (uint32_t)first);
		}
	}
	return true;
}

/** Words of which the first @a before and those from @a end on are padding; a's and b's. */
static void vmcu_band_words(struct vmcu_band *band, uint32_t *u, int32_t words,
			    const int8_t *a, const int8_t *b, int32_t before, int32_t end,
			    int32_t pitch)
{
	const int8_t *zeros = (const int8_t *)&band->zeros;

	if ((a == NULL && b == NULL) || before >= end) {
		vmcu_band_padding(u, band, words);
		return;
	}
	vmcu_band_padding(u, band, before);
	vmcu_band_padding(u + end, band, words - end);
	*band->end++ = (struct vmcu_piece){
		.u = u + before,
		.a = (a != NULL) ? a : zeros,
		.b = (b != NULL) ? b : zeros,
		.pitch_a = (a != NULL) ? pitch : 0,
		.pitch_b = (b != NULL) ? pitch : 0,
		.middle = (uint16_t)(end - before),
	};
}

/** A strip of `wide` output pixels whose first column is `pixel`. */
static void vmcu_band_start(struct vmcu_band *band, const struct vmcu_call *call, uint32_t *tile,
			    int32_t pixel, int32_t wide)
{
	const struct vmcu_mac_params *p = call->layer->params;
	const struct vmcu_tensor *t = vmcu_call_input(call, 0);
	const int32_t taps = p->window.kernel_h;
	const int32_t step = p->window.stride_w;
	const int32_t channels = t->channels;
	const int32_t count = (wide - 1) * step + taps;
	const int32_t begin = (pixel < 0) ? -pixel : 0;
	const int32_t end = vmcu_min(count, t->width - pixel);
	/* A tile's places are those of a whole strip. */
	const int32_t phase = p->steps - 1 + ((taps + step - 1) >> (step - 1));
	const int32_t row = (step == 1) ? phase : phase + p->steps - 1 + (taps >> 1);
	const struct vmcu_band_places places = {
		.phase = phase,
		.row = row,
		.even = phase + wide - p->steps,
		.odd = wide - 1 + (taps >> 1),
		/* The last one's second column may be one too many; its weight is zero. */
		.line = (wide * step + taps + 1 - step) >> 1,
	};
	const int8_t *rows[VMCU_BAND_ROWS];
	const int8_t **ab = rows;
	struct vmcu_piece *piece;

	band->zeros = (uint8_t)p->input_zero * 0x01010101U;
	band->plane = row * (taps >> 1) + ((p->steps * step + taps + 1 - step) >> 1);
	/* What is behind the strip's last column counts as padding: it may be gone already. */
	band->width = pixel + end;
	band->splits = true;
	band->end = band->pieces;
	if (begin >= end ||
	    !vmcu_band_rows(rows, call, t, pixel + begin, (end - begin) * channels)) {
		vmcu_band_search(band, call, tile, pixel, &places);
		return;
	}
	for (int32_t r = taps; r > 1; r -= 2, tile += row, ab += 2) {
		if (step == 1) {
			vmcu_band_words(band, tile, places.even, ab[0], ab[1], begin, end,
					channels);
			continue;
		}
		for (int32_t odd = 0; odd < 2; odd++) {
			/* Of columns that far apart, the first one inside. */
			const int32_t first = (begin + 1 - odd) >> 1;
			const int32_t ahead = (2 * first + odd - begin) * channels;

			vmcu_band_words(band, tile + odd * phase,
					(odd == 0) ? places.even : places.odd,
					(ab[0] != NULL) ? ab[0] + ahead : NULL,
					(ab[1] != NULL) ? ab[1] + ahead : NULL, first,
					(end + 1 - odd) >> 1, 2 * channels);
		}
	}
	if (*ab == NULL) {
		vmcu_band_padding(tile, band, places.line);
		return;
	}
	/* Whole words, one before whose first column is padding, one behind whose second is. */
	piece = band->end;
	vmcu_band_words(band, tile, places.line, *ab, *ab, begin >> 1, (end + 1) >> 1, 2 * channels);
	piece->head = (uint8_t)(begin & 1);
	piece->tail = (uint8_t)(end & 1);
	piece->a += piece->head * channels;
	piece->b += (1 - piece->head) * channels;
	piece->middle = (uint16_t)(piece->middle - piece->head - piece->tail);
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
