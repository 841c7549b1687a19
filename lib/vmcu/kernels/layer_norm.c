/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/operators.h>
#include <vmcu/requant.h>

#include "support.h"

/** Fractional bits of a normalised value. */
#define Z_BITS    22
/** The root is taken of a number of 47 or 48 bits. */
#define ROOT_BITS 48

/** The factor of a pixel's channels: @a factor / 2^(47 - k). */
struct normal {
	int32_t total;
	int32_t factor;
	int32_t k;
};

/** The integer part of the root of @a x, which has ROOT_BITS bits at most. */
static uint32_t square_root(uint64_t x)
{
	uint64_t root = 0;

	for (uint64_t bit = UINT64_C(1) << (ROOT_BITS - 2); bit != 0U; bit >>= 2) {
		if (x >= root + bit) {
			x -= root + bit;
			root = (root >> 1) + bit;
		} else {
			root >>= 1;
		}
	}
	return (uint32_t)root;
}

static struct normal measure_pixel(const struct vmcu_layer_norm_params *p, const int8_t *src,
				   int32_t channels)
{
	int32_t total = 0;
	int64_t squares = 0;
	int64_t spread;
	uint64_t x;
	int32_t k;

	for (int32_t c = 0; c < channels; c++) {
		const int32_t value = src[c] - p->input_zero;
		const int32_t square = value * value;

		total += value;
		squares += square;
	}
	if (!p->centred) {
		total = 0;
	}
	spread = (channels * squares - (int64_t)total * total) * ((int64_t)1 << p->fraction) +
		 p->epsilon;
	/* Below one, all values are zero. */
	x = (spread >> p->fraction > 0) ? (uint64_t)spread : UINT64_C(1) << p->fraction;
	k = (ROOT_BITS - (64 - __builtin_clzll(x))) >> 1;
	x = (k >= 0) ? x << (2 * k) : x >> (-2 * k);
	return (struct normal){
		.total = total,
		.factor = (int32_t)((UINT64_C(1) << 47) / square_root(x)),
		.k = k + p->fraction / 2,
	};
}

/** x / 2^bits to nearest, ties upwards; @a bits is at least 1. */
static int64_t round_shift(int64_t x, int32_t bits)
{
	return (x + ((int64_t)1 << (bits - 1))) >> bits;
}

/** The factors of the next element. */
struct place {
	int32_t factor;
	int32_t left; /**< elements before the factor after this one */
};

static void advance_place(struct place *at, const struct vmcu_layer_norm_params *p)
{
	at->left--;
	if (at->left == 0) {
		at->left = p->run;
		at->factor++;
		if (at->factor == p->factors) {
			at->factor = 0;
		}
	}
}

void vmcu_layer_norm(const struct vmcu_call *call)
{
	VMCU_OWN_PARAMS(vmcu_layer_norm_params, p, call);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const int32_t channels = out->channels;
	const int32_t pixel = call->y * out->width + call->x;
	const int8_t *src = vmcu_pixel(call->pool, vmcu_call_input(call, 0), call->y, call->x);
	int8_t *dst = vmcu_pixel(call->pool, out, call->y, call->x);
	struct place at = {.factor = (pixel * (channels / p->run)) % p->factors, .left = p->run};

	VMCU_OWN_POINTER(call, p, gain);
	VMCU_OWN_POINTER(call, p, offset);
	for (int32_t x = 0; x < call->columns; x++) {
		const struct normal n = measure_pixel(p, src, channels);

		for (int32_t c = 0; c < channels; c++) {
			const int32_t value = channels * (src[c] - p->input_zero) - n.total;
			const int64_t z = round_shift((int64_t)value * n.factor, 47 - Z_BITS - n.k);
			const int64_t acc = z * p->gain[at.factor] +
					    (int64_t)p->offset[at.factor] * (1 << Z_BITS);
			const int64_t result = round_shift(acc, Z_BITS + p->bits);
			const int64_t limit = 1 << 20;
			const int64_t cut = (result > limit) ? limit : result;

			dst[c] = vmcu_saturate((int32_t)((cut < -limit) ? -limit : cut),
					       p->output_zero, p->act_min, p->act_max);
			advance_place(&at, p);
		}
		src += channels;
		dst += channels;
	}
}
