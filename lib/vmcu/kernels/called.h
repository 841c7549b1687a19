/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief What is not worth its code in every kernel: blocks of channels that the fast requantiser
 * is not for, and products of activations.
 *
 * Included by generated kernels after the instructions that it is made of.
 */

#ifndef VMCU_KERNELS_CALLED_H_
#define VMCU_KERNELS_CALLED_H_

/** Two channels of four pixels; returns where the flash stream goes on. */
VMCU_APART const uint8_t *vmcu_exact_block_4(const struct vmcu_mac_params *p, const vmcu_lane_t *t,
					     const uint8_t *w, int8_t *out, int32_t pitch,
					     int32_t left)
{
	int32_t sums[8];

	vmcu_sums_4(sums, t, p->steps, &w);

	const int32_t *c = (const int32_t *)w;

	if (!vmcu_are_lines(p, c[2] & c[3])) {
		return vmcu_store_any(p, sums, 2, 4, w, out, pitch, left);
	}
	for (int32_t i = 0; i < 2; i++, out++) {
		const struct vmcu_line line = vmcu_line(c[i], c[2 + i], p->output_zero);
		const int32_t *acc = &sums[4 * i];

		out[0] = vmcu_saturate8(vmcu_on_line(line, acc[0]));
		out[pitch] = vmcu_saturate8(vmcu_on_line(line, acc[1]));
		out[2 * pitch] = vmcu_saturate8(vmcu_on_line(line, acc[2]));
		out[3 * pitch] = vmcu_saturate8(vmcu_on_line(line, acc[3]));
	}
	return (const uint8_t *)&c[4];
}

/** Two channels of two pixels. */
VMCU_APART const uint8_t *vmcu_exact_block_2(const struct vmcu_mac_params *p, const vmcu_lane_t *t,
					     const uint8_t *w, int8_t *out, int32_t pitch,
					     int32_t left)
{
	int32_t sums[4];

	vmcu_sums_2(sums, t, p->steps, &w);

	const int32_t *c = (const int32_t *)w;

	if (vmcu_are_lines(p, c[2] & c[3])) {
		const struct vmcu_line first = vmcu_line(c[0], c[2], p->output_zero);
		const struct vmcu_line second = vmcu_line(c[1], c[3], p->output_zero);

		out[0] = vmcu_saturate8(vmcu_on_line(first, sums[0]));
		out[1] = vmcu_saturate8(vmcu_on_line(second, sums[2]));
		out[pitch] = vmcu_saturate8(vmcu_on_line(first, sums[1]));
		out[pitch + 1] = vmcu_saturate8(vmcu_on_line(second, sums[3]));
		return (const uint8_t *)&c[4];
	}
	return vmcu_store_any(p, sums, 2, 2, w, out, pitch, left);
}

/** Two channels of one pixel. */
VMCU_CALLED const uint8_t *vmcu_exact_block_1(const struct vmcu_mac_params *p, const vmcu_lane_t *t,
					      const uint8_t *w, int8_t *out, int32_t pitch,
					      int32_t left)
{
	int32_t sums[2];

	vmcu_sums_1(sums, t, p->steps, &w);
	return vmcu_store_any(p, sums, 2, 1, w, out, pitch, left);
}

/** Adds `count` taps times as many taps to a sum. */
VMCU_CALLED int32_t vmcu_product_row(int32_t sum, const int8_t *x, const int8_t *y, int32_t count,
				     int32_t x_zero)
{
	int32_t acc[] = {sum};

	for (; count >= 4; count -= 4, x += 4, y += 4) {
		vmcu_dot_row_4(acc, x, y, x_zero);
	}
	for (; count > 0; count--) {
		acc[0] = vmcu_sum(acc[0], (*x++ - x_zero) * *y++);
	}
	return acc[0];
}

/** Adds `count` taps times as many rows of `lanes` channels, `pitch` bytes apart, to four sums. */
VMCU_CALLED void vmcu_product_columns(int32_t *sums, const int8_t *x, const int8_t *y,
				      int32_t count, int32_t pitch, int32_t lanes, int32_t x_zero)
{
	int32_t acc[] = {sums[0], sums[1], sums[2], sums[3]};

	if (lanes == 4) {
		for (; count > 0; count--, x++, y += pitch) {
			vmcu_dot_column_4(acc, x, y, x_zero);
		}
		__builtin_memcpy(sums, acc, sizeof(acc));
		return;
	}
	for (; count > 0; count--, x++, y += pitch) {
		for (int32_t i = 0; i < lanes; i++) {
			sums[i] = vmcu_sum(sums[i], (*x - x_zero) * y[i]);
		}
	}
}

#endif /* VMCU_KERNELS_CALLED_H_ */
