/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/operators.h>

#include "support.h"

/** Writes the element whose value is nearest to @a value + @a zero. */
VMCU_INLINE void store(int8_t *dst, int32_t value, int32_t zero, uint32_t bytes)
{
	const int64_t limit = (int64_t)(UINT32_MAX >> (33U - 8U * bytes));
	const int64_t low = -limit - 1 - zero, high = limit - zero;

	value = vmcu_at_least(value, (low < INT32_MIN) ? INT32_MIN : (int32_t)low);
	value = vmcu_at_most(value, (high > INT32_MAX) ? INT32_MAX : (int32_t)high);

	const uint32_t bits = (uint32_t)value + (uint32_t)zero;

	for (uint32_t i = 0; i < bytes; i++) {
		dst[i] = (int8_t)(uint8_t)(bits >> (8U * i));
	}
}

VMCU_SMALL void vmcu_requantize_wide(const struct vmcu_call *call)
{
	const struct vmcu_requantize_wide_params *p = vmcu_params(call);
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const int8_t *src = vmcu_pixel(call->pool, in, call->y, call->x);
	int8_t *dst = vmcu_pixel(call->pool, vmcu_call_output(call), call->y, call->x);
	const uint32_t count = (uint32_t)call->columns * in->channels / p->input_bytes;

	for (uint32_t i = 0; i < count; i++) {
		const int32_t x =
			((p->input_bytes == 1U) ? src[0] : vmcu_int16(src)) - p->input_zero;
		const int32_t scaled = vmcu_scaled(x, p->factor.multiplier, p->factor.shift);

		store(dst, scaled, p->output_zero, p->output_bytes);
		src += p->input_bytes;
		dst += p->output_bytes;
	}
}
