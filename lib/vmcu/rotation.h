/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief A pool whose origin advances after each inference, so that every byte takes every role.
 *
 * Inputs are written where the next inference runs, outputs read where the last one did. Nothing
 * is left of this unless the build defines VMCU_POOL_ROTATE.
 */

#ifndef VMCU_ROTATION_H_
#define VMCU_ROTATION_H_

#include <stdbool.h>

#include <vmcu/access.h>
#include <vmcu/vmcu.h>

#if defined(VMCU_POOL_ROTATE)

/** Origins are multiples of so many bytes. */
#define VMCU_ORIGIN_STEP 4U

/** Puts byte 0 of the circle @a offset bytes from its start. */
static inline void vmcu_turn(struct vmcu_pool *pool, uint32_t offset)
{
	pool->origin = pool->start + offset;
	pool->cut = pool->size - offset;
}

/** The position of an inference at the pool's origin, from row to row. */
static inline struct vmcu_position *vmcu_position(struct vmcu_context *ctx)
{
	return &ctx->positions[ctx->pool.cut / VMCU_ORIGIN_STEP % VMCU_POSITIONS];
}

/** The circle of a context whose pool is as large as the model asks. */
static inline void vmcu_rotation_init(struct vmcu_context *ctx)
{
	const struct vmcu_model *model = ctx->model;

	if (model->circle != 0U) {
		ctx->pool.size = model->circle;
	}
	vmcu_turn(&ctx->pool, 0U);
	ctx->pool.run = model->pool_bytes - ctx->pool.size + 1U;
	ctx->outputs_origin = 0U;
}

/** Advances the origin behind an inference that has ended with @a err. */
static inline void vmcu_rotate(struct vmcu_context *ctx, int err)
{
	const uint32_t origin = ctx->pool.size - ctx->pool.cut;
	const uint32_t next = origin + ctx->model->step;

	if (err == 0) {
		ctx->outputs_origin = origin;
		vmcu_turn(&ctx->pool, (next < ctx->pool.size) ? next : next - ctx->pool.size);
	}
}

static inline struct vmcu_pool vmcu_pool_of_outputs(const struct vmcu_context *ctx)
{
	struct vmcu_pool pool = ctx->pool;

	vmcu_turn(&pool, ctx->outputs_origin);
	return pool;
}

/** True if a whole tensor is always in one piece. */
static inline bool vmcu_in_one_piece(const struct vmcu_context *ctx, const struct vmcu_tensor *t)
{
	return ctx->model->circle == 0U || t->ring <= ctx->pool.run || t->height == 1U;
}

#else

static inline struct vmcu_position *vmcu_position(struct vmcu_context *ctx)
{
	return &ctx->positions[0];
}

static inline void vmcu_rotation_init(struct vmcu_context *ctx)
{
	(void)ctx;
}

static inline void vmcu_rotate(struct vmcu_context *ctx, int err)
{
	(void)ctx;
	(void)err;
}

static inline struct vmcu_pool vmcu_pool_of_outputs(const struct vmcu_context *ctx)
{
	return ctx->pool;
}

static inline bool vmcu_in_one_piece(const struct vmcu_context *ctx, const struct vmcu_tensor *t)
{
	(void)ctx;
	(void)t;
	return true;
}

#endif /* VMCU_POOL_ROTATE */

#endif /* VMCU_ROTATION_H_ */
