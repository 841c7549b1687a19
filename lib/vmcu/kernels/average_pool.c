/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/requant.h>

#include "window.h"

/** x / count to nearest, ties away from zero. */
static int32_t rounded_quotient(int32_t x, int32_t count)
{
	return ((x < 0) ? x - count / 2 : x + count / 2) / count;
}

/** Sum of (q - zero) over the taps inside the image. */
static int32_t pool_sum(const struct vmcu_call *call, const struct vmcu_taps *ty,
			const struct vmcu_taps *tx, int32_t channel, int32_t zero)
{
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	int32_t sum = 0;

	for (int32_t ky = ty->begin; ky < ty->end; ky++) {
		const int8_t *row = vmcu_row(call->pool, in, (uint32_t)vmcu_tap(ty, ky)) + channel;

		for (int32_t kx = tx->begin; kx < tx->end; kx++) {
			sum += row[vmcu_tap(tx, kx) * in->channels] - zero;
		}
	}
	return sum;
}

static int8_t pool_output(const struct vmcu_average_pool_params *p, int32_t sum, int32_t count)
{
	int32_t mean;

	if (!p->rescale) {
		return vmcu_saturate(rounded_quotient(sum, count), 0, p->act_min, p->act_max);
	}
	/* sum * 256 / count in two parts: the product alone would overflow for large windows. */
	mean = sum / count * 256 + rounded_quotient(sum % count * 256, count);
	return vmcu_saturate(vmcu_fixed_scale(mean, p->factor.multiplier, p->factor.shift),
			     p->output_zero, p->act_min, p->act_max);
}

void vmcu_average_pool(const struct vmcu_call *call)
{
	const struct vmcu_average_pool_params *p = call->layer->params;
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const struct vmcu_taps ty = vmcu_taps_y(&p->window, call->y, in->height);
	const int32_t all = p->window.kernel_h * p->window.kernel_w;
	int8_t *dst = vmcu_row(call->pool, out, call->y);

	for (int32_t x = 0; x < out->width; x++) {
		const struct vmcu_taps tx = vmcu_taps_x(&p->window, x, in->width);
		const int32_t inside = (ty.end - ty.begin) * (tx.end - tx.begin);
		const int32_t count = (p->count_padding || inside == 0) ? all : inside;
		const int32_t padding = p->rescale ? 0 : (count - inside) * p->input_zero;

		for (int32_t c = 0; c < out->channels; c++) {
			const int32_t sum = pool_sum(call, &ty, &tx, c,
						     p->rescale ? p->input_zero : 0);

			*dst++ = pool_output(p, sum + padding, count);
		}
	}
}
