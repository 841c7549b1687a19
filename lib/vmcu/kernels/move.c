/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <vmcu/access.h>
#include <vmcu/operators.h>

void vmcu_move(const struct vmcu_call *call)
{
	const struct vmcu_move_params *p = vmcu_params(call);
	const struct vmcu_tensor *in = vmcu_call_input(call, 0);
	const struct vmcu_tensor *out = vmcu_call_output(call);
	const int32_t *rows = vmcu_constants(call, p->rows);
	const int32_t *columns = vmcu_constants(call, p->columns);
	const int32_t *channels = vmcu_constants(call, p->channels);
	const uint32_t row_bytes = (uint32_t)in->width * in->channels;
	const uint32_t runs = out->channels / p->run;
	int8_t *dst = vmcu_pixel(call->pool, out, call->y, call->x);

	for (uint32_t x = call->x; x < (uint32_t)call->x + call->columns; x++) {
		const int32_t pixel = rows[call->y] + columns[x];

		for (uint32_t k = 0; k < runs; k++) {
			const uint32_t at = (uint32_t)(pixel + channels[k]);
			const int8_t *src =
				vmcu_row(call->pool, in, at / row_bytes) + at % row_bytes;

			for (uint32_t c = 0; c < p->run; c++) {
				*dst++ = *src++;
			}
		}
	}
}
