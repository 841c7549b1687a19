/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Binds the bytes of a context: one pool, or, where the build defines VMCU_SEVERAL_POOLS,
 * one for each memory that the model was built with.
 *
 * A circle is the plan's: surplus bytes would move every row behind the wrap.
 */

#ifndef VMCU_POOLS_H_
#define VMCU_POOLS_H_

#include <errno.h>

#include <vmcu/access.h>
#include <vmcu/vmcu.h>

/** One of the pools of a context. */
static inline struct vmcu_circle vmcu_circle_at(const struct vmcu_pool *pool, unsigned int number)
{
#if defined(VMCU_SEVERAL_POOLS)
	return pool->circles[number];
#else
	(void)number;
	return (struct vmcu_circle){.start = pool->start, .size = pool->size};
#endif
}

/** Bytes that a model needs of pool @a number; 0: the model has no such pool. */
static inline uint32_t vmcu_bytes_of_pool(const struct vmcu_model *model, unsigned int number)
{
#if defined(VMCU_SEVERAL_POOLS)
	if (model->pool_count != 0U) {
		return (number < model->pool_count) ? model->pools[number] : 0U;
	}
#endif
	return (number == 0U) ? model->pool_bytes : 0U;
}

#if defined(VMCU_SEVERAL_POOLS)

/** Takes a circle of @a bytes. */
static inline int vmcu_circle_bind(struct vmcu_circle *circle, const struct vmcu_memory *memory,
				   uint32_t bytes)
{
	if ((memory->start == NULL && bytes != 0U) ||
	    (uintptr_t)memory->start % VMCU_POOL_ALIGN != 0U) {
		return -EINVAL;
	}
	if (bytes != 0U && memory->size < bytes + VMCU_POOL_GUARD_BYTES) {
		return -ENOMEM;
	}
	circle->start = (bytes == 0U) ? NULL : (int8_t *)memory->start + VMCU_POOL_GUARD_BYTES / 2;
	circle->size = bytes;
	return 0;
}

/** Binds a context to a model and its pools; 0, -EINVAL or -ENOMEM. */
static inline int vmcu_pools_bind(struct vmcu_context *ctx, const struct vmcu_model *model,
				  const struct vmcu_memory *memories, size_t count)
{
	int err = 0;

	if (memories == NULL || count != ((model->pool_count == 0U) ? 1U : model->pool_count)) {
		return -EINVAL;
	}
	for (size_t i = 0; i < count && err == 0; i++) {
		err = vmcu_circle_bind(&ctx->pool.circles[i], &memories[i],
				       vmcu_bytes_of_pool(model, (unsigned int)i));
	}
	ctx->model = (err == 0) ? model : NULL;
	return err;
}

#else

/** Binds a context to a model and its pool; 0, -EINVAL or -ENOMEM. */
static inline int vmcu_pool_bind(struct vmcu_context *ctx, const struct vmcu_model *model,
				 void *pool, size_t size)
{
	if (pool == NULL || (uintptr_t)pool % VMCU_POOL_ALIGN != 0U) {
		return -EINVAL;
	}
	if (size < model->pool_bytes + VMCU_POOL_GUARD_BYTES) {
		return -ENOMEM;
	}
	ctx->model = model;
	ctx->pool.start = (int8_t *)pool + VMCU_POOL_GUARD_BYTES / 2;
	/* The circle is the plan's: surplus bytes would move every row behind the wrap. */
	ctx->pool.size = model->pool_bytes;
	return 0;
}

#endif /* VMCU_SEVERAL_POOLS */

#endif /* VMCU_POOLS_H_ */
