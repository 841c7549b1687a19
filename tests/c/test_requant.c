/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Requantisers by hand-picked values, then both float paths against each other.
 */

#include <float.h>
#include <stdint.h>

#include <vmcu/requant.h>

#include "check.h"

#define RANDOM_CASES 2000000

static void test_high_mul(void)
{
	CHECK(vmcu_high_mul(INT32_MIN, INT32_MIN) == INT32_MAX);
	CHECK(vmcu_high_mul(INT32_MAX, INT32_MAX) == INT32_MAX - 1);
	CHECK(vmcu_high_mul(1, 1 << 30) == 1);
	CHECK(vmcu_high_mul(-1, 1 << 30) == 0);
	CHECK(vmcu_high_mul(3, 1 << 30) == 2);
	CHECK(vmcu_high_mul(-3, 1 << 30) == -1);
}

static void test_rounding_shift(void)
{
	CHECK(vmcu_rounding_shift(5, 0) == 5);
	CHECK(vmcu_rounding_shift(5, 1) == 3);
	CHECK(vmcu_rounding_shift(-5, 1) == -3);
	CHECK(vmcu_rounding_shift(INT32_MAX, 31) == 1);
	CHECK(vmcu_rounding_shift(INT32_MIN, 31) == -1);
	CHECK(vmcu_rounding_shift((1 << 30) - 1, 31) == 0);
	CHECK(vmcu_rounding_shift(-(1 << 30), 31) == -1);
}

static void test_fixed_scale(void)
{
	CHECK(vmcu_fixed_scale(100, 1 << 30, 0) == 50);
	CHECK(vmcu_fixed_scale(100, 1 << 30, 3) == 400);
	CHECK(vmcu_fixed_scale(100, 1 << 30, -3) == 6);
	CHECK(vmcu_fixed_scale(-100, 1 << 30, -3) == -6);
	CHECK(vmcu_fixed_scale(3, 1 << 30, 31) == INT32_MIN / 2);
}

static void test_saturate(void)
{
	CHECK(vmcu_saturate(INT32_MAX, 127, -128, 127) == 127);
	CHECK(vmcu_saturate(INT32_MIN, -128, -128, 127) == -128);
	CHECK(vmcu_saturate(10, -5, -128, 127) == 5);
	CHECK(vmcu_saturate(10, -5, 6, 127) == 6);
	CHECK(vmcu_saturate(10, -5, -128, 4) == 4);
}

static void both(int32_t acc, float scale, int32_t expected)
{
	CHECK(vmcu_float_scale_soft(acc, scale) == expected);
#if VMCU_FLOAT_SCALE
	CHECK(vmcu_to_integer_hard(vmcu_float_product_hard(acc, scale)) == expected);
#endif
}

static void test_float_ties(void)
{
	both(1, 0.5f, 0);
	both(3, 0.5f, 2);
	both(5, 0.5f, 2);
	both(-1, 0.5f, 0);
	both(-3, 0.5f, -2);
	both(-5, 0.5f, -2);
	both(3, -0.5f, -2);
	/* 2^24 + 1 is no float32: it becomes 2^24, 2^24 + 3 becomes 2^24 + 4. */
	both((1 << 24) + 1, 0x1p-23f, 2);
	both((1 << 24) + 3, 0x1p-10f, 16384);
}

static void test_float_extremes(void)
{
	both(0, FLT_MAX, 0);
	both(INT32_MIN, 0x1p-31f, -1);
	both(INT32_MIN, 0x1p-32f, 0);
	both(INT32_MAX, 0x1p-31f, 1);
	both(INT32_MAX, FLT_MAX, VMCU_SCALE_LIMIT);
	both(INT32_MIN, FLT_MAX, -VMCU_SCALE_LIMIT);
	both(INT32_MAX, FLT_MIN, 0);
	both(INT32_MAX, FLT_MIN / 4.0f, 0);
	both(INT32_MAX, 0.0f, 0);
	both(VMCU_SCALE_LIMIT - 1, 1.0f, VMCU_SCALE_LIMIT - 1);
	both(VMCU_SCALE_LIMIT + 1, 1.0f, VMCU_SCALE_LIMIT);
}

static uint32_t next_random(void)
{
	static uint32_t state = 1;

	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

static void test_float_paths_agree(void)
{
#if VMCU_FLOAT_SCALE
	for (int i = 0; i < RANDOM_CASES; i++) {
		const int32_t acc = (int32_t)next_random() >> (next_random() % 31U);
		union {
			uint32_t bits;
			float value;
		} scale = {.bits = next_random()};
		/* Exponents for which many products land between a half and the limit. */
		const uint32_t exponent = 127U - 40U + next_random() % 50U;

		scale.bits = (scale.bits & 0x807fffffU) | (exponent << 23);
		if (i % 4 == 0) {
			/* Few mantissa bits make exact ties. */
			scale.bits &= 0xfff00000U;
		}
		CHECK(vmcu_float_scale_soft(acc, scale.value) ==
		      vmcu_to_integer_hard(vmcu_float_product_hard(acc, scale.value)));
	}
#endif
}

int main(void)
{
	test_high_mul();
	test_rounding_shift();
	test_fixed_scale();
	test_saturate();
	test_float_ties();
	test_float_extremes();
	test_float_paths_agree();
	return 0;
}
