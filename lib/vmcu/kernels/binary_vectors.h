/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Products of two tensors, with MVE. Included by binary.c.
 */

#ifndef VMCU_KERNELS_BINARY_VECTORS_H_
#define VMCU_KERNELS_BINARY_VECTORS_H_

/**
 * Eight channels of an operand from channel @a c on, or the last @a left, less its zero point.
 * @a both: no operand has one for all.
 */
VMCU_INLINE int16x8_t eight_of(bool both, const struct operand *operand, int32_t c, int32_t zero,
			       int32_t left)
{
	if (!both && operand->channel == 0) {
		return vdupq_n_s16((int16_t)(*operand->at - zero));
	}
	return vmcu_eight(operand->at + c, zero, left);
}

/** vmcu_on_line() of four products, or vmcu_fixed_scale(). */
VMCU_INLINE int32x4_t scaled_four(int32x4_t x, bool line, const struct vmcu_factor *factor)
{
	return line ? vmcu_line_four(x, factor->multiplier, factor->shift)
		    : vmcu_fixed_four(x, factor->multiplier, factor->shift);
}

/** Products of a pixel. */
VMCU_INLINE void multiply_pixel(const struct vmcu_binary_params *p, bool line, bool both,
				const struct operand *a, const struct operand *b, int8_t *dst,
				int32_t channels)
{
	for (int32_t c = 0; c < channels; c += 8) {
		const int32_t left = channels - c;
		const int16x8_t x = eight_of(both, a, c, p->a_zero, left);
		const int16x8_t y = eight_of(both, b, c, p->b_zero, left);
		const int32x4_t even = scaled_four(vmullbq_int_s16(x, y), line, &p->output);
		const int32x4_t odd = scaled_four(vmulltq_int_s16(x, y), line, &p->output);
		int16x8_t value = vqmovntq_s32(vqmovnbq_s32((int16x8_t)even, even), odd);

		value = vqaddq_n_s16(value, p->output_zero);
		value = vmaxq_s16(value, vdupq_n_s16(p->act_min));
		value = vminq_s16(value, vdupq_n_s16(p->act_max));
		if (left >= 8) {
			vstrbq_s16(dst + c, value);
		} else {
			vstrbq_p_s16(dst + c, value, vctp16q((uint32_t)left));
		}
	}
}

/** Products of a row; all channels at once where pixels are side by side. */
VMCU_INLINE void multiply_row(const struct vmcu_binary_params *p, bool line, struct operand a,
			      struct operand b, int8_t *dst, int32_t channels, int32_t columns)
{
	if (a.pixel == channels * a.channel && b.pixel == channels * b.channel) {
		channels *= columns;
		columns = 1;
	}
	for (; columns > 0; columns--, dst += channels) {
		if (a.channel != 0 && b.channel != 0) {
			multiply_pixel(p, line, true, &a, &b, dst, channels);
		} else {
			multiply_pixel(p, line, false, &a, &b, dst, channels);
		}
		a.at += a.pixel;
		b.at += b.pixel;
	}
}

#endif /* VMCU_KERNELS_BINARY_VECTORS_H_ */
