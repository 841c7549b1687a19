/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Stands in for vmcu_invoke(): makes the calls of range_calls instead of whole layers.
 *
 * Each call has a pool of its own, full of garbage but for the pixels that it may read. What it
 * computes goes back into the model's pool. Link with --wrap=vmcu_invoke.
 */

#include <errno.h>
#include <string.h>

#include <vmcu/access.h>
#include <vmcu/vmcu.h>

#include "ranges.h"

#define MAX_TENSORS 256
#define SCRATCH     2048

static struct vmcu_tensor tensors[MAX_TENSORS];
static int8_t bytes[RANGE_POOL_BYTES];
static int8_t before[RANGE_POOL_BYTES];
static uint32_t scratch[SCRATCH / sizeof(uint32_t)];

static const struct vmcu_pool pool = {.start = bytes, .size = sizeof(bytes)};

int __wrap_vmcu_invoke(struct vmcu_context *ctx);

static void spoil(void *data, size_t size)
{
	static uint32_t state = 1;
	uint8_t *byte = data;

	for (; size > 0U; size--) {
		state = state * 1664525U + 1013904223U;
		*byte++ = (uint8_t)(state >> 24);
	}
}

static void copy(const struct vmcu_pool *to, const struct vmcu_tensor *to_tensor,
		 const struct vmcu_pool *from, const struct vmcu_tensor *from_tensor,
		 const struct range_view *view)
{
	for (uint32_t r = 0; r < view->rows; r++) {
		const uint32_t y = view->row + r * view->step;

		for (uint32_t x = view->column; x < (uint32_t)view->column + view->columns; x++) {
			memcpy(vmcu_pixel(to, to_tensor, y, x), vmcu_pixel(from, from_tensor, y, x),
			       to_tensor->channels);
		}
	}
}

static void place(uint16_t tensor, const struct range_view *view)
{
	tensors[tensor].base = view->base;
	tensors[tensor].ring = view->ring;
	tensors[tensor].phase = view->phase;
}

static int run(const struct vmcu_context *ctx, const struct range_call *range)
{
	const struct vmcu_layer *layer = &ctx->model->layers[range->layer];
	const struct vmcu_tensor *out = &ctx->model->tensors[layer->output];
	const struct vmcu_call call = {
		.pool = &pool,
		.tensors = tensors,
		.layer = layer,
		.scratch = scratch,
		.y = range->out.row,
		.x = range->out.column,
		.columns = range->out.columns,
	};

	memcpy(tensors, ctx->model->tensors, ctx->model->tensor_count * sizeof(tensors[0]));
	spoil(bytes, sizeof(bytes));
	spoil(scratch, sizeof(scratch));
	place(layer->output, &range->out);
	for (uint16_t i = 0; i < layer->input_count; i++) {
		place(layer->inputs[i], &range->inputs[i]);
		copy(&pool, &tensors[layer->inputs[i]], &ctx->pool,
		     &ctx->model->tensors[layer->inputs[i]], &range->inputs[i]);
	}
	memcpy(before, bytes, sizeof(bytes));
	layer->kernel(&call);
	copy(&ctx->pool, out, &pool, &tensors[layer->output], &range->out);
	/* With the output as it was, nothing has changed. */
	copy(&pool, &tensors[layer->output],
	     &(struct vmcu_pool){.start = before, .size = sizeof(before)}, &tensors[layer->output],
	     &range->out);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		if (bytes[i] != before[i]) {
			return -EFAULT;
		}
	}
	return 0;
}

int __wrap_vmcu_invoke(struct vmcu_context *ctx)
{
	int err = (ctx->model->tensor_count <= MAX_TENSORS) ? 0 : -ENOMEM;

	for (size_t i = 0; i < range_count && err == 0; i++) {
		err = run(ctx, &range_calls[i]);
	}
	return err;
}
