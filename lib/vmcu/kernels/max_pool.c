/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/requant.h>

#include "window.h"

static int32_t pool_maximum(const struct vmcu_call *call, const struct vmcu_taps *ty,
			    const struct vmcu_taps *tx, int32_t channel)
{
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	int32_t maximum = INT8_MIN;

	for (int32_t ky = ty->begin; ky < ty->end; ky++) {
		const int8_t *row = vmcu_row(call->pool, in, (uint32_t)vmcu_tap(ty, ky)) + channel;

		for (int32_t kx = tx->begin; kx < tx->end; kx++) {
			const int32_t q = row[vmcu_tap(tx, kx) * in->channels];

			if (q > maximum) {
				maximum = q;
			}
		}
	}
	return maximum;
}

void vmcu_max_pool(const struct vmcu_call *call)
{
	const struct vmcu_max_pool_params *p = call->layer->params;
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const struct vmcu_taps ty = vmcu_taps_y(&p->window, call->y, in->height);
	int8_t *dst = vmcu_row(call->pool, out, call->y);

	for (int32_t x = 0; x < out->width; x++) {
		const struct vmcu_taps tx = vmcu_taps_x(&p->window, x, in->width);

		for (int32_t c = 0; c < out->channels; c++) {
			*dst++ = vmcu_saturate(pool_maximum(call, &ty, &tx, c), 0, p->act_min,
					       p->act_max);
		}
	}
}
