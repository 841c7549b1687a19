/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>

#include <vmcu/vmcu.h>

int vmcu_init(struct vmcu_context *ctx, const struct vmcu_model *model, void *pool, size_t size)
{
	if (ctx == NULL || model == NULL || pool == NULL || (uintptr_t)pool % VMCU_POOL_ALIGN != 0U) {
		return -EINVAL;
	}
	if (size < model->pool_bytes) {
		return -ENOMEM;
	}
	ctx->model = model;
	ctx->pool.start = pool;
	/* The circle is the plan's: surplus bytes would move every row behind the wrap. */
	ctx->pool.size = model->pool_bytes;
	return 0;
}

static const struct vmcu_tensor *input_tensor(const struct vmcu_context *ctx, unsigned int index)
{
	if (ctx == NULL || ctx->model == NULL || index >= ctx->model->input_count) {
		return NULL;
	}
	return &ctx->model->tensors[ctx->model->inputs[index].tensor];
}

static const struct vmcu_tensor *output_tensor(const struct vmcu_context *ctx, unsigned int index)
{
	if (ctx == NULL || ctx->model == NULL || index >= ctx->model->output_count) {
		return NULL;
	}
	return &ctx->model->tensors[ctx->model->outputs[index].tensor];
}

static size_t tensor_bytes(const struct vmcu_tensor *t)
{
	return (t == NULL) ? 0U : (size_t)t->height * t->width * t->channels;
}

int8_t *vmcu_input(const struct vmcu_context *ctx, unsigned int index)
{
	const struct vmcu_tensor *t = input_tensor(ctx, index);

	return (t == NULL) ? NULL : vmcu_row(&ctx->pool, t, 0);
}

size_t vmcu_input_size(const struct vmcu_context *ctx, unsigned int index)
{
	return tensor_bytes(input_tensor(ctx, index));
}

const int8_t *vmcu_output(const struct vmcu_context *ctx, unsigned int index)
{
	const struct vmcu_tensor *t = output_tensor(ctx, index);

	return (t == NULL) ? NULL : vmcu_row(&ctx->pool, t, 0);
}

size_t vmcu_output_size(const struct vmcu_context *ctx, unsigned int index)
{
	return tensor_bytes(output_tensor(ctx, index));
}

/** Computes all rows of one layer, in its direction. */
static void run_layer(const struct vmcu_context *ctx, const struct vmcu_layer *layer)
{
	const struct vmcu_tensor *out = &ctx->model->tensors[layer->output];
	uint32_t scratch[VMCU_STACK_SCRATCH / sizeof(uint32_t)];
	struct vmcu_call call = {
		.pool = &ctx->pool,
		.tensors = ctx->model->tensors,
		.layer = layer,
		.scratch = (layer->scratch == VMCU_SCRATCH_ON_STACK)
				   ? (void *)scratch
				   : (void *)(ctx->pool.start + layer->scratch),
		.columns = out->width,
	};

	for (uint16_t i = 0; i < out->height; i++) {
		call.y = (layer->descending != 0U) ? (uint16_t)(out->height - 1U - i) : i;
		layer->kernel(&call);
	}
}

static void run_stage(const struct vmcu_context *ctx, const struct vmcu_stage *stage)
{
	const struct vmcu_layer *layer = &ctx->model->layers[stage->first];

	for (uint16_t i = 0; i < stage->count; i++, layer++) {
		run_layer(ctx, layer);
	}
}

int vmcu_invoke(struct vmcu_context *ctx)
{
	if (ctx == NULL || ctx->model == NULL) {
		return -EINVAL;
	}
	for (uint16_t i = 0; i < ctx->model->stage_count; i++) {
		run_stage(ctx, &ctx->model->stages[i]);
	}
	return 0;
}
