/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "support.h"

static uint64_t magnitude_of(int64_t x)
{
	return (uint64_t)((x < 0) ? -x : x);
}

/** Rounds to 24 bits, half to even, as float32 does. */
static int64_t round_to_24_bits(int64_t x)
{
	const uint64_t magnitude = magnitude_of(x);
	const int32_t drop = 40 - ((magnitude == 0U) ? 64 : __builtin_clzll(magnitude));
	int64_t found;

	if (drop <= 0) {
		return x;
	}
	found = (int64_t)vmcu_half_even(magnitude, drop) * ((int64_t)1 << drop);
	return (x < 0) ? -found : found;
}

VMCU_SMALL int32_t vmcu_float_sum_exact(const struct vmcu_float_sum *s, int32_t a, int32_t b)
{
	const int64_t inner = round_to_24_bits(s->constant + s->b * (b + s->offset));
	const int64_t sum = round_to_24_bits(inner + s->a * (a + s->offset));
	const int32_t magnitude = (int32_t)vmcu_half_even(magnitude_of(sum), VMCU_FLOAT_SUM_SHIFT);

	return ((sum < 0) ? -magnitude : magnitude) - s->offset;
}
