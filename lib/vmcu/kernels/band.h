/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief The input rows under one output row, and how depthwise convolutions read them.
 *
 * Included by generated kernels after their instruction set, which defines vmcu_stage_pieces().
 */

#ifndef VMCU_KERNELS_BAND_H_
#define VMCU_KERNELS_BAND_H_

/**
 * Pieces of the tile of the largest window that has a kernel of its own: a run for every phase of
 * three pairs of rows, one for the last row. A ring is no smaller than the rows under a strip, so
 * one row at most is split in a strip; that adds two, or in the last row up to four.
 */
#define VMCU_BAND_PIECES 11

/** Rows of that window. */
#define VMCU_BAND_ROWS 7

/** Data that is read for every four channels of a strip; see targets/portable/depthwise.py. */
struct vmcu_band {
	uint32_t zeros; /**< four times the byte of padding */
	int32_t phase;  /**< words of a tile from a row's even columns to its odd ones */
	int32_t row;    /**< from two rows to the next two */
	int32_t plane;  /**< from channels 0 and 1 to channels 2 and 3 */
	int32_t step;   /**< columns of an output pixel */
	int32_t channels;
	int32_t begin; /**< columns of the strip that are inside the image: the first one */
	int32_t stop;  /**< and the first one behind the last */
	struct vmcu_piece *end;
	struct vmcu_piece pieces[VMCU_BAND_PIECES];
};

/** Where nothing is split. */
#define VMCU_BAND_WHOLE INT32_MAX

/**
 * Those pixels of an input row under a strip that are inside the image: @a split of them from @a x
 * on, the others as if @a behind were the first of all. No @a x: the row is padding.
 */
struct vmcu_band_row {
	const int8_t *x;
	const int8_t *behind;
	int32_t split;
};

/** What is the same for all strips: a tile's places are those of a whole one. */
static inline void vmcu_band_layout(struct vmcu_band *band, const struct vmcu_mac_params *p)
{
	const int32_t taps = p->window.kernel_h;
	const int32_t step = p->window.stride_w;

	band->zeros = (uint8_t)p->input_zero * 0x01010101U;
	band->phase = p->steps - 1 + ((taps + step - 1) >> (step - 1));
	band->row = band->phase + ((step == 1) ? 0 : p->steps - 1 + (taps >> 1));
	band->plane = band->row * (taps >> 1) + ((p->steps * step + taps + 1 - step) >> 1);
}

static void vmcu_band_padding(uint32_t *u, const struct vmcu_band *band, int32_t words)
{
	for (; words > 0; words--, u++) {
		u[0] = band->zeros;
		u[band->plane] = band->zeros;
	}
}

/** The rows under a strip; @a first is the column of the first pixel inside the image. */
static void vmcu_band_rows(struct vmcu_band_row *rows, const struct vmcu_call *call,
			   const struct vmcu_window *window, int32_t first, int32_t pixels)
{
	const struct vmcu_tensor *t = vmcu_call_input(call, 0);
	int32_t y = call->y * window->stride_h - window->pad_top;

	for (int32_t r = window->kernel_h; r > 0; r--, rows++, y += window->dilation_h) {
		int32_t unsplit;

		rows->x = NULL;
		rows->split = VMCU_BAND_WHOLE;
		if (y < 0 || y >= t->height || pixels <= 0) {
			continue;
		}
		rows->x = vmcu_pixel(call->pool, t, (uint32_t)y, (uint32_t)first);
		unsplit = vmcu_unsplit(t, (uint32_t)y, (uint32_t)first, pixels);
		if (unsplit < pixels) {
			rows->split = unsplit;
			rows->behind = vmcu_pixel_at(call->pool, t, y, first + unsplit) -
				       unsplit * t->channels;
		}
	}
}

/** Words of pixels @a pitch bytes apart; NULL for padding. */
VMCU_APART void vmcu_band_piece(struct vmcu_band *band, uint32_t *u, const int8_t *a,
				const int8_t *b, int32_t pitch, int32_t words)
{
	struct vmcu_piece *piece = band->end++;
	const int8_t *zeros = (const int8_t *)&band->zeros;

	piece->u = u;
	piece->a = (a != NULL) ? a : zeros;
	piece->b = (b != NULL) ? b : zeros;
	piece->pitch_a = (a != NULL) ? pitch : 0;
	piece->pitch_b = (b != NULL) ? pitch : 0;
	piece->count = words << VMCU_PIECE_WORDS;
}

/** Pixel @a i of a row, and how many, `step` apart, there are from it to the row's split. */
static const int8_t *vmcu_band_at(const struct vmcu_band_row *row, int32_t i, int32_t channels,
				  int32_t step, int32_t *words)
{
	if (row->x == NULL || row->split == VMCU_BAND_WHOLE) {
		return (row->x == NULL) ? NULL : row->x + i * channels;
	}
	if (i >= row->split) {
		return row->behind + i * channels;
	}
	/* Steps are one or two. */
	*words = vmcu_min(*words, (row->split - i + step - 1) >> (step - 1));
	return row->x + i * channels;
}

/** Words of pixels `step` apart, from i on: a's of one row and b's of another, `apart` further. */
VMCU_CALLED void vmcu_band_words(struct vmcu_band *band, uint32_t *u, const struct vmcu_band_row *a,
				 const struct vmcu_band_row *b, int32_t i, int32_t apart,
				 int32_t step, int32_t words, int32_t channels)
{
	while (words > 0) {
		int32_t part = words;
		const int8_t *x = vmcu_band_at(a, i, channels, step, &part);
		const int8_t *y = vmcu_band_at(b, i + apart, channels, step, &part);

		vmcu_band_piece(band, u, x, y, step * channels, part);
		u += part;
		i += part * step;
		words -= part;
	}
}

/** The first of columns `from`, `from + step` ... that is not in front of column @a x. */
VMCU_INLINE int32_t vmcu_band_first(int32_t x, int32_t from, int32_t step)
{
	/* Steps are one or two. */
	return (x - from + step - 1) >> (step - 1);
}

/**
 * Words made of columns that are `step` apart, from @a from on, of two rows; or, if they are one
 * row, of two columns each. The first word inside may lack its first column then, or the last one
 * its second.
 */
VMCU_CALLED void vmcu_band_run(struct vmcu_band *band, uint32_t *u, const struct vmcu_band_row *a,
			       const struct vmcu_band_row *b, int32_t from, int32_t words)
{
	static const struct vmcu_band_row padding;
	const int32_t apart = (a == b) ? 1 : 0;
	const int32_t step = (a == b) ? 2 : band->step;
	const int32_t begin = band->begin, end = band->stop, channels = band->channels;
	const int32_t first = vmcu_band_first(begin, from, step);
	const int32_t last = vmcu_band_first(end, from + apart, step);
	const int32_t head = first - vmcu_band_first(begin, from + apart, step);
	const int32_t tail = vmcu_band_first(end, from, step) - last;
	const int32_t pitch = step * channels;
	const int32_t i = first * step + from - begin;

	if (begin >= end || (a->x == NULL && b->x == NULL)) {
		vmcu_band_padding(u, band, words);
		return;
	}
	vmcu_band_padding(u, band, first - head);
	vmcu_band_padding(u + last + tail, band, words - last - tail);
	u += first;
	if (a->split == VMCU_BAND_WHOLE && b->split == VMCU_BAND_WHOLE && first < last) {
		const int8_t *x = (a->x == NULL) ? NULL : a->x + i * channels;
		const int8_t *y = (b->x == NULL) ? NULL : b->x + (i + apart) * channels;

		vmcu_band_piece(band, u, x, y, pitch, last - first);
		band->end[-1].count |= head * VMCU_PIECE_HEAD | tail * VMCU_PIECE_TAIL;
		band->end[-1].u -= head;
		band->end[-1].b -= head * pitch;
		return;
	}
	vmcu_band_words(band, u - head, &padding, b, i - head * step, apart, step, head, channels);
	vmcu_band_words(band, u, a, b, i, apart, step, last - first, channels);
	vmcu_band_words(band, u + last - first, a, &padding, i + (last - first) * step, apart, step,
			tail, channels);
}

/** A strip of `wide` output pixels whose first column is `pixel`, of a band that is laid out. */
VMCU_CALLED void vmcu_band_start(struct vmcu_band *band, const struct vmcu_call *call,
				 uint32_t *tile, int32_t pixel, int32_t wide)
{
	const struct vmcu_mac_params *p = vmcu_params(call);
	const struct vmcu_tensor *t = vmcu_call_input(call, 0);
	const int32_t taps = p->window.kernel_h;
	const int32_t step = p->window.stride_w;
	struct vmcu_band_row rows[VMCU_BAND_ROWS];
	const struct vmcu_band_row *pair = rows;

	band->end = band->pieces;
	band->step = step;
	band->channels = t->channels;
	/* Bytes behind the last count as padding: they may be overwritten already. */
	band->begin = (pixel < 0) ? -pixel : 0;
	band->stop = vmcu_min((wide - 1) * step + taps, t->width - pixel);
	vmcu_band_rows(rows, call, &p->window, pixel + band->begin, band->stop - band->begin);
	for (int32_t r = taps; r > 1; r -= 2, tile += band->row, pair += 2) {
		vmcu_band_run(band, tile, pair, pair + 1, 0, band->phase + wide - p->steps);
		if (step > 1) {
			vmcu_band_run(band, tile + band->phase, pair, pair + 1, 1,
				      wide - 1 + (taps >> 1));
		}
	}
	/* The last word's second column may be one too many; it is padding and its weight zero. */
	vmcu_band_run(band, tile, pair, pair, 0, (wide * step + taps + 1 - step) >> 1);
}

/** Fewer than four channels of a pixel, or one four times. */
static uint32_t vmcu_few(const int8_t *x, int32_t lanes)
{
	const uint8_t *byte = (const uint8_t *)x;
	uint16_t pair;

	if (lanes == 1) {
		return byte[0] * 0x01010101U;
	}
	__builtin_memcpy(&pair, x, sizeof(pair));
	return (lanes == 2) ? pair : pair | (uint32_t)byte[2] << 16;
}

/** The tensor's last channels, fewer than four, which may be the last bytes of the pool. */
VMCU_CALLED void vmcu_stage_few(const struct vmcu_band *band, int32_t channel, int32_t lanes)
{
	const int32_t plane = band->plane;

	for (const struct vmcu_piece *piece = band->pieces; piece != band->end; piece++) {
		const int32_t counts[] = {piece->count & VMCU_PIECE_HEAD,
					  piece->count >> VMCU_PIECE_WORDS,
					  (piece->count & VMCU_PIECE_TAIL) >> 1};
		const int8_t *a = piece->a + ((piece->pitch_a == 0) ? 0 : channel);
		const int8_t *b = piece->b + ((piece->pitch_b == 0) ? 0 : channel);
		uint32_t *u = piece->u;

		/* A head's first pixels are padding, a tail's second ones. */
		for (int32_t part = 0; part < 3; part++) {
			const int8_t *x = (part == 0) ? (const int8_t *)&band->zeros : a;
			const int8_t *y = (part == 2) ? (const int8_t *)&band->zeros : b;
			const int32_t pitch_x = (part == 0) ? 0 : piece->pitch_a;
			const int32_t pitch_y = (part == 2) ? 0 : piece->pitch_b;

			for (int32_t n = counts[part]; n > 0; n--, x += pitch_x, y += pitch_y) {
				const uint32_t first = vmcu_few(x, lanes);
				const uint32_t second = vmcu_few(y, lanes);

				u[0] = (first & 0xffffU) | second << 16;
				u[plane] = first >> 16 | (second & 0xffff0000U);
				u++;
			}
			a = (part == 0) ? a : x;
			b = y;
		}
	}
}

/** Channels of a strip's columns into its tile. */
static __attribute__((unused)) void vmcu_stage_band(const struct vmcu_band *band, int32_t channel,
						    int32_t lanes)
{
	if (lanes < 4) {
		vmcu_stage_few(band, channel, lanes);
		return;
	}
	if (band->end != band->pieces) {
		vmcu_stage_pieces(band->pieces, band->end, channel, band->plane, band->zeros);
	}
}

/**
 * A channel of some pixels that is not for the fast requantiser, into a patch. @a word says where
 * in the stream the rest of its constants is, see targets/portable/depthwise.py.
 */
VMCU_CALLED void vmcu_finish_any(const struct vmcu_mac_params *p, const int32_t *acc,
				 int32_t pixels, int32_t word, int32_t multiplier, int8_t *patch)
{
	const int32_t *rest = (const int32_t *)p->stream + (word >> 8);

	if (vmcu_are_lines(p, rest[1])) {
		const struct vmcu_line line = vmcu_line(multiplier, rest[1], p->output_zero);

		for (int32_t i = 0; i < pixels; i++) {
			patch[4 * i] = vmcu_saturate8(vmcu_on_line(line, vmcu_sum(acc[i], *rest)));
		}
		return;
	}
	for (int32_t i = 0; i < pixels; i++) {
		patch[4 * i] = vmcu_any(p, vmcu_sum(acc[i], *rest), multiplier, rest[1]);
	}
}

/** Those pixels and channels of a patch that exist. */
VMCU_APART void vmcu_store_part(const int32_t *patch, int8_t *out, int32_t pitch, int32_t wide,
				int32_t lanes)
{
	for (; wide > 0; wide--, patch++, out += pitch) {
		const int8_t *bytes = (const int8_t *)patch;

		if (lanes == 4) {
			vmcu_copy_word(out, bytes);
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
