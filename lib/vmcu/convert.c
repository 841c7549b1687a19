/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>

#include <vmcu/convert.h>

#include "rotation.h"

/** Beyond this every int8 is reached, and below it every float32 is within int32. */
#define LIMIT 1048576.0f

/** A port, and the pool that its tensor is in. */
struct border {
	const struct vmcu_io *io;
	const struct vmcu_tensor *tensor;
	struct vmcu_pool pool;
	int8_t *bytes;
};

/** Byte @a i of the tensor, counted through its rows. */
static int8_t *byte_at(const struct border *b, uint32_t i)
{
#if defined(VMCU_POOL_ROTATE)
	const uint32_t row = (uint32_t)b->tensor->width * b->tensor->channels;

	return vmcu_row(&b->pool, b->tensor, i / row) + i % row;
#else
	return b->bytes + i;
#endif
}

/** The element of the file that is byte @a i in memory. */
static uint32_t element_at(const struct border *b, uint32_t i)
{
	const uint32_t pixels = (uint32_t)b->tensor->height * b->tensor->width;

	if ((b->io->flags & VMCU_IO_CHANNELS_FIRST) == 0U) {
		return i;
	}
	return i % b->tensor->channels * pixels + i / b->tensor->channels;
}

static uint32_t count_elements(const struct border *b)
{
	return (uint32_t)b->tensor->height * b->tensor->width * b->tensor->channels;
}

static struct border make_border(const struct vmcu_context *ctx, const struct vmcu_io *io,
				 struct vmcu_pool pool)
{
	const struct vmcu_tensor *tensor = &ctx->model->tensors[io->tensor];

	return (struct border){
		.io = io,
		.tensor = tensor,
		.pool = pool,
		.bytes = vmcu_row(&pool, tensor, 0),
	};
}

static int input_border(const struct vmcu_context *ctx, unsigned int index, const void *values,
			struct border *b)
{
	if (ctx == NULL || ctx->model == NULL || values == NULL ||
	    index >= ctx->model->input_count) {
		return -EINVAL;
	}
	if (!vmcu_holds_input(ctx->model) ||
	    (ctx->model->inputs[index].flags & VMCU_IO_WIDE) != 0U) {
		return -ENOTSUP;
	}
	*b = make_border(ctx, &ctx->model->inputs[index], ctx->pool);
	return 0;
}

static int output_border(const struct vmcu_context *ctx, unsigned int index, const void *values,
			 struct border *b)
{
	if (ctx == NULL || ctx->model == NULL || values == NULL ||
	    index >= ctx->model->output_count) {
		return -EINVAL;
	}
	if ((ctx->model->outputs[index].flags & VMCU_IO_WIDE) != 0U) {
		return -ENOTSUP;
	}
	*b = make_border(ctx, &ctx->model->outputs[index], vmcu_pool_of_outputs(ctx));
	return 0;
}

/** x to the nearest integer; ties away from zero, or else to even. */
static int32_t round_half(float x, bool away)
{
	int32_t whole = (int32_t)x;
	const float rest = x - (float)whole;
	const bool odd = (whole & 1) != 0;

	if (rest > 0.5f || (rest == 0.5f && (away || odd))) {
		whole++;
	}
	if (rest < -0.5f || (rest == -0.5f && (away || odd))) {
		whole--;
	}
	return whole;
}

static int8_t quantise_value(const struct vmcu_io *io, float value)
{
	float x = value / io->scale;
	int32_t q;

	/* Written so that NaN is clamped as well. */
	if (!(x > -LIMIT)) {
		x = -LIMIT;
	}
	if (x > LIMIT) {
		x = LIMIT;
	}
	q = round_half(x, (io->flags & VMCU_IO_HALF_AWAY) != 0U) + io->zero_point;
	return (int8_t)((q < INT8_MIN) ? INT8_MIN : (q > INT8_MAX) ? INT8_MAX : q);
}

int vmcu_set_float(const struct vmcu_context *ctx, unsigned int index, const float *values)
{
	struct border b;
	const int err = input_border(ctx, index, values, &b);

	for (uint32_t i = 0; err == 0 && i < count_elements(&b); i++) {
		*byte_at(&b, i) = quantise_value(b.io, values[element_at(&b, i)]);
	}
	return err;
}

int vmcu_set_uint8(const struct vmcu_context *ctx, unsigned int index, const uint8_t *values)
{
	struct border b;
	const int err = input_border(ctx, index, values, &b);

	for (uint32_t i = 0; err == 0 && i < count_elements(&b); i++) {
		*byte_at(&b, i) = (int8_t)(values[element_at(&b, i)] + INT8_MIN);
	}
	return err;
}

int vmcu_get_float(const struct vmcu_context *ctx, unsigned int index, float *values)
{
	struct border b;
	const int err = output_border(ctx, index, values, &b);

	for (uint32_t i = 0; err == 0 && i < count_elements(&b); i++) {
		values[element_at(&b, i)] =
			(float)(*byte_at(&b, i) - b.io->zero_point) * b.io->scale;
	}
	return err;
}

int vmcu_get_uint8(const struct vmcu_context *ctx, unsigned int index, uint8_t *values)
{
	struct border b;
	const int err = output_border(ctx, index, values, &b);

	for (uint32_t i = 0; err == 0 && i < count_elements(&b); i++) {
		values[element_at(&b, i)] = (uint8_t)(*byte_at(&b, i) - INT8_MIN);
	}
	return err;
}
