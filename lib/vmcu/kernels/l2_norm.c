/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/operators.h>

#include "support.h"

#define STEPS           5          /**< of Newton's method */
#define HALF_ROOT       1518500250 /**< sqrt(1/2) in Q0.31 */
#define ONE_Q3          (1 << 28)
#define THREE_HALVES_Q3 (3 << 27)
/** x is divided by four until it is below. */
#define LIMIT           (UINT32_C(1) << 29)
/** Right shift of the root where x is 2^27 or more, and below LIMIT. */
#define SHIFT           11
/** The output counts in 1/128. */
#define OUTPUT_BITS     7

/** One over a root: @a multiplier in Q0.31 times a power of two. */
struct inverse {
	int32_t multiplier;
	int32_t shift;
};

/**
 * 1 / sqrt(x) by five steps of Newton's method in Q3.28, as TensorFlow Lite computes it: of x
 * times a power of four, and then times sqrt(1/2), as that number counts half of x.
 */
static struct inverse inverse_root(uint32_t x)
{
	int32_t shift = SHIFT;
	int32_t pairs;
	int32_t whole;
	int32_t half;
	int32_t root = ONE_Q3;

	if (x <= 1U) {
		return (struct inverse){INT32_MAX, 0};
	}
	for (; x >= LIMIT; x /= 4U) {
		shift++;
	}
	pairs = ((__builtin_clz(x) - 1) / 2) - 1;
	shift -= pairs;
	whole = (int32_t)((x << (2 * pairs)) >> 1);
	half = (whole + 1) >> 1;
	for (int i = 0; i < STEPS; i++) {
		const int32_t cube = vmcu_high_mul(vmcu_high_mul(root, root), root);
		const int32_t drop = vmcu_high_mul(half, vmcu_saturating_shift(cube, 6));

		root = vmcu_saturating_shift(vmcu_high_mul(THREE_HALVES_Q3, root) - drop, 3);
	}
	root = vmcu_high_mul(root, HALF_ROOT);
	if (shift < 0) {
		return (struct inverse){root * (1 << -shift), 0};
	}
	return (struct inverse){root, -shift};
}

VMCU_SMALL void vmcu_l2_norm(const struct vmcu_call *call)
{
	const struct vmcu_l2_norm_params *p = vmcu_params(call);
	const int32_t channels = vmcu_call_output(call)->channels;
	const int8_t *src = vmcu_pixel(call->pool, vmcu_call_input(call, 0), call->y, call->x);
	int8_t *dst = vmcu_pixel(call->pool, vmcu_call_output(call), call->y, call->x);

	for (int32_t x = 0; x < call->columns; x++) {
		uint32_t squares = 0;
		struct inverse norm;

		for (int32_t c = 0; c < channels; c++) {
			const int32_t value = src[c] - p->input_zero;

			squares += (uint32_t)(value * value);
		}
		norm = inverse_root(squares);
		for (int32_t c = 0; c < channels; c++) {
			const int32_t value = src[c] - p->input_zero;

			dst[c] = vmcu_saturate(
				vmcu_fixed_scale(value, norm.multiplier, norm.shift + OUTPUT_BITS),
				0, p->act_min, p->act_max);
		}
		src += channels;
		dst += channels;
	}
}
