/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Checks the contracts that scripts/frama_c.sh takes for the code of functions.
 */

#include <stdint.h>
#include <string.h>

#include <vmcu/requant.h>

/** Values around each power of two, of both signs. */
#define AROUND 64
#define VALUES (32 * AROUND)

/** Of every float32: both bounds are met and none is exceeded. */
static int check_to_integer(void)
{
	int32_t least = 0;
	int32_t most = 0;
	uint32_t bits = 0U;

	do {
		float x;
		int32_t rounded;

		memcpy(&x, &bits, sizeof(x));
		rounded = vmcu_to_integer_hard(x);
		least = (rounded < least) ? rounded : least;
		most = (rounded > most) ? rounded : most;
		bits++;
	} while (bits != 0U);
	return (least == -VMCU_SCALE_LIMIT && most == VMCU_SCALE_LIMIT) ? 0 : 1;
}

static int32_t value(uint32_t i)
{
	return (int32_t)(((uint32_t)1 << (i / AROUND)) + i % AROUND - AROUND / 2U);
}

static int check_bounds(void)
{
	for (uint32_t i = 0; i < VALUES; i++) {
		for (uint32_t k = 0; k < VALUES; k++) {
			const int32_t x = value(i);
			const int32_t bound = value(k);

			if (vmcu_at_least(x, bound) != ((x < bound) ? bound : x) ||
			    vmcu_at_most(x, bound) != ((x > bound) ? bound : x)) {
				return 1;
			}
		}
	}
	return 0;
}

int main(void)
{
	return check_bounds() | check_to_integer();
}
