/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include "support.h"

/** One accumulator times the factor of its channel. */
static int32_t scaled(const struct vmcu_mac_params *p, int32_t acc, const uint8_t *w,
		      int32_t channels, int32_t channel)
{
	const int32_t *multiplier = (const int32_t *)w;
	const int32_t *shift = multiplier + channels;

	if (p->is_float != 0U) {
		return vmcu_float_scale(acc, ((const float *)w)[channel]);
	}
	return vmcu_fixed_scale(acc, multiplier[channel], shift[channel]);
}

const uint8_t *vmcu_store_any(const struct vmcu_mac_params *p, const int32_t *acc,
			      int32_t channels, int32_t pixels, const uint8_t *w, int8_t *out,
			      int32_t pitch, int32_t left)
{
	const int32_t words = (p->is_float != 0U) ? 1 : 3;

	for (int32_t channel = 0; channel < channels && channel < left; channel++) {
		for (int32_t pixel = 0; pixel < pixels; pixel++) {
			int32_t value = scaled(p, acc[channel * pixels + pixel], w, channels, channel);

			out[pixel * pitch + channel] =
				vmcu_saturate(value, p->output_zero, p->act_min, p->act_max);
		}
	}
	return w + words * channels * (int32_t)sizeof(int32_t);
}
