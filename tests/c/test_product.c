/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Products of cores without a long multiplication, against int64, at the edges of their
 * halves and for random factors.
 */

#define VMCU_LONG_MULTIPLY 0

#include <stdio.h>

#include "../../lib/vmcu/kernels/support.h"

#define RANDOM 10000000

static int failures;

static void check(int32_t a, int32_t b)
{
	const int64_t product = (int64_t)a * b;
	const int32_t scaled = (int32_t)(((int64_t)a * (int8_t)b) >> 8);
	const bool most = a == INT32_MIN && b == INT32_MIN;
	const int64_t high = (product + ((int64_t)1 << 30)) >> 31;

	if (vmcu_product(a, b) != product || vmcu_high_mul(a, b) != (most ? INT32_MAX : high) ||
	    vmcu_scaled_byte(a, (int8_t)b, 8) != scaled) {
		failures++;
		printf("%ld * %ld\n", (long)a, (long)b);
	}
}

/** xorshift32. */
static uint32_t next(uint32_t x)
{
	x ^= x << 13;
	x ^= x >> 17;
	return x ^ x << 5;
}

int main(void)
{
	static const int32_t halves[] = {0,      1,      2,      3,      0x7fff, 0x8000,
					 0x8001, 0xfffe, 0xffff, 0x7ffe, 0x00ff, 0x0100};
	const int count = (int)(sizeof(halves) / sizeof(halves[0]));
	uint32_t x = 1;

	for (int i = 0; i < count * count * count * count; i++) {
		const uint32_t a =
			(uint32_t)halves[i % count] << 16 | (uint32_t)halves[i / count % count];
		const uint32_t b = (uint32_t)halves[i / count / count % count] << 16 |
				   (uint32_t)halves[i / count / count / count];

		check((int32_t)a, (int32_t)b);
	}
	for (int i = 0; i < RANDOM; i++) {
		const uint32_t a = next(x);

		x = next(a);
		/* Of all magnitudes. */
		check((int32_t)a >> (i & 15), (int32_t)x >> ((i >> 4) & 15));
	}
	return failures != 0;
}
