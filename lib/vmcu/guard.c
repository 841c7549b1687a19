/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Finds writes beside pools and reads of bytes that nobody has written.
 *
 * Around each pool lie canaries: in front of it, behind the model's own bytes and at the end of the
 * array that vmcu_init() was given. The second is written anew for each inference, since models
 * that take turns in one array need more or fewer bytes.
 */

#include <errno.h>

#include "hooks.h"
#include "pools.h"
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

void vmcu_guard_init(struct vmcu_context *ctx, unsigned int pool, size_t size)
{
	int8_t *const start = vmcu_circle_at(&ctx->pool, pool).start;

	if (vmcu_bytes_of_pool(ctx->model, pool) != 0U) {
		ctx->guard_ends[pool] = (uint32_t)(size - VMCU_POOL_GUARD_BYTES);
		write_canary(start - SIDE);
		write_canary(start + ctx->guard_ends[pool]);
	}
}

/** Checks one canary, @a offset bytes from the start of a pool. */
static int check_at(const struct vmcu_context *ctx, unsigned int pool, int32_t offset,
		    uint16_t stage)
{
	const int8_t *const start = vmcu_circle_at(&ctx->pool, pool).start;

	for (int32_t i = offset; i < offset + SIDE; i++) {
		if ((uint8_t)start[i] != CANARY) {
			vmcu_hook_overrun(ctx, pool, i, stage);
			return -EFAULT;
		}
	}
	return 0;
}

/** Checks the canaries at both ends of the array of each pool, and with @a own the model's. */
static int check_canaries(const struct vmcu_context *ctx, uint16_t stage, bool own)
{
	int err = 0;

	for (unsigned int i = 0; i < VMCU_MOST_POOLS && err == 0; i++) {
		const uint32_t bytes = vmcu_bytes_of_pool(ctx->model, i);

		if (bytes == 0U) {
			continue;
		}
		err = check_at(ctx, i, -SIDE, stage);
		if (err == 0) {
			err = check_at(ctx, i, (int32_t)ctx->guard_ends[i], stage);
		}
		if (err == 0 && own) {
			err = check_at(ctx, i, (int32_t)bytes, stage);
		}
	}
	return err;
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

/** True if pool @a number has the bytes of a tensor; @a base gets the first. */
static bool is_in(const struct vmcu_tensor *t, unsigned int number, uint32_t *base)
{
#if defined(VMCU_SEVERAL_POOLS)
	*base = VMCU_POOL_BYTE(t->base);
	return t->base >> VMCU_POOL_NUMBER == number;
#else
	*base = t->base;
	return number == 0U;
#endif
}

/** Bytes from @a at on that a tensor at @a base has in its pool; 0 if @a at is not its byte. */
static uint32_t held_from(uint32_t size, const struct vmcu_tensor *t, uint32_t base, uint32_t at)
{
	const uint32_t into = (at >= base) ? at - base : at + size - base;

	return (into < t->ring) ? t->ring - into : 0U;
}

static uint32_t larger_of(uint32_t a, uint32_t b)
{
	return (a > b) ? a : b;
}

/** Poisons all bytes of a pool that no tensor which is live in front of layer @a next holds. */
static void poison_pool(const struct vmcu_context *ctx, unsigned int number, uint16_t next)
{
	const struct vmcu_model *model = ctx->model;
	const struct vmcu_circle pool = vmcu_circle_at(&ctx->pool, number);
	uint32_t at = 0U;

	while (at < pool.size) {
		uint32_t held = 0U;
		uint32_t end = pool.size;

		for (uint16_t i = 0; i < model->tensor_count; i++) {
			const struct vmcu_tensor *t = &model->tensors[i];
			uint32_t base;

			if (!is_in(t, number, &base) || !is_live(model, i, next)) {
				continue;
			}
			held = larger_of(held, held_from(pool.size, t, base, at));
			end = (base > at && base < end) ? base : end;
		}
		if (held == 0U) {
			__builtin_memset(pool.start + at, POISON, end - at);
			held = end - at;
		}
		at += held;
	}
}

/** poison_pool() of all pools. */
static void poison_dead(const struct vmcu_context *ctx, uint16_t next)
{
	const struct vmcu_model *model = ctx->model;
	/* Of a stream, rings in any part of the pool hold rows for the next hop. */
	bool held = vmcu_is_stream(model);

#if defined(VMCU_POOL_ROTATE)
	/* Which bytes are in the overhang depends on the rows that they are of. */
	held = held || model->circle != 0U;
#endif
	for (unsigned int i = 0; i < VMCU_MOST_POOLS && !held; i++) {
		if (vmcu_bytes_of_pool(model, i) != 0U) {
			poison_pool(ctx, i, next);
		}
	}
}

int vmcu_guard_begin(struct vmcu_context *ctx)
{
	const int err = check_canaries(ctx, VMCU_HOOK_NO_STAGE, false);

	if (err != 0) {
		return err;
	}
	for (unsigned int i = 0; i < VMCU_MOST_POOLS; i++) {
		const uint32_t bytes = vmcu_bytes_of_pool(ctx->model, i);

		if (bytes != 0U) {
			write_canary(vmcu_circle_at(&ctx->pool, i).start + bytes);
		}
	}
	poison_dead(ctx, 0U);
	return 0;
}

int vmcu_guard_stage(struct vmcu_context *ctx, uint16_t number)
{
	const struct vmcu_stage *stage = &ctx->model->stages[number];
	const int err = check_canaries(ctx, number, true);

	if (err == 0) {
		poison_dead(ctx, (uint16_t)(stage->first + stage->count));
	}
	return err;
}

#endif /* VMCU_POOL_GUARD */
