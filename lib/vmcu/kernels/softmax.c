/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "support.h"
#include "vectors.h"

/** Bits before the binary point of the sum of exponentials. */
#define SUM_INTEGER_BITS 12

/** One pixel: writes every channel of @a dst from @a src. */
typedef void (*softmax_pixel_t)(const struct vmcu_softmax_params *p, const int8_t *src, int8_t *dst,
				int32_t channels);

#if defined(VMCU_VECTORS)
/** The exponentials of four channels, or zeros behind the last @a left ones. */
VMCU_INLINE uint32x4_t exponentials(const uint32_t *exp, int32_t top, const int8_t *src,
				    int32_t left)
{
	const uint32x4_t below = (uint32x4_t)vsubq_s32(vdupq_n_s32(top), vmcu_four(src, left));

	return (left >= 4)
		       ? vldrwq_gather_shifted_offset_u32(exp, below)
		       : vldrwq_gather_shifted_offset_z_u32(exp, below, vctp32q((uint32_t)left));
}
#endif

/** The sum of exponentials, each rounded. */
VMCU_INLINE uint32_t rounded_sum(const struct vmcu_softmax_params *p, int32_t top,
				 const int8_t *src, int32_t channels)
{
	uint32_t sum = 0;

#if defined(VMCU_VECTORS)
	for (; channels > 0; channels -= 4, src += 4) {
		sum = vaddvaq_u32(sum, vrshrq_n_u32(exponentials(p->exp, top, src, channels),
						    SUM_INTEGER_BITS));
	}
#endif
	for (int32_t c = 0; c < channels; c++) {
		sum += (uint32_t)vmcu_rounding_shift((int32_t)p->exp[(uint8_t)(top - src[c])],
						     SUM_INTEGER_BITS);
	}
	return sum;
}

/** The reciprocal of a sum of exponentials: a Q0.31 number, to be shifted right by so much. */
struct inverse {
	int32_t scale;
	int32_t over_unit;
};

VMCU_INLINE struct inverse inverse_of(uint32_t sum)
{
	const int32_t headroom = vmcu_leading_zeros(sum);

	return (struct inverse){
		.scale = vmcu_reciprocal((int32_t)((sum << headroom) - (UINT32_C(1) << 31))),
		.over_unit = SUM_INTEGER_BITS - headroom,
	};
}

VMCU_SMALL void vmcu_softmax_tflite_pixel(const struct vmcu_softmax_params *p, const int8_t *src,
					  int8_t *dst, int32_t channels)
{
	const int32_t top = vmcu_maximum(src, channels);
	const struct inverse inverse = inverse_of(rounded_sum(p, top, src, channels));
	const int32_t scale = inverse.scale;
	const int32_t exponent = inverse.over_unit + 23;
	/* A shift beyond 31 bits leaves nothing of a share below one. */
	const int32_t some = vmcu_below(exponent, 32);

#if defined(VMCU_VECTORS)
	for (; channels > 0; channels -= 4, src += 4, dst += 4) {
		int32x4_t share = (int32x4_t)exponentials(p->exp, top, src, channels);

		share = vrshlq_n_s32(vqrdmulhq_n_s32(share, scale), -exponent);
		vmcu_put_four(dst, share, p->output_zero, p->act_min, p->act_max, channels);
	}
#endif
	for (int32_t c = 0; c < channels; c++) {
		const int32_t share =
			vmcu_high_mul(scale, (int32_t)p->exp[(uint8_t)(top - src[c])]);

		dst[c] = vmcu_saturate(vmcu_rounding_shift(share, exponent & 31) & some,
				       p->output_zero, p->act_min, p->act_max);
	}
}

/** How parts of a sum become steps of the output. */
struct shares {
	uint64_t sum;
	uint32_t gain;
	uint32_t multiplier; /**< gain / sum times 2^(16 + shift), cut */
	int32_t shift;
};

/** Of a sum that is at least as large as @a gain / 2^16. */
VMCU_APART struct shares shares_of(uint64_t sum, uint32_t gain)
{
	int32_t shift = vmcu_min(__builtin_clz(gain | 1U) + 31, 46);
	uint64_t multiplier = ((uint64_t)gain << shift) / ((sum == 0U) ? 1U : sum);

	while ((multiplier >> 32) != 0U) {
		multiplier >>= 1;
		shift--;
	}
	/* Tables begin with 2^23, so that this is more than enough. */
	return (struct shares){sum, gain, (uint32_t)multiplier, (shift > 17) ? shift - 16 : 1};
}

/** round(part * gain / sum / 2^16), ties upwards. */
VMCU_APART int32_t exact_share(const struct shares *s, uint32_t part)
{
	return (int32_t)((2U * (uint64_t)part * s->gain + (s->sum << 16)) / (s->sum << 17));
}

#if defined(VMCU_VECTORS)
/** Writes the shares of @a channels exponentials. */
VMCU_INLINE void put_shares(const struct vmcu_softmax_params *p, const struct shares *shares,
			    int32_t top, const int8_t *src, int8_t *dst, int32_t channels)
{
	const uint32x4_t multiplier = vdupq_n_u32(shares->multiplier);

	for (; channels > 0; channels -= 4, src += 4, dst += 4) {
		const uint32x4_t part = exponentials(p->exp, top, src, channels);
		/* The multiplier lacks less than one, and rarely is that enough for a carry. */
		const mve_pred16_t carry =
			vcmphiq_u32(vmulq_u32(part, multiplier), vmvnq_u32(part));
		int32x4_t share =
			(int32x4_t)vrshlq_n_u32(vmulhq_u32(part, multiplier), -shares->shift);

		if (carry != 0) {
			int32_t exact[4];
			uint32_t parts[4];

			vstrwq_u32(parts, part);
			for (int32_t i = 0; i < 4; i++) {
				exact[i] = exact_share(shares, parts[i]);
			}
			share = vpselq_s32(vldrwq_s32(exact), share, carry);
		}
		vmcu_put_four(dst, share, p->output_zero, p->act_min, p->act_max, channels);
	}
}
#else
/** Writes the shares of @a channels exponentials. */
VMCU_INLINE void put_shares(const struct vmcu_softmax_params *p, const struct shares *shares,
			    int32_t top, const int8_t *src, int8_t *dst, int32_t channels)
{
	const uint32_t multiplier = shares->multiplier;
	const int32_t shift = shares->shift;
	const uint32_t half = (uint32_t)1 << (shift - 1);

	for (int32_t c = 0; c < channels; c++) {
		const uint32_t part = p->exp[(uint8_t)(top - src[c])];
		const uint64_t product = (uint64_t)part * multiplier;
		int32_t share = (int32_t)(((uint32_t)(product >> 32) + half) >> shift);

		/* The multiplier lacks less than one, and rarely is that enough for a carry. */
		if ((uint32_t)product + part < part) {
			share = exact_share(shares, part);
		}
		dst[c] = vmcu_saturate(share, p->output_zero, p->act_min, p->act_max);
	}
}
#endif

void vmcu_softmax_onnx_pixel(const struct vmcu_softmax_params *p, const int8_t *src, int8_t *dst,
			     int32_t channels)
{
	const int32_t top = vmcu_maximum(src, channels);
	const struct vmcu_softmax_params own = *p;
	struct shares shares;
	uint64_t sum = 0;

#if defined(VMCU_VECTORS)
	for (int32_t c = 0; c < channels; c += 4) {
		sum = vaddlvaq_u32(sum, exponentials(own.exp, top, src + c, channels - c));
	}
#else
	for (int32_t c = 0; c < channels; c++) {
		sum += own.exp[(uint8_t)(top - src[c])];
	}
#endif
	shares = shares_of(sum, own.gain);
	put_shares(&own, &shares, top, src, dst, channels);
}

VMCU_SMALL static void softmax_row(const struct vmcu_call *call, softmax_pixel_t pixel)
{
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const int8_t *src = vmcu_pixel(call->pool, vmcu_call_input(call, 0), call->y, call->x);
	int8_t *dst = vmcu_pixel(call->pool, out, call->y, call->x);
	VMCU_OWN_PARAMS(vmcu_softmax_params, p, call);

	VMCU_OWN_POINTER(call, p, exp);
	for (int32_t x = 0; x < call->columns; x++) {
		pixel(p, src, dst, out->channels);
		src += out->channels;
		dst += out->channels;
	}
}

void vmcu_softmax_tflite(const struct vmcu_call *call)
{
	softmax_row(call, vmcu_softmax_tflite_pixel);
}

void vmcu_softmax_onnx(const struct vmcu_call *call)
{
	softmax_row(call, vmcu_softmax_onnx_pixel);
}

/** One pixel: writes two bytes of @a dst for every channel of @a src. */
VMCU_SMALL static void int16_pixel(const struct vmcu_softmax_params *p, const int8_t *src,
				   int8_t *dst, int32_t channels)
{
	const int32_t top = vmcu_maximum(src, channels);
	const struct inverse inverse = inverse_of(rounded_sum(p, top, src, channels));

	for (int32_t c = 0; c < channels; c++) {
		const int32_t part =
			vmcu_high_mul(inverse.scale, (int32_t)p->exp[(uint8_t)(top - src[c])]);
		const int32_t share = vmcu_rounding_shift(part, inverse.over_unit + 15);

		vmcu_put_int16(&dst[2 * c], vmcu_at_most(share + INT16_MIN, INT16_MAX));
	}
}

void vmcu_softmax_int16(const struct vmcu_call *call)
{
	const int32_t channels = vmcu_call_input(call, 0)->channels;
	const int8_t *src = vmcu_pixel(call->pool, vmcu_call_input(call, 0), call->y, call->x);
	int8_t *dst = vmcu_pixel(call->pool, vmcu_call_output(call), call->y, call->x);
	VMCU_OWN_PARAMS(vmcu_softmax_params, p, call);

	VMCU_OWN_POINTER(call, p, exp);
	for (int32_t x = 0; x < call->columns; x++) {
		int16_pixel(p, src, dst, channels);
		src += channels;
		dst += 2 * channels;
	}
}
