/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/operators.h>

#include "support.h"

/** Bits before the binary point of the sum of exponentials. */
#define SUM_INTEGER_BITS 12

#define HALF_ROOT  1518500250 /* sqrt(1/2) in Q0.31 */
#define FOURTH     1805811301 /* sqrt(sqrt(1/2)) */
#define LOG_2      1488522236
#define QUARTER_Q6 8388608 /* 1/4 in Q6.25 */
#define ONE_Q6     (1 << 25)

/** Coefficients of the quotient of polynomials, as TensorFlow Lite has them. */
#define NUMERATOR_CUBE     117049297
#define DENOMINATOR_LINE   638450708
#define DENOMINATOR_FIXED  1057819769
#define DENOMINATOR_SQUARE 127690142

/** Fractional bits of a logarithm, and of the output. */
#define LOG_BITS    26
#define OUTPUT_BITS 4

/** (a + b) / 2 to nearest, ties away from zero. */
static int32_t half_sum(int32_t a, int32_t b)
{
	const int64_t sum = (int64_t)a + b;

	return (int32_t)((sum + ((sum >= 0) ? 1 : -1)) / 2);
}

/**
 * The logarithm in Q5.26 of a sum in Q12.19 that is at least 1, as TensorFlow Lite computes it: x
 * is r times a power of two, or of two times sqrt(1/2), whichever leaves the smaller r, and log(r)
 * a quotient of polynomials around sqrt(sqrt(1/2)).
 */
static int32_t compute_log(int32_t x)
{
	const int32_t room = __builtin_clz((uint32_t)x);
	const int32_t room_b = __builtin_clz((uint32_t)vmcu_high_mul(x, HALF_ROOT)) - 1;
	const int32_t normal = vmcu_saturating_shift(x, room - 1);
	const int32_t r_a = vmcu_saturating_shift(vmcu_high_mul(normal, HALF_ROOT), 1);
	const int32_t r_b = vmcu_saturating_shift(x, room_b);
	const int32_t power_a = (SUM_INTEGER_BITS - room) * ONE_Q6 + QUARTER_Q6;
	const int32_t power_b = (SUM_INTEGER_BITS - room_b) * ONE_Q6 - QUARTER_Q6;
	const int32_t r = (r_a < r_b) ? r_a : r_b;
	const int32_t power = (power_a > power_b) ? power_a : power_b;
	const int32_t p = half_sum(r, FOURTH);
	const int32_t q = 2 * (r - FOURTH);
	const int32_t square = vmcu_high_mul(q, q);
	const int32_t num =
		vmcu_high_mul(q, r) + vmcu_high_mul(vmcu_high_mul(q, square), NUMERATOR_CUBE);
	const int32_t inner = DENOMINATOR_FIXED + q + vmcu_high_mul(DENOMINATOR_SQUARE, square);
	const int32_t denominator = vmcu_high_mul(p, inner) + vmcu_high_mul(DENOMINATOR_LINE, q);
	const int32_t part =
		vmcu_high_mul(vmcu_rounding_shift(num, 6), vmcu_reciprocal(denominator));

	return vmcu_saturating_shift(vmcu_high_mul(power, LOG_2) + part, 1);
}

VMCU_SMALL static void compute_pixel(const struct vmcu_log_softmax_tflite_params *p,
				     const int8_t *src, int8_t *dst, int32_t channels)
{
	const int32_t top = vmcu_maximum(src, channels);
	int32_t sum = 0;
	int32_t log_sum;

	for (int32_t c = 0; c < channels; c++) {
		sum += vmcu_rounding_shift((int32_t)p->exp[(uint8_t)(top - src[c])],
					   SUM_INTEGER_BITS);
	}
	log_sum = compute_log(sum);
	for (int32_t c = 0; c < channels; c++) {
		const int32_t value = vmcu_rounding_shift(
			p->scaled[(uint8_t)(top - src[c])] - log_sum, LOG_BITS - OUTPUT_BITS);

		dst[c] = vmcu_saturate(value, INT8_MAX, p->act_min, p->act_max);
	}
}

VMCU_SMALL void vmcu_log_softmax_tflite(const struct vmcu_call *call)
{
	const int32_t channels = vmcu_call_output(call)->channels;
	const int8_t *src = vmcu_pixel(call->pool, vmcu_call_input(call, 0), call->y, call->x);
	int8_t *dst = vmcu_pixel(call->pool, vmcu_call_output(call), call->y, call->x);
	VMCU_OWN_PARAMS(vmcu_log_softmax_tflite_params, p, call);

	VMCU_OWN_POINTER(call, p, exp);
	VMCU_OWN_POINTER(call, p, scaled);
	for (int32_t x = 0; x < call->columns; x++) {
		compute_pixel(p, src, dst, channels);
		src += channels;
		dst += channels;
	}
}
