/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief From an int32 accumulator to an int8 output, to the bit.
 *
 * The same arithmetic in numpy is python/vmcu_tools/quant.py. Two requantisers exist because the
 * runtimes that models are written for disagree: TensorFlow Lite works in fixed point, ONNX
 * Runtime in float32. Both give the same bytes on every core. Right shifts of negative numbers
 * are arithmetic on every compiler that targets the cores this runs on.
 */

#ifndef VMCU_REQUANT_H_
#define VMCU_REQUANT_H_

#include <float.h>
#include <stdbool.h>
#include <stdint.h>

#include <vmcu/config.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_requant Requantisation
 * @{
 */

/*
 * A build for models of one kind may leave the other kind's requantiser out of the kernels that
 * have both: VMCU_NO_REQUANT_FIXED where all models are .onnx, VMCU_NO_REQUANT_FLOAT where all are
 * .tflite. A model that needs what is missing does not compile.
 */
#if defined(VMCU_NO_REQUANT_FIXED) && defined(VMCU_NO_REQUANT_FLOAT)
#error "set CONFIG_VMCU_REQUANT_FIXED=y for .tflite models, CONFIG_VMCU_REQUANT_FLOAT=y for .onnx"
#endif

/** Whether a layer has float32 factors, see @a is_float; known to builds with one requantiser. */
static inline bool vmcu_requant_is_float(bool is_float)
{
#if defined(VMCU_NO_REQUANT_FIXED)
	(void)is_float;
	return true;
#elif defined(VMCU_NO_REQUANT_FLOAT)
	(void)is_float;
	return false;
#else
	return is_float;
#endif
}

/** Float requantised values are cut here: every output type clips long before. */
#define VMCU_SCALE_LIMIT 1048576

/*
 * The float path wants one float32 product, rounded once. Without single precision hardware, with
 * excess precision (x87) or with -ffast-math a float expression does not promise that, so those
 * builds take the integer path, which gives the same bytes.
 */
#if defined(__FAST_MATH__) || (FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16) ||                   \
	(defined(__arm__) && !(defined(__ARM_FP) && (__ARM_FP & 4)))
#define VMCU_FLOAT_SCALE 0
#else
#define VMCU_FLOAT_SCALE 1
#endif

/** Saturating rounding doubling high multiplication: a * b / 2^31 to nearest, ties upwards. */
static inline int32_t vmcu_high_mul(int32_t a, int32_t b)
{
	if (a == INT32_MIN && b == INT32_MIN) {
		return INT32_MAX;
	}
	return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
}

/** x / 2^exponent to nearest, ties away from zero; @a exponent is 0 to 31. */
static inline int32_t vmcu_rounding_shift(int32_t x, int32_t exponent)
{
	const int32_t mask = (int32_t)(((uint32_t)1 << exponent) - 1U);
	const int32_t threshold = (mask >> 1) + ((x < 0) ? 1 : 0);

	return (x >> exponent) + (((x & mask) > threshold) ? 1 : 0);
}

/** x << shift with the bits beyond 32 lost. */
static inline int32_t vmcu_wrapping_shift(int32_t x, int32_t shift)
{
	return (int32_t)((uint32_t)x << shift);
}

/** Scales by a Q0.31 multiplier and a power of two; a positive @a shift is to the left. */
static inline int32_t vmcu_fixed_scale(int32_t x, int32_t multiplier, int32_t shift)
{
	if (shift >= 0) {
		return vmcu_high_mul(vmcu_wrapping_shift(x, shift), multiplier);
	}
	return vmcu_rounding_shift(vmcu_high_mul(x, multiplier), -shift);
}

/** x / 2^drop to nearest, ties to even; @a drop is 1 to 63. */
static inline uint32_t vmcu_half_even(uint64_t x, int32_t drop)
{
	const uint64_t odd = (x >> drop) & 1U;

	return (uint32_t)((x + (((uint64_t)1 << (drop - 1)) - 1U) + odd) >> drop);
}

/** The same for x up to 2^31 and @a drop up to 30, where 64 bits would take their time. */
static inline uint32_t vmcu_half_even_32(uint32_t x, int32_t drop)
{
	return (x + ((UINT32_C(1) << (drop - 1)) - 1U) + ((x >> drop) & 1U)) >> drop;
}

/** Rounds to 24 bits, half to even, what drops out is added to @a exponent; x is not zero. */
static inline uint32_t vmcu_to_24_bits(uint64_t x, int32_t *exponent)
{
	const int32_t drop = 40 - __builtin_clzll(x);

	if (drop <= 0) {
		return (uint32_t)x;
	}
	*exponent += drop;
	return vmcu_half_even(x, drop);
}

/** The same for x up to 2^31. */
static inline uint32_t vmcu_to_24_bits_32(uint32_t x, int32_t *exponent)
{
	const int32_t drop = 8 - __builtin_clz(x);

	if (drop <= 0) {
		return x;
	}
	*exponent += drop;
	return vmcu_half_even_32(x, drop);
}

/** x * 2^exponent to an integer, half to even, cut at VMCU_SCALE_LIMIT; x has up to 25 bits. */
static inline int32_t vmcu_to_integer(uint32_t x, int32_t exponent)
{
	if (exponent < 0) {
		x = (exponent < -25) ? 0U : vmcu_half_even_32(x, -exponent);
		exponent = 0;
	}
	if (exponent > 20) {
		exponent = 20;
	}
	if (x > ((uint32_t)VMCU_SCALE_LIMIT >> exponent)) {
		return VMCU_SCALE_LIMIT;
	}
	return (int32_t)(x << exponent);
}

/**
 * The magnitude of float32(acc) * scale in integers, times a power of two. A float32 is 24 bits
 * times a power of two, so both of its roundings, of @a acc and of the product, are roundings to
 * 24 bits.
 */
static inline uint32_t vmcu_float_product(int32_t acc, uint32_t scale_bits, int32_t *exponent)
{
	const int32_t biased = (int32_t)((scale_bits >> 23) & 0xffU);
	const uint32_t factor = (scale_bits & 0x7fffffU) | 0x800000U;
	uint32_t magnitude = (acc < 0) ? 0U - (uint32_t)acc : (uint32_t)acc;

	*exponent = biased - 150;
	/* A subnormal factor scales all of int32 to less than a half. */
	if (acc == 0 || biased == 0) {
		return 0;
	}
	magnitude = vmcu_to_24_bits_32(magnitude, exponent);
	return vmcu_to_24_bits((uint64_t)magnitude * factor, exponent);
}

/** vmcu_float_scale() in integers. */
static inline int32_t vmcu_float_scale_soft(int32_t acc, float scale)
{
	const union {
		float value;
		uint32_t bits;
	} factor = {scale};
	int32_t exponent;
	const uint32_t magnitude = vmcu_float_product(acc, factor.bits, &exponent);
	const int32_t rounded = vmcu_to_integer(magnitude, exponent);

	return ((acc < 0) != ((factor.bits >> 31) != 0U)) ? -rounded : rounded;
}

/** vmcu_float_scale_add() in integers. */
static inline int32_t vmcu_float_scale_add_soft(int32_t acc, float scale, int32_t addend)
{
	const union {
		float value;
		uint32_t bits;
	} factor = {scale};
	const bool negative = (acc < 0) != ((factor.bits >> 31) != 0U);
	int32_t exponent;
	uint32_t magnitude = vmcu_float_product(acc, factor.bits, &exponent);
	int64_t sum = negative ? -(int64_t)magnitude : (int64_t)magnitude;
	int32_t rounded;

	if (magnitude == 0U || exponent < -25) {
		/* Less than a half, whatever it is added to. */
		return addend;
	}
	if (exponent < 0) {
		sum += addend * ((int64_t)1 << -exponent);
	}
	if (sum == 0) {
		return 0;
	}
	magnitude = vmcu_to_24_bits((uint64_t)((sum < 0) ? -sum : sum), &exponent);
	rounded = vmcu_to_integer(magnitude, exponent);
	return (sum < 0) ? -rounded : rounded;
}

#if VMCU_FLOAT_SCALE
/** float32(acc) * scale on hardware that rounds it once, to nearest even. */
static inline float vmcu_float_product_hard(int32_t acc, float scale)
{
	float product = (float)acc * scale;

	/*
	 * Builds say -ffp-contract=off; should one forget, the compiler must still not see that
	 * the product is added to something, or it makes one fused operation of both.
	 */
#if defined(__arm__)
	__asm__("" : "+t"(product));
#elif defined(__aarch64__)
	__asm__("" : "+w"(product));
#elif defined(__x86_64__)
	__asm__("" : "+x"(product));
#else
	*(volatile float *)&product = product;
#endif
	return product;
}

/** x to an integer, half to even, cut at VMCU_SCALE_LIMIT. */
static inline int32_t vmcu_to_integer_hard(float x)
{
	union {
		float value;
		int32_t bits;
	} rounded;

	if (x > (float)VMCU_SCALE_LIMIT) {
		x = (float)VMCU_SCALE_LIMIT;
	}
	if (x < -(float)VMCU_SCALE_LIMIT) {
		x = -(float)VMCU_SCALE_LIMIT;
	}
	/* 1.5 * 2^23: the sum's last bit weighs one, so the addition rounds to an integer. */
	rounded.value = x + 12582912.0f;
	return rounded.bits - 0x4b400000;
}
#endif

/** float32(acc) * scale as a float32 product, cut at VMCU_SCALE_LIMIT, rounded half to even. */
static inline int32_t vmcu_float_scale(int32_t acc, float scale)
{
#if VMCU_FLOAT_SCALE
	return vmcu_to_integer_hard(vmcu_float_product_hard(acc, scale));
#else
	return vmcu_float_scale_soft(acc, scale);
#endif
}

/**
 * The same with an integer of up to nine bits added, in float32, before the result is rounded to
 * an integer.
 */
static inline int32_t vmcu_float_scale_add(int32_t acc, float scale, int32_t addend)
{
#if VMCU_FLOAT_SCALE
	return vmcu_to_integer_hard(vmcu_float_product_hard(acc, scale) + (float)addend);
#else
	return vmcu_float_scale_add_soft(acc, scale, addend);
#endif
}

/** x + zero_point within low to high, without overflow for any @a x. */
static inline int8_t vmcu_saturate(int32_t x, int32_t zero_point, int32_t low, int32_t high)
{
	if (x < low - zero_point) {
		return (int8_t)low;
	}
	if (x > high - zero_point) {
		return (int8_t)high;
	}
	return (int8_t)(x + zero_point);
}

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_REQUANT_H_ */
