/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Addresses and sizes of a model's inputs and outputs.
 */

#include <errno.h>

#include <vmcu/vmcu.h>

#include "compiled.h"
#include "rotation.h"
#include "streams.h"

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

/** Bytes of so many rows. */
static size_t bytes_of(const struct vmcu_tensor *t, uint16_t rows)
{
	return (size_t)rows * t->width * t->channels;
}

VMCU_SMALL int8_t *vmcu_input(const struct vmcu_context *ctx, unsigned int index)
{
	const struct vmcu_tensor *t = input_tensor(ctx, index);

	if (t == NULL || !vmcu_holds_input(ctx->model) || !vmcu_in_one_piece(ctx, t)) {
		return NULL;
	}
	return vmcu_row(&ctx->pool, t, 0);
}

int8_t *vmcu_row_of_input(const struct vmcu_context *ctx, unsigned int index, unsigned int y)
{
	const struct vmcu_tensor *t = input_tensor(ctx, index);

	if (t == NULL || !vmcu_holds_input(ctx->model) || y >= t->height) {
		return NULL;
	}
	return vmcu_row(&ctx->pool, t, y);
}

int vmcu_set_input(struct vmcu_context *ctx, const int8_t *input)
{
	if (ctx == NULL || ctx->model == NULL || input == NULL) {
		return -EINVAL;
	}
	if (!ctx->model->elsewhere) {
		return -ENOTSUP;
	}
	ctx->input = input;
	return 0;
}

size_t vmcu_input_size(const struct vmcu_context *ctx, unsigned int index)
{
	const struct vmcu_tensor *t = input_tensor(ctx, index);

	if (t == NULL) {
		return 0U;
	}
	return bytes_of(t, vmcu_is_stream(ctx->model) ? 1U : t->height);
}

size_t vmcu_row_size(const struct vmcu_context *ctx, unsigned int index)
{
	const struct vmcu_tensor *t = input_tensor(ctx, index);

	return (t == NULL) ? 0U : bytes_of(t, 1U);
}

static const int8_t *output_row(const struct vmcu_context *ctx, const struct vmcu_tensor *t,
				unsigned int y)
{
	const struct vmcu_pool pool = vmcu_pool_of_outputs(ctx);

	return vmcu_row(&pool, t, y);
}

VMCU_SMALL const int8_t *vmcu_output(const struct vmcu_context *ctx, unsigned int index)
{
	const struct vmcu_tensor *t = output_tensor(ctx, index);

	return (t == NULL || !vmcu_in_one_piece(ctx, t)) ? NULL : output_row(ctx, t, 0U);
}

const int8_t *vmcu_row_of_output(const struct vmcu_context *ctx, unsigned int index, unsigned int y)
{
	const struct vmcu_tensor *t = output_tensor(ctx, index);

	if (t == NULL || y >= vmcu_rows_of_output(ctx->model, t)) {
		return NULL;
	}
	return output_row(ctx, t, y);
}

size_t vmcu_output_size(const struct vmcu_context *ctx, unsigned int index)
{
	const struct vmcu_tensor *t = output_tensor(ctx, index);

	return (t == NULL) ? 0U : bytes_of(t, vmcu_rows_of_output(ctx->model, t));
}
