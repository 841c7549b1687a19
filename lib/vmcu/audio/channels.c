/*
 * SPDX-License-Identifier: Apache-2.0
 */

/* From bins to channels, and the steps on the channels. */

#include "stages.h"

#define SNR_BITS     12
#define PCAN_BITS    6
#define LOG_BITS     16
#define SEGMENT_BITS 7
/* ln 2 in LOG_BITS. */
#define LN_2         45426U

/* The square root to the nearest, bit by bit from the highest pair of bits on. */
static uint32_t root_32(uint32_t x)
{
	uint32_t root = 0;

	if (x == 0U) {
		return 0;
	}
	for (uint32_t bit = 1U << ((vmcu_audio_bits(x) - 1U) & ~1U); bit != 0U; bit >>= 2) {
		uint32_t more = root + bit;

		root >>= 1;
		if (x >= more) {
			x -= more;
			root += bit;
		}
	}
	return (x > root && root != UINT16_MAX) ? root + 1U : root;
}

/* The same for numbers from 2^32 on. */
static uint32_t root_64(uint64_t x)
{
	unsigned int bits = 31U + vmcu_audio_bits((uint32_t)(x >> 32));
	uint64_t root = 0;

	for (uint64_t bit = 1ULL << (bits & ~1U); bit != 0U; bit >>= 2) {
		uint64_t more = root + bit;

		root >>= 1;
		if (x >= more) {
			x -= more;
			root += bit;
		}
	}
	return (uint32_t)((x > root && root != UINT32_MAX) ? root + 1U : root);
}

void vmcu_audio_filter(const struct vmcu_audio *audio, const struct vmcu_complex *bins,
		       unsigned int shift, uint32_t *signal)
{
	const struct vmcu_audio_weight *weight = audio->weights;
	uint64_t next = 0;

	bins += audio->first_bin;
	/* One more than channels: the first has no sum of its own, it only gives. */
	for (uint32_t n = 0; n <= audio->channels; n++) {
		uint64_t own = next;

		next = 0;
		for (uint32_t width = audio->widths[n]; width > 0U; width--, bins++, weight++) {
			uint32_t energy =
				(uint32_t)(bins->re * bins->re) + (uint32_t)(bins->im * bins->im);

			own += (uint64_t)energy * weight->own;
			next += (uint64_t)energy * weight->next;
		}
		if (n > 0U) {
			bool is_short = own >> 32 == 0U;

			*signal++ = (is_short ? root_32((uint32_t)own) : root_64(own)) >> shift;
		}
	}
}

void vmcu_audio_quiet(const struct vmcu_audio *audio, uint32_t *noise, uint32_t *signal)
{
	for (uint32_t n = 0; n < audio->channels; n++) {
		uint32_t part = ((n & 1U) == 0U) ? audio->even_smoothing : audio->odd_smoothing;
		uint32_t rest = ((uint32_t)1 << VMCU_AUDIO_NOISE_BITS) - part;
		uint32_t scaled = signal[n] << audio->smoothing_bits;
		uint32_t mean = (uint32_t)(((uint64_t)scaled * part + (uint64_t)noise[n] * rest) >>
					   VMCU_AUDIO_NOISE_BITS);
		uint32_t least = (uint32_t)(((uint64_t)signal[n] * audio->least_signal) >>
					    VMCU_AUDIO_NOISE_BITS);
		uint32_t above = (scaled > mean) ? (scaled - mean) >> audio->smoothing_bits : 0U;

		noise[n] = mean;
		signal[n] = (above > least) ? above : least;
	}
}

/* A parabola for each power of two of the noise: value, slope and curvature. */
static uint32_t gain_of(const int16_t *gain, uint32_t noise)
{
	unsigned int bits = vmcu_audio_bits(noise);
	uint32_t fraction;
	int32_t rise;

	if (noise < 2U) {
		return (uint32_t)gain[noise];
	}
	gain += 3U * bits - 4U;
	fraction = ((bits < 11U) ? noise << (11U - bits) : noise >> (bits - 11U)) & 0x3FFU;
	rise = (gain[2] * (int32_t)fraction) >> 5;
	rise += gain[1] * 32;
	/* It wraps where TensorFlow Lite Micro's does. */
	rise = (int32_t)((uint32_t)rise * fraction + (1U << 14)) >> 15;
	return (uint32_t)(int16_t)(gain[0] + rise);
}

void vmcu_audio_normalise(const struct vmcu_audio *audio, const uint32_t *noise, uint32_t *signal)
{
	for (uint32_t n = 0; n < audio->channels; n++) {
		uint32_t gain = gain_of(audio->gain, noise[n]);
		uint32_t ratio = (uint32_t)(((uint64_t)signal[n] * gain) >> audio->gain_shift);

		if (ratio < ((uint32_t)2 << SNR_BITS)) {
			signal[n] = (ratio * ratio) >> (2 + 2 * SNR_BITS - PCAN_BITS);
		} else {
			signal[n] = (ratio >> (SNR_BITS - PCAN_BITS)) - (1U << PCAN_BITS);
		}
	}
}

/* The natural logarithm times 2^log_shift, by straight lines; x is 2 or more. */
static uint32_t compute_log(const struct vmcu_audio *audio, uint32_t x)
{
	unsigned int whole = vmcu_audio_bits(x) - 1U;
	uint32_t above = x - (1U << whole);
	uint32_t fraction, segment, inside, log2, natural;
	int32_t here, rise;

	fraction = (whole < LOG_BITS) ? above << (LOG_BITS - whole) : above >> (whole - LOG_BITS);
	segment = fraction >> (LOG_BITS - SEGMENT_BITS);
	inside = fraction & ((1U << (LOG_BITS - SEGMENT_BITS)) - 1U);
	here = audio->log[segment];
	rise = audio->log[segment + 1U] - here;
	log2 = ((uint32_t)whole << LOG_BITS) + fraction +
	       (uint32_t)(here + ((rise * (int32_t)inside) >> LOG_BITS));
	natural = (uint32_t)(((uint64_t)LN_2 * log2 + (1U << (LOG_BITS - 1))) >> LOG_BITS);
	return ((natural << audio->log_shift) + (1U << (LOG_BITS - 1))) >> LOG_BITS;
}

void vmcu_audio_scale(const struct vmcu_audio *audio, const uint32_t *signal, uint16_t *features)
{
	for (uint32_t n = 0; n < audio->channels; n++) {
		uint32_t value = signal[n];

		if (audio->is_log) {
			value = (audio->correction < 0) ? value >> -audio->correction
							: value << audio->correction;
			value = (value > 1U) ? compute_log(audio, value) : 0U;
		}
		features[n] = (uint16_t)((value < UINT16_MAX) ? value : UINT16_MAX);
	}
}
