/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "support.h"

/** Fractional bits of an exponential. */
#define EXP_BITS 23
/** Fractional bits of logarithms and factors. */
#define LOG_BITS 16

/**
 * The logarithm to the base of two of @a x, which is at least one and has EXP_BITS fractional bits.
 * Squaring a mantissa doubles its logarithm, and a square of two or more is a bit of it.
 */
static int32_t compute_log2(uint64_t x)
{
	const int32_t whole = 63 - __builtin_clzll(x);
	uint64_t mantissa = (x << EXP_BITS) >> (whole - 8);
	int32_t result = whole - EXP_BITS;

	for (int32_t i = 0; i < LOG_BITS; i++) {
		mantissa = (mantissa * mantissa) >> 31;
		result *= 2;
		if (mantissa >= (UINT64_C(1) << 32)) {
			mantissa >>= 1;
			result++;
		}
	}
	return result;
}

VMCU_SMALL static void compute_pixel(const struct vmcu_log_softmax_onnx_params *p,
				     const int8_t *src, int8_t *dst, int32_t channels)
{
	const int64_t limit = 1 << 20;
	const int32_t top = vmcu_maximum(src, channels);
	uint64_t sum = 0;
	int64_t share;

	for (int32_t c = 0; c < channels; c++) {
		sum += p->exp[(uint8_t)(top - src[c])];
	}
	share = (compute_log2(sum) * p->gain) >> LOG_BITS;
	for (int32_t c = 0; c < channels; c++) {
		const int64_t below = (int64_t)(top - src[c]) * p->step;
		const int64_t value = ((1 << (LOG_BITS - 1)) - below - share) >> LOG_BITS;

		dst[c] = vmcu_saturate((int32_t)((value < -limit) ? -limit : value), p->output_zero,
				       p->act_min, p->act_max);
	}
}

void vmcu_log_softmax_onnx(const struct vmcu_call *call)
{
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const int8_t *src = vmcu_pixel(call->pool, vmcu_call_input(call, 0), call->y, call->x);
	int8_t *dst = vmcu_pixel(call->pool, out, call->y, call->x);
	VMCU_OWN_PARAMS(vmcu_log_softmax_onnx_params, p, call);

	VMCU_OWN_POINTER(call, p, exp);
	for (int32_t x = 0; x < call->columns; x++) {
		compute_pixel(p, src, dst, out->channels);
		src += out->channels;
		dst += out->channels;
	}
}
