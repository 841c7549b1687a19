/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/kernels.h>
#include <vmcu/requant.h>

static int32_t add_term(int32_t q, int32_t zero, int32_t left_shift, const struct vmcu_factor *f)
{
	return vmcu_fixed_scale(vmcu_wrapping_shift(q - zero, left_shift), f->multiplier, f->shift);
}

void vmcu_add(const struct vmcu_call *call)
{
	const struct vmcu_add_params *p = call->layer->params;
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const int8_t *a = vmcu_row(call->pool, vmcu_call_input(call, 0), call->y);
	const int8_t *b = vmcu_row(call->pool, vmcu_call_input(call, 1), call->y);
	int8_t *dst = vmcu_row(call->pool, out, call->y);
	const int32_t bytes = out->width * out->channels;

	for (int32_t i = 0; i < bytes; i++) {
		const uint32_t sum = (uint32_t)add_term(a[i], p->a_zero, p->left_shift, &p->a) +
				     (uint32_t)add_term(b[i], p->b_zero, p->left_shift, &p->b);

		dst[i] = vmcu_saturate(vmcu_fixed_scale((int32_t)sum, p->output.multiplier,
							p->output.shift),
				       p->output_zero, p->act_min, p->act_max);
	}
}
