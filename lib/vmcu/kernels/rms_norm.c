/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/operators.h>
#include <vmcu/requant.h>

#include "support.h"
#include "vectors.h"

/** A float32 above zero: @a mantissa, 2^23 to 2^24, times 2^exponent. */
struct real {
	uint32_t mantissa;
	int32_t exponent;
};

/** The divisors of a pixel's channels. */
struct divisor {
	struct real root;
	struct real scale;
	int32_t inverse; /**< of both, 23 bits */
};

static struct real real_of(int32_t bits)
{
	return (struct real){
		.mantissa = ((uint32_t)bits & 0x7fffffU) | 0x800000U,
		.exponent = (int32_t)(((uint32_t)bits >> 23) & 0xffU) - 150,
	};
}

/** The float32 nearest to x * 2^exponent, and to a little @a more; @a x has 25 to 62 bits. */
static struct real nearest_real(uint64_t x, bool more, int32_t exponent)
{
	struct real found = {.exponent = exponent - 1};

	found.mantissa = vmcu_to_24_bits((x << 1) | (more ? 1U : 0U), &found.exponent);
	return found;
}

/** a * 2^exponent / b; @a a is at least b / 2^30 and below 2^62. */
static struct real divide_real(uint64_t a, int32_t exponent, struct real b)
{
	const uint64_t found = a / b.mantissa;

	return nearest_real(found, found * b.mantissa != a, exponent - b.exponent);
}

static struct real add_real(struct real a, struct real b)
{
	const struct real most = (a.exponent >= b.exponent) ? a : b;
	const struct real least = (a.exponent >= b.exponent) ? b : a;
	const int32_t drop = most.exponent - least.exponent;
	/* Bits that fall off are far below a half of the last one. */
	const uint64_t added = (drop < 64) ? ((uint64_t)least.mantissa << 32) >> drop : 0U;

	return nearest_real(((uint64_t)most.mantissa << 32) + added, false, most.exponent - 32);
}

static struct real square_root(struct real x)
{
	/* An even exponent, and 25 or 26 bits of the root: 16 by bits, the others by a division. */
	const int32_t up = 26 + (int32_t)((uint32_t)x.exponent & 1U);
	uint64_t left = (uint64_t)x.mantissa << up;
	uint32_t rest = (uint32_t)(left >> 20);
	uint32_t half = 0;
	uint32_t root;

	for (uint32_t bit = UINT32_C(1) << 30; bit != 0U; bit >>= 2) {
		if (rest >= half + bit) {
			rest -= half + bit;
			half = (half >> 1) + bit;
		} else {
			half >>= 1;
		}
	}
	root = (rest << 9) | ((uint32_t)(left >> 11) & 511U);
	root = (half << 10) + root / ((half == 0U) ? 1U : half);
	root -= ((uint64_t)root * root > left) ? 1U : 0U;
	left -= (uint64_t)root * root;
	return nearest_real(root, left != 0U, (x.exponent - up) / 2);
}

/** The sum of the squares of a pixel's values. */
static uint32_t sum_squares(const int8_t *src, int32_t zero, int32_t channels)
{
	uint32_t squares = 0;

#if defined(VMCU_VECTORS)
	for (; channels >= 8; channels -= 8, src += 8) {
		const int16x8_t values = vmcu_eight(src, zero, 8);

		squares = (uint32_t)vmladavaq_s16((int32_t)squares, values, values);
	}
#endif
	for (int32_t c = 0; c < channels; c++) {
		const int32_t value = src[c] - zero;

		squares += (uint32_t)(value * value);
	}
	return squares;
}

static struct divisor measure_pixel(const struct vmcu_rms_norm_params *p, const int8_t *src,
				    int32_t channels)
{
	struct divisor found = {.scale = real_of(p->scale)};
	const uint32_t squares = sum_squares(src, p->input_zero, channels);
	struct real mean;
	uint64_t both;

	mean = real_of(p->epsilon);
	if (squares != 0U) {
		const struct real count = {.mantissa = (uint32_t)channels};

		mean = add_real(divide_real((uint64_t)squares << 38, -38, count), mean);
	}
	found.root = square_root(mean);
	both = (uint64_t)found.root.mantissa * found.scale.mantissa;
	found.inverse = (int32_t)((UINT64_C(1) << 53) / (both >> 16));
	return found;
}

/** @a value, not 0, over the root, times the gain, over the scale. */
VMCU_SMALL static int32_t scale_value(const struct divisor *by, uint32_t value, struct real gain)
{
	const struct real normal = divide_real((uint64_t)value << 54, -54, by->root);
	const struct real product = nearest_real((uint64_t)normal.mantissa * gain.mantissa, false,
						 normal.exponent + gain.exponent);
	const struct real found =
		divide_real((uint64_t)product.mantissa << 30, product.exponent - 30, by->scale);

	return vmcu_to_integer(found.mantissa, found.exponent);
}

#if defined(VMCU_VECTORS)
/** From a shift by less, all magnitudes but zero are beyond int8; from one by more, zero is left.
 */
#define LEAST_DROP 9
#define MOST_DROP  32

/** Replaces the magnitudes that are @a near a half. */
VMCU_CALLED int32x4_t scale_near(const struct divisor *by, int32x4_t values, int32x4_t gains,
				 int32x4_t found, uint32_t near)
{
	int32_t of[3][4];

	vstrwq_s32(of[0], values);
	vstrwq_s32(of[1], gains);
	vstrwq_s32(of[2], found);
	for (int32_t i = 0; i < 4; i++) {
		if ((near >> (4 * i) & 1U) != 0U) {
			of[2][i] = scale_value(by, (uint32_t)of[0][i], real_of(of[1][i]));
		}
	}
	return vldrwq_s32(of[2]);
}

/**
 * scale_value() of four magnitudes, or zeros, and bits of float32 gains: by one product, unless
 * that is near a half.
 */
VMCU_INLINE int32x4_t magnitudes_of(const struct divisor *by, int32x4_t values, int32x4_t gains)
{
	const int32_t exponent = 44 + by->root.exponent + by->scale.exponent + 150;
	const uint32x4_t bits = vshlq_n_u32((uint32x4_t)gains, 8);
	const uint32x4_t mantissa = vshrq_n_u32(vorrq_u32(bits, vdupq_n_u32(1U << 31)), 1);
	const uint32x4_t found = vmulhq_u32((uint32x4_t)vmulq_n_s32(values, by->inverse), mantissa);
	/* The most that the factors and the roundings of float32 change in `found`. */
	const uint32x4_t noise = vaddq_n_u32(vshrq_n_u32(found, 20), 2);
	const int32x4_t biased = (int32x4_t)vshrq_n_u32(vshlq_n_u32((uint32x4_t)gains, 1), 24);
	const int32x4_t drop = vmaxq_s32(
		vminq_s32(vsubq_s32(vdupq_n_s32(exponent), biased), vdupq_n_s32(MOST_DROP)),
		vdupq_n_s32(LEAST_DROP));
	const uint32x4_t half = vshlq_u32(vdupq_n_u32(1), vsubq_n_s32(drop, 1));
	const uint32x4_t sum = vaddq_u32(found, half);
	const uint32x4_t low = vshlq_u32(vsubq_u32(sum, noise), vnegq_s32(drop));
	const uint32x4_t high = vshlq_u32(vaddq_u32(sum, noise), vnegq_s32(drop));
	const mve_pred16_t near = vcmpneq_u32(low, high);

	return (near == 0) ? (int32x4_t)high : scale_near(by, values, gains, (int32x4_t)high, near);
}

/** Writes a pixel's channels. */
VMCU_INLINE void scale_pixel(const struct vmcu_rms_norm_params *p, const struct divisor *by,
			     const int8_t *src, int8_t *dst, int32_t channels)
{
	const int32_t *gain = p->gain;

	for (; channels > 0; channels -= 4, gain += 4, src += 4, dst += 4) {
		const int32x4_t value = vsubq_n_s32(vmcu_four(src, channels), p->input_zero);
		const int32x4_t gains = vmcu_four_words(gain, channels);
		const int32x4_t sign = vshrq_n_s32(veorq_s32(value, gains), 31);
		int32x4_t found = magnitudes_of(by, vabsq_s32(value), gains);

		found = vsubq_s32(veorq_s32(found, sign), sign);
		vmcu_put_four(dst, found, p->output_zero, p->act_min, p->act_max, channels);
	}
}
#else
/** The same for any @a value: by one product, unless that is near a half. */
static int32_t magnitude_of(const struct divisor *by, int32_t value, struct real gain)
{
	const int64_t product = (int64_t)(value * by->inverse) * ((int64_t)gain.mantissa << 7);
	const uint32_t found = (uint32_t)((uint64_t)product >> 32);
	/* The most that the factors and the roundings of float32 change in `found`. */
	const uint32_t noise = (found >> 20) + 2U;
	const int32_t drop = 44 + by->root.exponent + by->scale.exponent - gain.exponent;
	uint32_t half;

	if (value == 0 || drop > 31) {
		return 0;
	}
	if (drop < 10) {
		return VMCU_SCALE_LIMIT;
	}
	half = UINT32_C(1) << (drop - 1);
	if ((found + half - noise) >> drop == (found + half + noise) >> drop) {
		return (int32_t)((found + half) >> drop);
	}
	return scale_value(by, (uint32_t)value, gain);
}

/** Writes a pixel's channels. */
VMCU_INLINE void scale_pixel(const struct vmcu_rms_norm_params *p, const struct divisor *by,
			     const int8_t *src, int8_t *dst, int32_t channels)
{
	for (int32_t c = 0; c < channels; c++) {
		const int32_t value = src[c] - p->input_zero;
		const int32_t magnitude = (value < 0) ? -value : value;
		const int32_t found = magnitude_of(by, magnitude, real_of(p->gain[c]));
		const bool negative = (value < 0) != (p->gain[c] < 0);

		dst[c] = vmcu_saturate(negative ? -found : found, p->output_zero, p->act_min,
				       p->act_max);
	}
}
#endif

void vmcu_rms_norm(const struct vmcu_call *call)
{
	VMCU_OWN_PARAMS(vmcu_rms_norm_params, p, call);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const int32_t channels = out->channels;
	const int8_t *src = vmcu_pixel(call->pool, vmcu_call_input(call, 0), call->y, call->x);
	int8_t *dst = vmcu_pixel(call->pool, out, call->y, call->x);

	VMCU_OWN_POINTER(call, p, gain);
	for (int32_t x = 0; x < call->columns; x++) {
		const struct divisor by = measure_pixel(p, src, channels);

		scale_pixel(p, &by, src, dst, channels);
		src += channels;
		dst += channels;
	}
}
