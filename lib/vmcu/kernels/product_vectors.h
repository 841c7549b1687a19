/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Sums of products of activations, with MVE. Included by called.h.
 */

#ifndef VMCU_KERNELS_PRODUCT_VECTORS_H_
#define VMCU_KERNELS_PRODUCT_VECTORS_H_

/** Adds `count` taps times as many taps to a sum. */
VMCU_APART int32_t vmcu_product_row(int32_t sum, const int8_t *x, const int8_t *y, int32_t count,
				    int32_t x_zero)
{
	for (; count > 0; count -= 8, x += 8, y += 8) {
		sum = vmladavaq_s16(sum, vmcu_eight(x, x_zero, count), vmcu_eight(y, 0, count));
	}
	return sum;
}

/** Adds `count` taps times as many rows of `lanes` channels, `pitch` bytes apart, to four sums. */
VMCU_APART void vmcu_product_columns(int32_t *sums, const int8_t *x, const int8_t *y, int32_t count,
				     int32_t pitch, int32_t lanes, int32_t x_zero)
{
	/* So many rows have offsets of 16 bits. */
	const int32_t most = (pitch <= UINT16_MAX / 7) ? 8 : 1;
	const uint16x8_t rows = vmulq_n_u16(vidupq_n_u16(0, 1), (uint16_t)pitch);
	/* Where there are fewer channels, the last of them again. */
	const int32_t second = (lanes > 1) ? 1 : 0;
	const int32_t third = (lanes > 2) ? 2 : second;
	const int32_t fourth = (lanes > 3) ? 3 : third;
	int32_t acc[] = {sums[0], sums[1], sums[2], sums[3]};

	for (; most == 8 && count >= 8; count -= 8, x += 8, y += 8 * pitch) {
		const int16x8_t taps = vmcu_eight(x, x_zero, 8);

		acc[0] = vmladavaq_s16(acc[0], taps, vldrbq_gather_offset_s16(y, rows));
		acc[1] = vmladavaq_s16(acc[1], taps, vldrbq_gather_offset_s16(y + second, rows));
		acc[2] = vmladavaq_s16(acc[2], taps, vldrbq_gather_offset_s16(y + third, rows));
		acc[3] = vmladavaq_s16(acc[3], taps, vldrbq_gather_offset_s16(y + fourth, rows));
	}
	for (; count > 0; count -= most, x += most, y += most * pitch) {
		const mve_pred16_t some = vctp16q((uint32_t)vmcu_min(count, most));
		const int16x8_t taps = vmcu_eight(x, x_zero, vmcu_min(count, most));

		acc[0] = vmladavaq_s16(acc[0], taps, vldrbq_gather_offset_z_s16(y, rows, some));
		acc[1] = vmladavaq_s16(acc[1], taps,
				       vldrbq_gather_offset_z_s16(y + second, rows, some));
		acc[2] = vmladavaq_s16(acc[2], taps,
				       vldrbq_gather_offset_z_s16(y + third, rows, some));
		acc[3] = vmladavaq_s16(acc[3], taps,
				       vldrbq_gather_offset_z_s16(y + fourth, rows, some));
	}
	__builtin_memcpy(sums, acc, sizeof(acc));
}

#endif /* VMCU_KERNELS_PRODUCT_VECTORS_H_ */
