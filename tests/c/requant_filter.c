/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Requantises records from stdin to stdout, for a comparison with numpy.
 *
 * A record is an int32 accumulator, a multiplier (or the bits of a float32), a shift and an
 * addend; its result is the fixed-point, the soft float and the hard float value, and the latter
 * two with the addend.
 */

#include <stdint.h>
#include <stdio.h>

#include <vmcu/requant.h>

struct record {
	int32_t acc;
	union {
		int32_t multiplier;
		float scale;
	} factor;
	int32_t shift;
	int32_t addend;
};

int main(void)
{
	struct record r;

	while (fread(&r, sizeof(r), 1, stdin) == 1U) {
		const int32_t results[] = {
			vmcu_fixed_scale(r.acc, r.factor.multiplier, r.shift),
			vmcu_float_scale_soft(r.acc, r.factor.scale),
			vmcu_float_scale(r.acc, r.factor.scale),
			vmcu_float_scale_add_soft(r.acc, r.factor.scale, r.addend),
			vmcu_float_scale_add(r.acc, r.factor.scale, r.addend),
		};

		(void)fwrite(results, sizeof(results), 1, stdout);
	}
	return 0;
}
