/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/operators.h>

#include "support.h"

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
	int32_t shift = 11;
	int32_t pairs;
	int32_t whole;
	int32_t half;
	int32_t root = 1 << 28;

	if (x <= 1U) {
		return (struct inverse){INT32_MAX, 0};
	}
	for (; x >= (UINT32_C(1) << 29); x /= 4U) {
		shift++;
	}
	pairs = ((__builtin_clz(x) - 1) / 2) - 1;
	shift -= pairs;
	whole = (int32_t)((x << (2 * pairs)) >> 1);
	half = (whole + 1) >> 1;
	for (int i = 0; i < 5; i++) {
		const int32_t cube = vmcu_high_mul(vmcu_high_mul(root, root), root);
		const int32_t drop = vmcu_high_mul(half, vmcu_saturating_shift(cube, 6));

		root = vmcu_saturating_shift(vmcu_high_mul(3 << 27, root) - drop, 3);
	}
	root = vmcu_high_mul(root, 1518500250);
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

			/* Times 2^7, as the output counts in 1/128. */
			dst[c] = vmcu_saturate(
				vmcu_fixed_scale(value, norm.multiplier, norm.shift + 7), 0,
				p->act_min, p->act_max);
		}
		src += channels;
		dst += channels;
	}
}
