/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Finds writes beside the pool and reads of bytes that nobody has written.
 *
 * Around the pool lie canaries: in front of it, behind the model's own circle and at the end of the
 * array that vmcu_init() was given. The circle's is written anew for each inference, since models
 * that take turns in one array have circles of different sizes.
 */

#include <errno.h>

#include "hooks.h"
#include "streams.h"

#if defined(VMCU_POOL_GUARD)

#define SIDE (VMCU_POOL_GUARD_BYTES / 2)

/* Unlike each other, and unlike zeros, zero points and saturated values. */
#define CANARY 0xc5
#define POISON 0x55

static void write_canary(int8_t *at)
{
	__builtin_memset(at, CANARY, SIDE);
}

void vmcu_guard_init(struct vmcu_context *ctx, size_t size)
{
	ctx->guard_end = (uint32_t)(size - VMCU_POOL_GUARD_BYTES);
	write_canary(ctx->pool.start - SIDE);
	write_canary(ctx->pool.start + ctx->guard_end);
}

/** Checks one canary, @a offset bytes from the pool's start. */
static int check_at(const struct vmcu_context *ctx, int32_t offset, uint16_t stage)
{
	for (int32_t i = offset; i < offset + SIDE; i++) {
		if ((uint8_t)ctx->pool.start[i] != CANARY) {
			vmcu_hook_overrun(ctx, i, stage);
			return -EFAULT;
		}
	}
	return 0;
}

/** Checks the canaries at both ends of the array. */
static int check_ends(const struct vmcu_context *ctx, uint16_t stage)
{
	const int err = check_at(ctx, -SIDE, stage);

	return (err != 0) ? err : check_at(ctx, (int32_t)ctx->guard_end, stage);
}

/** True if tensor @a index holds something when stages in front of layer @a next are done. */
static bool is_live(const struct vmcu_model *model, uint16_t index, uint16_t next)
{
	/* Rows of a streamed input come while the first stage runs. */
	const bool filled = !model->streamed || next > 0U;
	bool written = false;
	bool read = false;

	for (uint8_t i = 0; i < model->input_count && filled; i++) {
		written = written || model->inputs[i].tensor == index;
	}
	for (uint8_t i = 0; i < model->output_count; i++) {
		read = read || model->outputs[i].tensor == index;
	}
	for (uint16_t n = 0; n < model->layer_count; n++) {
		const struct vmcu_layer *layer = &model->layers[n];
		const uint16_t *inputs = vmcu_at(vmcu_base(model), layer->inputs);

		if (n < next) {
			written = written || layer->output == index;
			continue;
		}
		for (uint8_t i = 0; i < layer->input_count; i++) {
			read = read || inputs[i] == index;
		}
	}
	return written && read;
}

/** Bytes from @a at on that tensor @a t has in the pool; 0 if @a at is not its byte. */
static uint32_t held_from(const struct vmcu_pool *pool, const struct vmcu_tensor *t, uint32_t at)
{
	const uint32_t into = (at >= t->base) ? at - t->base : at + pool->size - t->base;

	return (into < t->ring) ? t->ring - into : 0U;
}

static uint32_t larger_of(uint32_t a, uint32_t b)
{
	return (a > b) ? a : b;
}

/** Poisons all bytes of the pool that no tensor which is live in front of layer @a next holds. */
static void poison_dead(const struct vmcu_context *ctx, uint16_t next)
{
	const struct vmcu_model *model = ctx->model;
	const struct vmcu_pool *pool = &ctx->pool;
	uint32_t at = 0U;

	/* Of a stream, rings in any part of the pool hold rows for the next hop. */
	while (at < pool->size && !vmcu_is_stream(model)) {
		uint32_t held = 0U;
		uint32_t end = pool->size;

		for (uint16_t i = 0; i < model->tensor_count; i++) {
			const struct vmcu_tensor *t = &model->tensors[i];

			if (!is_live(model, i, next)) {
				continue;
			}
			held = larger_of(held, held_from(pool, t, at));
			end = (t->base > at && t->base < end) ? t->base : end;
		}
		if (held == 0U) {
			__builtin_memset(pool->start + at, POISON, end - at);
			held = end - at;
		}
		at += held;
	}
}

int vmcu_guard_begin(struct vmcu_context *ctx)
{
	const int err = check_ends(ctx, VMCU_HOOK_NO_STAGE);

	if (err != 0) {
		return err;
	}
	write_canary(ctx->pool.start + ctx->pool.size);
	poison_dead(ctx, 0U);
	return 0;
}

int vmcu_guard_stage(struct vmcu_context *ctx, uint16_t number)
{
	const struct vmcu_stage *stage = &ctx->model->stages[number];
	int err = check_ends(ctx, number);

	if (err == 0) {
		err = check_at(ctx, (int32_t)ctx->pool.size, number);
	}
	if (err == 0) {
		poison_dead(ctx, (uint16_t)(stage->first + stage->count));
	}
	return err;
}

#endif /* VMCU_POOL_GUARD */
