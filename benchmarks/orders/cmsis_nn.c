/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief CMSIS-NN's order: a 1x1 convolution is a product of matrices, two channels' weights at a
 * time, over all pixels by twos, both operands read as bytes; a depthwise one of 3x3 taps sums four
 * channels of a pixel at a time, a larger one copies a pixel's window as 16-bit values before.
 */

#include "layer.h"

static inline void four_taps(const int8_t *w0, const int8_t *w1, const int8_t *x0, const int8_t *x1,
			     int32_t *sum)
{
	const uint32_t a0 = word(w0), even0 = sxtb16(a0);
	uint32_t x = word(x0), even = sxtb16(x);
	const uint32_t a1 = word(w1), odd0 = sxtb16_ror8(a0);
	uint32_t odd = sxtb16_ror8(x);

	sum[0] = smlad(even, even0, sum[0]);
	const uint32_t even1 = sxtb16(a1);

	sum[0] = smlad(odd, odd0, sum[0]);
	const uint32_t odd1 = sxtb16_ror8(a1);

	sum[2] = smlad(even, even1, sum[2]);
	sum[2] = smlad(odd, odd1, sum[2]);
	x = word(x1);
	even = sxtb16(x);
	odd = sxtb16_ror8(x);
	sum[1] = smlad(even, even0, sum[1]);
	sum[3] = smlad(even, even1, sum[3]);
	sum[1] = smlad(odd, odd0, sum[1]);
	sum[3] = smlad(odd, odd1, sum[3]);
}

static void two_by_two(int32_t depth, const int8_t *w0, const int8_t *w1, const int8_t *x0,
		       const int8_t *x1, int32_t *sum)
{
	for (; depth >= 16; depth -= 16, w0 += 16, w1 += 16, x0 += 16, x1 += 16) {
		four_taps(w0, w1, x0, x1, sum);
		four_taps(w0 + 4, w1 + 4, x0 + 4, x1 + 4, sum);
		four_taps(w0 + 8, w1 + 8, x0 + 8, x1 + 8, sum);
		four_taps(w0 + 12, w1 + 12, x0 + 12, x1 + 12, sum);
	}
	for (; depth > 0; depth -= 4, w0 += 4, w1 += 4, x0 += 4, x1 += 4) {
		four_taps(w0, w1, x0, x1, sum);
	}
}

static int32_t start(struct layer l, int32_t c)
{
	int32_t total = 0;

	for (int32_t i = 0; i < l.in_c; i++) {
		total += l.weights[c * l.in_c + i];
	}
	return l.bias[c] - total * l.input_zero;
}

static void pointwise(struct layer l, const int8_t *in, int8_t *out)
{
	const int32_t pixels = l.out_height * l.out_width;

	for (int32_t c = 0; c < l.out_c; c += 2) {
		const int8_t *w0 = l.weights + c * l.in_c, *w1 = w0 + l.in_c;
		const int32_t first = start(l, c), second = start(l, c + 1);
		const int8_t *x = in;
		int8_t *y = out + c;

		for (int32_t p = 0; p < pixels; p += 2, x += 2 * l.in_c, y += 2 * l.out_c) {
			const bool pair = p + 1 < pixels;
			int32_t sum[] = {first, first, second, second};

			two_by_two(l.in_c, w0, w1, x, pair ? x + l.in_c : x, sum);
			y[0] = requantized(l, c, sum[0]);
			y[1] = requantized(l, c + 1, sum[2]);
			if (pair) {
				y[l.out_c] = requantized(l, c, sum[1]);
				y[l.out_c + 1] = requantized(l, c + 1, sum[3]);
			}
		}
	}
}

static void widen(int16_t *to, const int8_t *from, int32_t count, int32_t zero)
{
	uint32_t *words = (uint32_t *)to;
	const uint32_t zeros = less_zero(zero);

	for (; count >= 4; count -= 4, from += 4, words += 2) {
		const uint32_t x = word(from);
		const uint32_t even = sadd16(sxtb16(x), zeros);
		const uint32_t odd = sadd16(sxtb16_ror8(x), zeros);

		words[0] = pkhbt(even, odd);
		words[1] = pkhtb(even, odd);
	}
}

static void copy_window(struct layer l, const int8_t *in, int32_t y, int32_t x, int16_t *to)
{
	for (int32_t i = 0; i < l.k; i++, y++) {
		for (int32_t j = 0; j < l.k; j++, to += l.in_c) {
			if (y < 0 || y >= l.height || x + j < 0 || x + j >= l.width) {
				__builtin_memset(to, 0, (uint32_t)l.in_c * sizeof(*to));
			} else {
				widen(to, in + (y * l.width + x + j) * l.in_c, l.in_c,
				      l.input_zero);
			}
		}
	}
}

/* Two taps of four channels at a time. On its own, so that the loop finds registers. */
__attribute__((noinline)) static void four_channels(int32_t left, int32_t depth, const int16_t *x,
						    const int8_t *w, int32_t *sum)
{
	for (; left >= 2; left -= 2, x += 2 * depth, w += 2 * depth) {
		const uint32_t wa = word(w), wb = word(w + depth);
		const uint32_t odd_a = sxtb16_ror8(wa), odd_b = sxtb16_ror8(wb);
		const uint32_t even_a = sxtb16(wa), even_b = sxtb16(wb);
		uint32_t xa = word(x), xb = word(x + depth);

		sum[0] = smlad(pkhbt(xa, xb), pkhbt(even_a, even_b), sum[0]);
		sum[1] = smlad(pkhtb(xa, xb), pkhbt(odd_a, odd_b), sum[1]);
		xa = word(x + 2);
		xb = word(x + depth + 2);
		sum[2] = smlad(pkhbt(xa, xb), pkhtb(even_a, even_b), sum[2]);
		sum[3] = smlad(pkhtb(xa, xb), pkhtb(odd_a, odd_b), sum[3]);
	}
	if (left != 0) {
		for (int32_t c = 0; c < 4; c++) {
			sum[c] += x[c] * w[c];
		}
	}
}

static void depthwise(struct layer l, const int8_t *in, int8_t *out, int16_t *buffer)
{
	for (int32_t y = 0; y < l.out_height; y++) {
		for (int32_t x = 0; x < l.out_width; x++, out += l.out_c) {
			copy_window(l, in, y * l.stride - l.pad, x * l.stride - l.pad, buffer);
			for (int32_t c = 0; c < l.out_c; c += 4) {
				int32_t sum[] = {l.bias[c], l.bias[c + 1], l.bias[c + 2],
						 l.bias[c + 3]};

				four_channels(l.k * l.k, l.in_c, buffer + c, l.weights + c, sum);
				for (int32_t i = 0; i < 4; i++) {
					out[c + i] = requantized(l, c + i, sum[i]);
				}
			}
		}
	}
}

/* A tap of four channels, which stay bytes in a word. */
static inline void tap(uint32_t x, uint32_t w, int32_t zero, int32_t *sum)
{
	sum[0] += ((int8_t)x - zero) * (int8_t)w;
	sum[1] += ((int8_t)(x >> 8) - zero) * (int8_t)(w >> 8);
	sum[2] += ((int8_t)(x >> 16) - zero) * (int8_t)(w >> 16);
	sum[3] += ((int8_t)(x >> 24) - zero) * (int8_t)(w >> 24);
}

static void three_by_three(struct layer l, const int8_t *in, int8_t *out, int32_t y, int32_t x)
{
	const int32_t depth = l.in_c;
	const int32_t first = (y < 0) ? -y : 0;
	const int32_t last = (y + 3 > l.height) ? l.height - y : 3;

	for (int32_t c = 0; c < depth; c += 4) {
		int32_t sum[] = {l.bias[c], l.bias[c + 1], l.bias[c + 2], l.bias[c + 3]};

		for (int32_t i = first; i < last; i++) {
			const int8_t *from = in + ((y + i) * l.width + x) * depth + c;
			const int8_t *w = l.weights + i * 3 * depth + c;

			if (x >= 0) {
				tap(word(from), word(w), l.input_zero, sum);
			}
			tap(word(from + depth), word(w + depth), l.input_zero, sum);
			if (x + 2 < l.width) {
				tap(word(from + 2 * depth), word(w + 2 * depth), l.input_zero, sum);
			}
		}
		for (int32_t i = 0; i < 4; i++) {
			out[c + i] = requantized(l, c + i, sum[i]);
		}
	}
}

static void small_depthwise(struct layer l, const int8_t *in, int8_t *out)
{
	for (int32_t y = 0; y < l.out_height; y++) {
		for (int32_t x = 0; x < l.out_width; x++, out += l.out_c) {
			three_by_three(l, in, out, y * l.stride - l.pad, x * l.stride - l.pad);
		}
	}
}

void run_layer(struct layer l, const int8_t *in, int8_t *out, int16_t *buffer)
{
	if (l.k == 1) {
		pointwise(l, in, out);
	} else if (l.k == 3) {
		small_depthwise(l, in, out);
	} else {
		depthwise(l, in, out, buffer);
	}
}
