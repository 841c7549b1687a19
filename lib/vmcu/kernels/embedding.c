/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <string.h>

#include <vmcu/access.h>
#include <vmcu/operators.h>

/** The row that four bytes name. */
static uint32_t row_of(const int8_t *src, uint32_t rows)
{
	uint32_t number = 0;

	for (uint32_t i = 0; i < sizeof(number); i++) {
		number |= (uint32_t)(uint8_t)src[i] << (8U * i);
	}
	if (number > INT32_MAX) {
		/* From the last row on: negative, and 0 beyond the first. */
		number += rows;
		return number < rows ? number : 0;
	}
	return number < rows ? number : rows - 1;
}

void vmcu_embedding(const struct vmcu_call *call)
{
	const struct vmcu_embedding_params *p = vmcu_params(call);
	const int8_t *table = vmcu_constants(call, p->table);
	const uint32_t channels = vmcu_call_output(call)->channels;
	const int8_t *src = vmcu_pixel(call->pool, vmcu_call_input(call, 0), call->y, call->x);
	int8_t *dst = vmcu_pixel(call->pool, vmcu_call_output(call), call->y, call->x);

	for (uint32_t x = 0; x < call->columns; x++) {
		(void)memcpy(dst, table + row_of(src, p->rows) * channels, channels);
		src += sizeof(uint32_t);
		dst += channels;
	}
}
