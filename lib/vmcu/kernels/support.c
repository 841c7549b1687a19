/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "support.h"

const uint8_t *vmcu_store_exact(const struct vmcu_mac_params *p, const int32_t *acc,
				int32_t channels, int32_t pixels, const uint8_t *w, int8_t *out,
				int32_t pitch, int32_t left)
{
	const int32_t *multiplier = (const int32_t *)w;
	const int32_t *shift = multiplier + channels;

	for (int32_t channel = 0; channel < channels && channel < left; channel++) {
		for (int32_t pixel = 0; pixel < pixels; pixel++) {
			int32_t scaled = vmcu_fixed_scale(acc[channel * pixels + pixel],
							  multiplier[channel], shift[channel]);

			out[pixel * pitch + channel] =
				vmcu_saturate(scaled, p->output_zero, p->act_min, p->act_max);
		}
	}
	return w + 3 * (size_t)channels * sizeof(int32_t);
}

const uint8_t *vmcu_store_float(const struct vmcu_mac_params *p, const int32_t *acc,
				int32_t channels, int32_t pixels, const uint8_t *w, int8_t *out,
				int32_t pitch, int32_t left)
{
	const float *scale = (const float *)w;

	for (int32_t channel = 0; channel < channels && channel < left; channel++) {
		for (int32_t pixel = 0; pixel < pixels; pixel++) {
			int32_t scaled =
				vmcu_float_scale(acc[channel * pixels + pixel], scale[channel]);

			out[pixel * pitch + channel] =
				vmcu_saturate(scaled, p->output_zero, p->act_min, p->act_max);
		}
	}
	return w + (size_t)channels * sizeof(float);
}
