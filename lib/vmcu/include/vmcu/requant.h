/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Requantisation: converts int32 accumulators to int8 outputs, bit-exactly.
 *
 * python/vmcu_tools/quant.py has the same arithmetic in numpy. There are two requantisers because
 * the runtimes of the model files differ: TensorFlow Lite computes in fixed point, ONNX Runtime in
 * float32. Each computes the same bytes on every core. The code requires arithmetic right shifts of
 * negative numbers, which all compilers for these cores have.
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
 * A build for models of one format can omit the other requantiser: VMCU_NO_REQUANT_FIXED if all
 * models are .onnx, VMCU_NO_REQUANT_FLOAT if all models are .tflite. A model that needs the omitted
 * requantiser does not compile.
 */
#if defined(VMCU_NO_REQUANT_FIXED) && defined(VMCU_NO_REQUANT_FLOAT)
#error "set CONFIG_VMCU_REQUANT_FIXED=y for .tflite models, CONFIG_VMCU_REQUANT_FLOAT=y for .onnx"
#endif

/** Returns true if a layer has float32 factors. It is constant in builds with one requantiser. */
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

/** Magnitude limit of float requantised values, far beyond the range of every output type. */
#define VMCU_SCALE_LIMIT 1048576

/*
 * The float path requires one float32 product, rounded once. Without single precision hardware,
 * with excess precision (x87) or with -ffast-math, a float expression does not guarantee that.
 * Those builds use the integer path, which computes the same bytes.
 */
#if defined(__FAST_MATH__) || (FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16) ||                   \
	(defined(__arm__) && !(defined(__ARM_FP) && (__ARM_FP & 4))) ||                            \
	(defined(__riscv) && !defined(__riscv_flen))
#define VMCU_FLOAT_SCALE 0
#else
#define VMCU_FLOAT_SCALE 1
#endif

/* Whether the core multiplies 32 by 32 bits into 64. */
#if !defined(VMCU_LONG_MULTIPLY)
#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
#define VMCU_LONG_MULTIPLY 0
#else
#define VMCU_LONG_MULTIPLY 1
#endif
#endif

/** Returns a * b: without a long multiplication from four short ones, since a call takes longer. */
static inline int64_t vmcu_product(int32_t a, int32_t b)
{
#if VMCU_LONG_MULTIPLY
	return (int64_t)a * b;
#else
	const int32_t a_high = a >> 16;
	const int32_t b_high = b >> 16;
	const uint32_t a_low = (uint16_t)a;
	const uint32_t b_low = (uint16_t)b;
	const uint32_t low = a_low * b_low;
	const int32_t one = (int32_t)a_low * b_high + (int32_t)(low >> 16);
	const int32_t other = a_high * (int32_t)b_low + (int32_t)(one & 0xffff);
	const int32_t high = a_high * b_high + (one >> 16) + (other >> 16);

	return (int64_t)((uint64_t)(uint32_t)high << 32 | (uint32_t)other << 16 | (uint16_t)low);
#endif
}

/*
 * Constant time: with the exceptions in doc/ops.md, kernels execute the same number of instructions
 * for every value of an activation. Empty assembly statements hide masks from the compiler, which
 * could otherwise make branches of them.
 */

/** Returns -1 if @a x is negative, else 0. */
static inline int32_t vmcu_sign(int32_t x)
{
	int32_t sign = x >> 31;

	__asm__("" : "+r"(sign));
	return sign;
}

/** Returns -1 if a < b, else 0. */
static inline int32_t vmcu_below(int32_t a, int32_t b)
{
#if defined(__arm__)
	int32_t mask = (int32_t)(((int64_t)a - b) >> 32);
#else
	int32_t mask = (a < b) ? -1 : 0;
#endif

	__asm__("" : "+r"(mask));
	return mask;
}

/** Returns the larger one of @a x and @a low. */
/*@ assigns \result \from x, low; ensures \result >= low && (\result == x || \result == low); */
static inline int32_t vmcu_at_least(int32_t x, int32_t low)
{
#if defined(__thumb2__)
	__asm__("cmp %0, %1\n\tit lt\n\tmovlt %0, %1" : "+r"(x) : "r"(low) : "cc");
	return x;
#else
	return x ^ ((x ^ low) & vmcu_below(x, low));
#endif
}

/** Returns the smaller one of @a x and @a high. */
/*@ assigns \result \from x, high; ensures \result <= high && (\result == x || \result == high); */
static inline int32_t vmcu_at_most(int32_t x, int32_t high)
{
#if defined(__thumb2__)
	__asm__("cmp %0, %1\n\tit gt\n\tmovgt %0, %1" : "+r"(x) : "r"(high) : "cc");
	return x;
#else
	return x ^ ((x ^ high) & vmcu_below(high, x));
#endif
}

/** Returns the larger one of two numbers of 31 bits. */
static inline int32_t vmcu_larger(int32_t a, int32_t b)
{
#if defined(__thumb2__)
	return vmcu_at_least(a, b);
#else
	return a - ((a - b) & vmcu_sign(a - b));
#endif
}

/** Returns the smaller one of two numbers of 31 bits. */
static inline int32_t vmcu_smaller(int32_t a, int32_t b)
{
#if defined(__thumb2__)
	return vmcu_at_most(a, b);
#else
	return b + ((a - b) & vmcu_sign(a - b));
#endif
}

/** Returns a * b / 2^31 rounded to nearest, ties upwards, saturated to int32. @a b is the constant
 * if one of them is.
 */
static inline int32_t vmcu_high_mul(int32_t a, int32_t b)
{
	if (b == INT32_MIN && a == INT32_MIN) {
		return INT32_MAX;
	}
	return (int32_t)((vmcu_product(a, b) + ((int64_t)1 << 30)) >> 31);
}

/** Returns x / 2^exponent rounded to nearest, ties away from zero; @a exponent is 0 to 31. */
static inline int32_t vmcu_rounding_shift(int32_t x, int32_t exponent)
{
	const int32_t mask = (int32_t)(((uint32_t)1 << exponent) - 1U);
	const int32_t threshold = (mask >> 1) + (int32_t)((uint32_t)x >> 31);

	return (x >> exponent) + (int32_t)((uint32_t)(threshold - (x & mask)) >> 31);
}

/** Returns x << shift modulo 2^32. */
static inline int32_t vmcu_wrapping_shift(int32_t x, int32_t shift)
{
	return (int32_t)((uint32_t)x << shift);
}

/** Scales @a x by a Q0.31 multiplier and a power of two. A positive @a shift is a left shift. */
static inline int32_t vmcu_fixed_scale(int32_t x, int32_t multiplier, int32_t shift)
{
	if (shift >= 0) {
		return vmcu_high_mul(vmcu_wrapping_shift(x, shift), multiplier);
	}
	/* vmcu_rounding_shift(), of which the exponent is at least 1 and x above INT32_MIN. */
	x = vmcu_high_mul(x, multiplier);
	x = (x + (x >> 31)) >> (-shift - 1);
	return (int32_t)((uint32_t)x + 1U) >> 1;
}

/** Returns x / 2^drop rounded to nearest, ties to even; @a drop is 1 to 63. */
static inline uint32_t vmcu_half_even(uint64_t x, int32_t drop)
{
	const uint64_t odd = (x >> drop) & 1U;

	return (uint32_t)((x + (((uint64_t)1 << (drop - 1)) - 1U) + odd) >> drop);
}

/** vmcu_half_even() for @a x up to 2^31 and @a drop up to 30: faster, in 32 bits. */
static inline uint32_t vmcu_half_even_32(uint32_t x, int32_t drop)
{
	return (x + ((UINT32_C(1) << (drop - 1)) - 1U) + ((x >> drop) & 1U)) >> drop;
}

/** Returns the leading zeros of @a x, 31 for 0. */
static inline int32_t vmcu_leading_zeros(uint32_t x)
{
#if defined(__thumb2__) || !(defined(__arm__) || defined(__riscv))
	return __builtin_clz(x | 1U);
#else
	int32_t zeros = 31;

	for (int32_t bits = 16; bits > 0; bits >>= 1) {
		/* `bits` if there is one above so many. */
		const int32_t some = bits & -(int32_t)((0U - (x >> bits)) >> 31);

		x >>= some;
		zeros -= some;
	}
	return zeros;
#endif
}

/**
 * Returns the magnitude of float32(acc) * scale as a number with a power of two in @a exponent: 24
 * bits, of which the first is set, or 2^24, or 0. A float32 is 24 bits times a power of two: both
 * roundings, of @a acc and of the product, round to 24 bits.
 */
static inline uint32_t vmcu_float_product(int32_t acc, uint32_t scale_bits, int32_t *exponent)
{
	const int32_t biased = (int32_t)((scale_bits >> 23) & 0xffU);
	const uint32_t factor = (scale_bits & 0x7fffffU) | 0x800000U;
	const uint32_t sign = 0U - ((uint32_t)acc >> 31);
	const uint32_t magnitude = ((uint32_t)acc ^ sign) - sign;
	const int32_t zeros = vmcu_leading_zeros(magnitude);
	const uint32_t whole = magnitude << zeros;
	const uint32_t rounded =
		(whole >> 8) + (((whole & 0xffU) + 0x7fU + ((whole >> 8) & 1U)) >> 8);
	const uint64_t product =
		(uint64_t)vmcu_product((int32_t)(rounded << 6), (int32_t)(factor << 7));
	const uint32_t low = (uint32_t)product;
	/* The last bit is set if a bit of the lower word is, which rounds alike. */
	const uint32_t high = (uint32_t)(product >> 32) | ((low | (0U - low)) >> 31);
	const int32_t drop = 4 + (int32_t)(high >> 28);

	/* For a subnormal factor, which scales all of int32 to less than a half, below -100. */
	*exponent = biased - 150 + 8 - zeros + 19 + drop;
	return vmcu_half_even_32(high, drop);
}

/** vmcu_float_scale() in integer arithmetic. */
static inline int32_t vmcu_float_scale_soft(int32_t acc, float scale)
{
	const union {
		float value;
		uint32_t bits;
	} factor = {scale};
	int32_t exponent;
	const uint32_t magnitude = vmcu_float_product(acc, factor.bits, &exponent);
	/* From 3, for the limit or more, to 26, for a half or less. */
	const int32_t drop = vmcu_smaller(vmcu_larger(-exponent, 3), 26);
	const int32_t rounded =
		vmcu_smaller((int32_t)vmcu_half_even_32(magnitude, drop), VMCU_SCALE_LIMIT);
	const int32_t sign = (acc ^ (int32_t)factor.bits) >> 31;

	return (rounded ^ sign) - sign;
}

/** Rounds @a x, not 0, to 24 bits, ties to even, and adds the dropped bits to @a exponent. */
static inline uint32_t vmcu_to_24_bits(uint64_t x, int32_t *exponent)
{
	const int32_t drop = 40 - __builtin_clzll(x);

	if (drop <= 0) {
		return (uint32_t)x;
	}
	*exponent += drop;
	return vmcu_half_even(x, drop);
}

/** Returns x * 2^exponent rounded to an integer, ties to even, at most VMCU_SCALE_LIMIT; @a x has
 * at most 25 bits.
 */
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

/** vmcu_float_scale_add() in integer arithmetic. */
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
		/* The product is less than a half: the sum rounds to the addend. */
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
/** Returns float32(acc) * scale on hardware that rounds it once, to nearest even. */
static inline float vmcu_float_product_hard(int32_t acc, float scale)
{
	float product = (float)acc * scale;

	/*
	 * Builds use -ffp-contract=off. In case one does not, this hides the product from the
	 * compiler, which could otherwise fuse it with an addition.
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

/** Rounds @a x to an integer, ties to even, with a magnitude of at most VMCU_SCALE_LIMIT. */
/*@ assigns \result \from x; ensures -1048576 <= \result <= 1048576; */
static inline int32_t vmcu_to_integer_hard(float x)
{
	union {
		float value;
		int32_t bits;
	} rounded = {x};
	const int32_t sign = rounded.bits & INT32_MIN;

	/* As float32 numbers do, their bits grow with magnitudes: 0x49800000 is 2^20. */
	rounded.bits = vmcu_at_most(rounded.bits & INT32_MAX, 0x49800000) | sign;
	/* 1.5 * 2^23: the sum's last bit weighs one, so the addition rounds to an integer. */
	rounded.value += 12582912.0f;
	return rounded.bits - 0x4b400000;
}
#endif

/** Returns the float32 product float32(acc) * scale, limited to VMCU_SCALE_LIMIT and rounded to an
 * integer, ties to even.
 */
static inline int32_t vmcu_float_scale(int32_t acc, float scale)
{
#if VMCU_FLOAT_SCALE
	return vmcu_to_integer_hard(vmcu_float_product_hard(acc, scale));
#else
	return vmcu_float_scale_soft(acc, scale);
#endif
}

/**
 * vmcu_float_scale() with an integer @a addend of at most nine bits, which it adds in float32
 * before it rounds to an integer.
 */
static inline int32_t vmcu_float_scale_add(int32_t acc, float scale, int32_t addend)
{
#if VMCU_FLOAT_SCALE
	return vmcu_to_integer_hard(vmcu_float_product_hard(acc, scale) + (float)addend);
#else
	return vmcu_float_scale_add_soft(acc, scale, addend);
#endif
}

/** Returns x + zero_point, limited to low..high, without overflow for any @a x. */
static inline int8_t vmcu_saturate(int32_t x, int32_t zero_point, int32_t low, int32_t high)
{
	x = vmcu_at_least(x, low - zero_point);
	return (int8_t)(vmcu_at_most(x, high - zero_point) + zero_point);
}

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_REQUANT_H_ */
