# SPDX-License-Identifier: Apache-2.0
"""Requantisers for any factor with MVE, four channels at once: those of TensorFlow Lite and the
lines of integer_scale.py. Channels whose factor is a float32 are computed one by one."""

from __future__ import annotations

HELPERS = {
    "exact_vector": r"""
/* Of four channels at once. */
#define vmcu_exact_block vmcu_exact_vectors

/* Four channels' constants: of lines, what is added to the product, its sign and minus the shift;
 * else the shift to the left, the sign of the shift, and the shift to the right below zero. */
struct vmcu_exact {
	int32x4_t factor;
	int32x4_t first;
	int32x4_t sign;
	int32x4_t last;
};

VMCU_INLINE struct vmcu_exact vmcu_exact_of(bool lines, const int32_t *factors,
					    const int32_t *words)
{
	const int32x4_t word = vldrwq_s32(words);
	const int32x4_t none = vdupq_n_s32(0);
	struct vmcu_exact found = {.factor = vldrwq_s32(factors), .sign = vshrq_n_s32(word, 31)};

	if (lines) {
		found.first = vbicq_n_s32(word, VMCU_LINE_BITS);
		found.last = vsubq_s32(none, vandq_s32(word, vdupq_n_s32(VMCU_LINE_SHIFT)));
	} else {
		found.first = vmaxq_s32(word, none);
		found.last = vminq_s32(word, none);
	}
	return found;
}

/* vmcu_fixed_scale() or vmcu_on_line() of four sums, without the zero point. */
VMCU_INLINE int32x4_t vmcu_exact_vector(bool lines, struct vmcu_exact c, int32x4_t sum)
{
	int32x4_t value;

	if (lines) {
		/* Half of the lower words' sum has their carry at its top. */
		const uint32x4_t low = vhaddq_u32((uint32x4_t)vmulq_s32(sum, c.factor),
						  (uint32x4_t)c.first);

		value = vaddq_s32(vmulhq_s32(sum, c.factor), c.sign);
		value = vaddq_s32(value, (int32x4_t)vshrq_n_u32(low, 31));
	} else {
		value = vqrdmulhq_s32(vshlq_s32(sum, c.first), c.factor);
		value = vaddq_s32(value, vandq_s32(vshrq_n_s32(value, 31), c.sign));
	}
	return vrshlq_s32(value, c.last);
}

VMCU_INLINE void vmcu_exact_pixels(bool lines, const struct vmcu_mac_params *p, const int32_t *acc,
				   int32_t pixels, const int32_t *c, int8_t *out, int32_t pitch,
				   int32_t left)
{
	const struct vmcu_exact constants = vmcu_exact_of(lines, c, c + 4);
	const uint32x4_t at = vmulq_n_u32(vidupq_n_u32(0, 1), (uint32_t)pixels);
	const int32_t low = p->act_min, high = p->act_max, zero = p->output_zero;

	for (; pixels > 0; pixels--, acc++, out += pitch) {
		int32x4_t sum = vldrwq_gather_shifted_offset_s32(acc, at);

		sum = vmcu_exact_vector(lines, constants, sum);
		vmcu_put_four(out, sum, zero, low, high, left);
	}
}

/* Those of four channels that are no lines: four bits each. */
VMCU_INLINE uint32_t vmcu_not_lines(const int32_t *words, mve_pred16_t some)
{
	const int32x4_t shift = vandq_s32(vldrwq_s32(words), vdupq_n_s32(VMCU_LINE_SHIFT));

	return vcmpeqq_m_n_s32(shift, 0, some);
}

/* The same of a pixel of a fully connected layer. */
VMCU_APART const uint8_t *vmcu_exact_pixel(const struct vmcu_mac_params *p, const int32_t *acc,
					   const uint8_t *w, int8_t *out, int32_t left)
{
	const bool lines = vmcu_requant_is_float(p->is_float != 0U);
	const int32_t *c = (const int32_t *)w;
	const struct vmcu_exact constants = vmcu_exact_of(lines, c, c + 4);
	uint32_t others = 0;

	vmcu_put_four(out, vmcu_exact_vector(lines, constants, vldrwq_s32(acc)), p->output_zero,
		      p->act_min, p->act_max, left);
	if (lines) {
		others = vcmpeqq_n_s32(constants.last, 0) & 0x1111U;
	}
	for (; others != 0U; others &= others - 1U) {
		const int32_t i = __builtin_ctz(others) >> 2;
		const union {
			int32_t bits;
			float value;
		} factor = {c[i]};

		if (i < left) {
			out[i] = vmcu_saturate(vmcu_float_scale(acc[i], factor.value),
					       p->output_zero, p->act_min, p->act_max);
		}
	}
	return (const uint8_t *)&c[8];
}

/* vmcu_exact_block() of called.h. */
VMCU_APART const uint8_t *vmcu_exact_block(const struct vmcu_mac_params *p, int32_t *acc,
					   int32_t channels, int32_t pixels, const uint8_t *w,
					   int8_t *out, int32_t pitch, int32_t left)
{
	const int32_t *c = (const int32_t *)w;

	if (!vmcu_requant_is_float(p->is_float != 0U)) {
		vmcu_exact_pixels(false, p, acc, pixels, c, out, pitch, left);
		return (const uint8_t *)&c[8];
	}
	vmcu_exact_pixels(true, p, acc, pixels, c, out, pitch, left);
	if (vmcu_not_lines(c + 4, vctp32q((uint32_t)left)) == 0U) {
		left = 0;
	}
	for (int32_t i = 0; i < vmcu_min(left, channels); i++) {
		for (int32_t n = 0; n < pixels && (c[4 + i] & VMCU_LINE_SHIFT) == 0; n++) {
			out[i + n * pitch] = vmcu_any(p, acc[i * pixels + n], c[i], c[4 + i]);
		}
	}
	return (const uint8_t *)&c[8];
}

/* Stores sums that are not for the fast requantiser; `c` are their multipliers, then words. */
VMCU_APART void vmcu_store_quarters(const struct vmcu_mac_params *p, const int32_t *sums,
				    const int32_t *c, int8_t *out, int32_t lanes)
{
	const bool lines = vmcu_requant_is_float(p->is_float != 0U);
	const int32_t low = p->act_min, high = p->act_max, zero = p->output_zero;
	const uint32x4_t at = vidupq_n_u32(0, 4);
	uint32_t others = 0;

	for (int32_t i = 0; i < 4; i++) {
		/* The first channel of a quarter. */
		const int32_t first = ((i & 1) << 1) | (i >> 1);
		const struct vmcu_exact constants = vmcu_exact_of(lines, c + 4 * i, c + 4 * i + 16);
		int32x4_t value = vmcu_exact_vector(lines, constants, vldrwq_s32(sums + 4 * i));

		value = vmaxq_s32(vqaddq_n_s32(value, zero), vdupq_n_s32(low));
		value = vminq_s32(value, vdupq_n_s32(high));
		vstrbq_scatter_offset_p_s32(out + first, at, value,
					    vcmpltq_n_s32((int32x4_t)at, lanes - first));
		if (lines) {
			others |= (vmcu_not_lines(c + 4 * i + 16, vctp32q(4)) & 0x1111U) << i;
		}
	}
	for (; others != 0U; others &= others - 1U) {
		const int32_t bit = __builtin_ctz(others);
		const int32_t i = ((bit & 3) << 2) | (bit >> 2);

		const int32_t channel = (bit & ~3) | ((bit & 1) << 1) | ((bit & 2) >> 1);

		out[channel] = vmcu_any(p, sums[i], c[i], 0);
	}
}
"""
}
