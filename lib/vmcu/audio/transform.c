/*
 * SPDX-License-Identifier: Apache-2.0
 */

/*
 * Window and Fourier transform in 16 bits. Each butterfly divides by its arms first, so that sums
 * rarely leave 16 bits; where they do they wrap. Products are rounded to 15 bits, as kissfft's. The
 * transform of pairs may be CMSIS-DSP's, which divides by as much and rounds otherwise.
 */

#include "stages.h"

#if defined(VMCU_AUDIO_CMSIS_DSP)
#include <dsp/transform_functions.h>
#if defined(ARM_MATH_MVEI) || defined(ARM_MATH_NEON)
#error "CMSIS-DSP has no constants for vector units: leave out VMCU_AUDIO_CMSIS_DSP"
#endif
#endif

#define PART_2 (INT16_MAX / 2)
#define PART_4 (INT16_MAX / 4)

static inline int32_t round_q15(int32_t x)
{
	return (int16_t)((x + (1 << 14)) >> 15);
}

/* x / 2 or x / 4, which is a product with PART_2 or PART_4. */
static inline int32_t scale_sample(int16_t x, int32_t of)
{
	return round_q15(x * of);
}

/* Which pair of samples the transform wants at place n. */
static inline uint32_t pair_at(const struct vmcu_audio *audio, uint32_t n)
{
#if defined(VMCU_AUDIO_CMSIS_DSP)
	(void)audio;
	return n;
#else
	return audio->places[n];
#endif
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
		uint32_t at = 2U * pair_at(audio, n);
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

struct wide {
	int32_t re;
	int32_t im;
};

static inline struct wide multiply(struct wide x, struct vmcu_complex turn)
{
	return (struct wide){round_q15(x.re * turn.re - x.im * turn.im),
			     round_q15(x.re * turn.im + x.im * turn.re)};
}

static inline struct wide part_of(struct vmcu_complex x, int32_t of)
{
	return (struct wide){scale_sample(x.re, of), scale_sample(x.im, of)};
}

static inline struct wide add_complex(struct wide x, struct wide y)
{
	return (struct wide){x.re + y.re, x.im + y.im};
}

static inline struct wide subtract_complex(struct wide x, struct wide y)
{
	return (struct wide){x.re - y.re, x.im - y.im};
}

/* Sums wrap where they leave 16 bits. */
static inline struct wide wrap_to_16(struct wide x)
{
	return (struct wide){(int16_t)x.re, (int16_t)x.im};
}

#if !defined(VMCU_AUDIO_CMSIS_DSP)

static inline struct vmcu_complex narrow_to_16(struct wide x)
{
	return (struct vmcu_complex){(int16_t)x.re, (int16_t)x.im};
}

/* Pairs of neighbours. */
static void by_twos(struct vmcu_complex *x, uint32_t points, struct vmcu_complex one)
{
	for (uint32_t n = 0; n < points; n += 2U) {
		struct wide even = part_of(x[n], PART_2);
		struct wide odd = multiply(part_of(x[n + 1U], PART_2), one);

		x[n] = narrow_to_16(add_complex(even, odd));
		x[n + 1U] = narrow_to_16(subtract_complex(even, odd));
	}
}

/* Four transforms of `width` points to one. */
static void by_fours(struct vmcu_complex *x, uint32_t width, uint32_t stride,
		     const struct vmcu_complex *twiddles)
{
	for (uint32_t n = 0; n < width; n++, x++) {
		struct wide a = part_of(x[0], PART_4);
		struct wide b = multiply(part_of(x[width], PART_4), twiddles[n * stride]);
		struct wide c = multiply(part_of(x[2U * width], PART_4), twiddles[2U * n * stride]);
		struct wide d = multiply(part_of(x[3U * width], PART_4), twiddles[3U * n * stride]);
		struct wide even = add_complex(a, c), level = subtract_complex(a, c);
		struct wide odd = add_complex(b, d), tilt = subtract_complex(b, d);
		struct wide turned = {tilt.im, -tilt.re};

		x[0] = narrow_to_16(add_complex(even, odd));
		x[width] = narrow_to_16(add_complex(level, turned));
		x[2U * width] = narrow_to_16(subtract_complex(even, odd));
		x[3U * width] = narrow_to_16(subtract_complex(level, turned));
	}
}

#endif /* !VMCU_AUDIO_CMSIS_DSP */

/* The transform of `points` pairs is two of real numbers, each the mirror image of itself. */
static void split_real(struct vmcu_complex *x, uint32_t points, const struct vmcu_complex *halves)
{
	struct wide ends = part_of(x[0], PART_2);

	x[0] = (struct vmcu_complex){(int16_t)(ends.re + ends.im), 0};
	x[points] = (struct vmcu_complex){(int16_t)(ends.re - ends.im), 0};
	for (uint32_t n = 1; n <= points / 2U; n++) {
		struct vmcu_complex *low = x + n, *high = x + points - n;
		struct vmcu_complex mirrored = {high->re, (int16_t)-high->im};
		struct wide here = part_of(*low, PART_2), there = part_of(mirrored, PART_2);
		struct wide same = wrap_to_16(add_complex(here, there));
		struct wide odd =
			multiply(wrap_to_16(subtract_complex(here, there)), halves[n - 1U]);
		struct wide more = add_complex(same, odd), less = subtract_complex(same, odd);

		*low = (struct vmcu_complex){(int16_t)(more.re >> 1), (int16_t)(more.im >> 1)};
		/* Where both are the same bin, this value stays. */
		*high = (struct vmcu_complex){(int16_t)(less.re >> 1), (int16_t)(-less.im >> 1)};
	}
}

void vmcu_audio_transform(const struct vmcu_audio *audio, struct vmcu_complex *x)
{
#if defined(VMCU_AUDIO_CMSIS_DSP)
	arm_cfft_q15(audio->fft, (q15_t *)x, 0U, 1U);
	split_real(x, audio->points, audio->halves);
#else
	uint32_t points = audio->points, width = 1;

	if ((vmcu_audio_bits(points) & 1U) == 0U) {
		by_twos(x, points, audio->twiddles[0]);
		width = 2U;
	}
	for (; width < points; width *= 4U) {
		for (uint32_t n = 0; n < points; n += 4U * width) {
			by_fours(x + n, width, points / (4U * width), audio->twiddles);
		}
	}
	split_real(x, points, audio->halves);
#endif
}
