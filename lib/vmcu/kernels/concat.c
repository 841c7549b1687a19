/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <stddef.h>

#include "support.h"

/** Moves @a bytes bytes of input @a i ascending, bringing them to the output's scale. */
static void concat_run(const struct vmcu_call *call, uint16_t i, const int8_t *src, int8_t *dst,
		       int32_t bytes)
{
	const struct vmcu_concat_params *p = vmcu_params(call);
	const int16_t *table_of = vmcu_constants(call, p->table_of);
	const int8_t *table = NULL;

	if (p->table_of != NULL && table_of[i] >= 0) {
		table = (const int8_t *)vmcu_constants(call, p->tables) +
			VMCU_TABLE_ENTRIES * table_of[i];
	}
	for (int32_t k = 0; k < bytes; k++) {
		dst[k] = (table != NULL) ? table[src[k] - INT8_MIN] : src[k];
	}
}

/** Output rows come from one input each. */
static void concat_height(const struct vmcu_call *call, int8_t *dst)
{
	uint16_t i = 0;
	uint32_t y = call->y;

	while (y >= vmcu_call_input(call, i)->height) {
		y -= vmcu_call_input(call, i)->height;
		i++;
	}

	const struct vmcu_tensor *in = vmcu_call_input(call, i);

	concat_run(call, i, vmcu_row(call->pool, in, y), dst, in->width * in->channels);
}

/** Output rows are the inputs' rows end to end. */
static void concat_width(const struct vmcu_call *call, int8_t *dst)
{
	for (uint16_t i = 0; i < call->layer->input_count; i++) {
		const struct vmcu_tensor *in = vmcu_call_input(call, i);
		const int32_t bytes = in->width * in->channels;

		concat_run(call, i, vmcu_row(call->pool, in, call->y), dst, bytes);
		dst += bytes;
	}
}

/** Output pixels are the inputs' pixels end to end. */
static void concat_channels(const struct vmcu_call *call)
{
	int8_t *dst = vmcu_pixel(call->pool, vmcu_call_output(call), call->y, call->x);

	for (int32_t x = 0; x < call->columns; x++) {
		for (uint16_t i = 0; i < call->layer->input_count; i++) {
			const struct vmcu_tensor *in = vmcu_call_input(call, i);
			const int8_t *src = vmcu_pixel(call->pool, in, call->y, call->x);

			concat_run(call, i, src + x * in->channels, dst, in->channels);
			dst += in->channels;
		}
	}
}

VMCU_SMALL void vmcu_concat(const struct vmcu_call *call)
{
	const struct vmcu_concat_params *p = vmcu_params(call);
	const struct vmcu_tensor *out = vmcu_call_output(call);

	switch (p->axis) {
	case VMCU_AXIS_HEIGHT:
		concat_height(call, vmcu_row(call->pool, out, call->y));
		break;
	case VMCU_AXIS_WIDTH:
		concat_width(call, vmcu_row(call->pool, out, call->y));
		break;
	default:
		concat_channels(call);
		break;
	}
}
