/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief TinyEngine's order: convolutions copy two pixels as 16-bit values into a buffer, then meet
 * them with two channels at a time, sixteen taps unrolled; depthwise ones copy a channel with its
 * padding and go over it window by window.
 */

#include "layer.h"

/* Four taps of two pixels, both in the order that SXTB16 gives weights. */
static inline void four_taps(const int8_t *w0, const int8_t *w1, const uint32_t *b0,
			     const uint32_t *b1, int32_t *sum)
{
	const uint32_t a0 = word(w0);
	const uint32_t odd0 = sxtb16_ror8(a0), even0 = sxtb16(a0);
	const uint32_t a1 = word(w1);
	const uint32_t odd1 = sxtb16_ror8(a1), even1 = sxtb16(a1);

	sum[0] = smlad(even0, b0[0], sum[0]);
	sum[1] = smlad(even0, b1[0], sum[1]);
	sum[2] = smlad(even1, b0[0], sum[2]);
	sum[3] = smlad(even1, b1[0], sum[3]);
	sum[0] = smlad(odd0, b0[1], sum[0]);
	sum[1] = smlad(odd0, b1[1], sum[1]);
	sum[2] = smlad(odd1, b0[1], sum[2]);
	sum[3] = smlad(odd1, b1[1], sum[3]);
}

static void widen(int16_t *to, const int8_t *from, int32_t count, int32_t zero)
{
	uint32_t *words = (uint32_t *)to;
	const uint32_t zeros = less_zero(zero);

	for (; count >= 4; count -= 4, from += 4, words += 2) {
		const uint32_t x = word(from);

		words[0] = sadd16(sxtb16(x), zeros);
		words[1] = sadd16(sxtb16_ror8(x), zeros);
	}
}

static void pointwise(struct layer l, const int8_t *in, int8_t *out, int16_t *buffer)
{
	const int32_t depth = l.in_c;
	const int32_t pixels = l.out_height * l.out_width;
	int16_t *second = buffer + depth;

	for (int32_t p = 0; p < pixels; p += 2, in += 2 * depth, out += 2 * l.out_c) {
		const bool pair = p + 1 < pixels;

		widen(buffer, in, depth, l.input_zero);
		widen(second, pair ? in + depth : in, depth, l.input_zero);
		for (int32_t c = 0; c < l.out_c; c += 2) {
			const int8_t *w0 = l.weights + c * depth, *w1 = w0 + depth;
			const uint32_t *b0 = (const uint32_t *)buffer;
			const uint32_t *b1 = (const uint32_t *)second;
			int32_t sum[] = {l.bias[c], l.bias[c], l.bias[c + 1], l.bias[c + 1]};
			int32_t left = depth;

			for (; left >= 16; left -= 16, w0 += 16, w1 += 16, b0 += 8, b1 += 8) {
				four_taps(w0, w1, b0, b1, sum);
				four_taps(w0 + 4, w1 + 4, b0 + 2, b1 + 2, sum);
				four_taps(w0 + 8, w1 + 8, b0 + 4, b1 + 4, sum);
				four_taps(w0 + 12, w1 + 12, b0 + 6, b1 + 6, sum);
			}
			for (; left > 0; left -= 4, w0 += 4, w1 += 4, b0 += 2, b1 += 2) {
				four_taps(w0, w1, b0, b1, sum);
			}
			out[c] = requantized(l, c, sum[0]);
			out[c + 1] = requantized(l, c + 1, sum[2]);
			if (pair) {
				out[l.out_c + c] = requantized(l, c, sum[1]);
				out[l.out_c + c + 1] = requantized(l, c + 1, sum[3]);
			}
		}
	}
}

static inline int32_t window(const int8_t *x, int32_t pitch, const int16_t *w, int32_t k,
			     int32_t sum)
{
	for (int32_t y = 0; y < k; y++, x += pitch) {
		for (int32_t i = 0; i < k; i++) {
			sum += x[i] * *w++;
		}
	}
	return sum;
}

static void channel(struct layer l, int32_t c, const int8_t *image, const int16_t *w, int32_t sum,
		    int8_t *out)
{
	const int32_t pitch = l.width + 2 * l.pad;

	for (int32_t y = 0; y < l.out_height; y++) {
		const int8_t *row = image + y * l.stride * pitch;

		for (int32_t x = 0; x < l.out_width; x++, row += l.stride, out += l.out_c) {
			int32_t total;

			/* The sizes of its own generated kernels, whose loops are unrolled. */
			switch (l.k) {
			case 3:
				total = window(row, pitch, w, 3, sum);
				break;
			case 5:
				total = window(row, pitch, w, 5, sum);
				break;
			default:
				total = window(row, pitch, w, 7, sum);
				break;
			}
			*out = requantized(l, c, total);
		}
	}
}

static void depthwise(struct layer l, const int8_t *in, int8_t *out, int16_t *buffer)
{
	int8_t *image = (int8_t *)(buffer + l.k * l.k);
	const int32_t pitch = l.width + 2 * l.pad;
	const int32_t taps = l.k * l.k;

	for (int32_t n = 0; n < pitch * (l.height + 2 * l.pad); n++) {
		image[n] = (int8_t)l.input_zero;
	}
	for (int32_t c = 0; c < l.out_c; c++) {
		int32_t sum = l.bias[c];

		for (int32_t i = 0; i < taps; i++) {
			buffer[i] = l.weights[i * l.out_c + c];
			sum -= buffer[i] * l.input_zero;
		}
		for (int32_t y = 0; y < l.height; y++) {
			int8_t *to = image + (y + l.pad) * pitch + l.pad;
			const int8_t *from = in + y * l.width * l.in_c + c;

			for (int32_t x = 0; x < l.width; x++, from += l.in_c) {
				to[x] = *from;
			}
		}
		channel(l, c, image, buffer, sum, out + c);
	}
}

void run_layer(struct layer l, const int8_t *in, int8_t *out, int16_t *buffer)
{
	if (l.k == 1) {
		pointwise(l, in, out, buffer);
	} else {
		depthwise(l, in, out, buffer);
	}
}
