/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * Window and Fourier transform in 16 bits. Each butterfly divides by its arms first, so that sums
 * rarely leave 16 bits; where they do they wrap. Products are rounded to 15 bits, as kissfft's.
 */

#include "stages.h"

#define PART_2 (INT16_MAX / 2)
#define PART_4 (INT16_MAX / 4)

static inline int32_t rounded(int32_t x)
{
	return (int16_t)((x + (1 << 14)) >> 15);
}

/* x / 2 or x / 4, which is a product with PART_2 or PART_4. */
static inline int32_t part(int16_t x, int32_t of)
{
	return rounded(x * of);
}

unsigned int vmcu_audio_window(const struct vmcu_audio *audio, const int16_t *samples,
			       struct vmcu_complex *x)
{
	const int16_t *coefficients = audio->coefficients;
	uint32_t window = audio->window;
	int32_t loudest = 0;
	unsigned int shift;

	for (uint32_t n = 0; n < window; n++) {
		int32_t value = (samples[n] * coefficients[n]) >> VMCU_AUDIO_WINDOW_BITS;

		value = (value < 0) ? -value : value;
		/* The least number has no magnitude in 16 bits, and does not count. */
		if (value > loudest && value <= INT16_MAX) {
			loudest = value;
		}
	}
	shift = 15U - vmcu_audio_bits((uint32_t)loudest);
	for (uint32_t n = 0; n < audio->points; n++) {
		uint32_t at = 2U * audio->places[n];
		int32_t re = 0, im = 0;

		if (at < window) {
			re = (samples[at] * coefficients[at]) >> VMCU_AUDIO_WINDOW_BITS;
		}
		if (at + 1U < window) {
			im = (samples[at + 1U] * coefficients[at + 1U]) >> VMCU_AUDIO_WINDOW_BITS;
		}
		x[n].re = (int16_t)((uint32_t)re << shift);
		x[n].im = (int16_t)((uint32_t)im << shift);
	}
	return shift;
}

/* An arm of a butterfly: a part of x, turned. */
#define TURNED(x, of, turn, re_, im_)                                                              \
	do {                                                                                       \
		int32_t re__ = part((x).re, of), im__ = part((x).im, of);                          \
                                                                                                   \
		(re_) = rounded(re__ * (turn).re - im__ * (turn).im);                              \
		(im_) = rounded(re__ * (turn).im + im__ * (turn).re);                              \
	} while (false)

/* Pairs of neighbours, which need no turns. */
static void by_twos(struct vmcu_complex *x, uint32_t points, const struct vmcu_complex *one)
{
	for (uint32_t n = 0; n < points; n += 2U) {
		int32_t re = part(x[n].re, PART_2), im = part(x[n].im, PART_2);
		int32_t other_re, other_im;

		TURNED(x[n + 1U], PART_2, *one, other_re, other_im);
		x[n].re = (int16_t)(re + other_re);
		x[n].im = (int16_t)(im + other_im);
		x[n + 1U].re = (int16_t)(re - other_re);
		x[n + 1U].im = (int16_t)(im - other_im);
	}
}

/* Four transforms of `width` points to one. */
static void by_fours(struct vmcu_complex *x, uint32_t width, uint32_t stride,
		     const struct vmcu_complex *twiddles)
{
	for (uint32_t n = 0; n < width; n++, x++) {
		const struct vmcu_complex *turn = twiddles + n * stride;
		int32_t re0 = part(x[0].re, PART_4), im0 = part(x[0].im, PART_4);
		int32_t re1, im1, re2, im2, re3, im3, re, im;

		TURNED(x[width], PART_4, turn[0], re1, im1);
		TURNED(x[2U * width], PART_4, turn[n * stride], re2, im2);
		TURNED(x[3U * width], PART_4, turn[2U * n * stride], re3, im3);
		re = re0 + re2;
		im = im0 + im2;
		re0 -= re2;
		im0 -= im2;
		re2 = re1 + re3;
		im2 = im1 + im3;
		re1 -= re3;
		im1 -= im3;
		x[0].re = (int16_t)(re + re2);
		x[0].im = (int16_t)(im + im2);
		x[width].re = (int16_t)(re0 + im1);
		x[width].im = (int16_t)(im0 - re1);
		x[2U * width].re = (int16_t)(re - re2);
		x[2U * width].im = (int16_t)(im - im2);
		x[3U * width].re = (int16_t)(re0 - im1);
		x[3U * width].im = (int16_t)(im0 + re1);
	}
}

/* The transform of `points` pairs is two of real numbers, each the mirror image of itself. */
static void apart(struct vmcu_complex *x, uint32_t points, const struct vmcu_complex *halves)
{
	int32_t re = part(x[0].re, PART_2), im = part(x[0].im, PART_2);

	x[0] = (struct vmcu_complex){(int16_t)(re + im), 0};
	x[points] = (struct vmcu_complex){(int16_t)(re - im), 0};
	for (uint32_t n = 1; n <= points / 2U; n++) {
		struct vmcu_complex *low = x + n, *high = x + points - n;
		struct vmcu_complex turn = halves[n - 1U];
		int32_t there_re = part(high->re, PART_2);
		int32_t there_im = part((int16_t)-high->im, PART_2);
		int16_t same_re, same_im, odd_re, odd_im;

		re = part(low->re, PART_2);
		im = part(low->im, PART_2);
		same_re = (int16_t)(re + there_re);
		same_im = (int16_t)(im + there_im);
		odd_re = (int16_t)(re - there_re);
		odd_im = (int16_t)(im - there_im);
		re = rounded(odd_re * turn.re - odd_im * turn.im);
		im = rounded(odd_re * turn.im + odd_im * turn.re);
		low->re = (int16_t)((same_re + re) >> 1);
		low->im = (int16_t)((same_im + im) >> 1);
		/* Where both are the same bin this is what stays. */
		high->re = (int16_t)((same_re - re) >> 1);
		high->im = (int16_t)((im - same_im) >> 1);
	}
}

void vmcu_audio_transform(const struct vmcu_audio *audio, struct vmcu_complex *x)
{
	uint32_t points = audio->points, width = 1;

	if ((vmcu_audio_bits(points) & 1U) == 0U) {
		by_twos(x, points, audio->twiddles);
		width = 2U;
	}
	for (; width < points; width *= 4U) {
		for (uint32_t n = 0; n < points; n += 4U * width) {
			by_fours(x + n, width, points / (4U * width), audio->twiddles);
		}
	}
	apart(x, points, audio->halves);
}
