/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Hooks around an inference: logs, traces, times, checks.
 *
 * The executor calls these at fixed places and does not know the listeners. All of them are empty
 * and leave no instruction unless the build defines VMCU_HOOKS (a port has the functions),
 * VMCU_PROFILE (it also times single calls of kernels), VMCU_PROBE (probe.c) or VMCU_POOL_GUARD
 * (guard.c).
 */

#ifndef VMCU_HOOKS_H_
#define VMCU_HOOKS_H_

#include <vmcu/access.h>
#include <vmcu/vmcu.h>

/** Stands for a stage where none has begun. */
#define VMCU_HOOK_NO_STAGE UINT16_MAX

#if defined(VMCU_HOOKS)

/** vmcu_init() is about to return @a err. */
void vmcu_hook_init(const struct vmcu_model *model, size_t size, int err);

/** An inference begins. */
void vmcu_hook_begin(struct vmcu_context *ctx);

/** It is over; the caller gets @a err. */
void vmcu_hook_end(const struct vmcu_context *ctx, int err);

/** Stage @a number begins. */
void vmcu_hook_stage_begin(const struct vmcu_context *ctx, uint16_t number);

/** It is over. */
void vmcu_hook_stage_end(const struct vmcu_context *ctx, uint16_t number);

/** Behind @a stage, byte @a offset from the pool's start has changed, which is outside of it. */
void vmcu_hook_overrun(const struct vmcu_context *ctx, unsigned int pool, int32_t offset,
		       uint16_t stage);

#else

static inline void vmcu_hook_init(const struct vmcu_model *model, size_t size, int err)
{
	(void)model;
	(void)size;
	(void)err;
}

static inline void vmcu_hook_begin(struct vmcu_context *ctx)
{
	(void)ctx;
}

static inline void vmcu_hook_end(const struct vmcu_context *ctx, int err)
{
	(void)ctx;
	(void)err;
}

static inline void vmcu_hook_stage_begin(const struct vmcu_context *ctx, uint16_t number)
{
	(void)ctx;
	(void)number;
}

static inline void vmcu_hook_stage_end(const struct vmcu_context *ctx, uint16_t number)
{
	(void)ctx;
	(void)number;
}

static inline void vmcu_hook_overrun(const struct vmcu_context *ctx, unsigned int pool,
				     int32_t offset, uint16_t stage)
{
	(void)ctx;
	(void)pool;
	(void)offset;
	(void)stage;
}

#endif /* VMCU_HOOKS */

#if defined(VMCU_PROFILE) || defined(VMCU_PROBE)

/** Calls a kernel. */
void vmcu_hook_call(const struct vmcu_context *ctx, const struct vmcu_call *call);

#else

static inline void vmcu_hook_call(const struct vmcu_context *ctx, const struct vmcu_call *call)
{
	vmcu_kernel_of(ctx->model, call->layer)(call);
}

#endif /* VMCU_PROFILE || VMCU_PROBE */

#if defined(VMCU_POOL_GUARD)

/** Writes the canaries around a pool of a context that is otherwise set up; @a size: of all. */
void vmcu_guard_init(struct vmcu_context *ctx, unsigned int pool, size_t size);

/**
 * @brief Checks the canaries and poisons all bytes but the inputs'.
 *
 * @retval -EFAULT Somebody has written outside the pool.
 */
int vmcu_guard_begin(struct vmcu_context *ctx);

/**
 * @brief Checks the canaries behind a stage and poisons the bytes that no later stage reads.
 *
 * @retval -EFAULT The stage has written outside the pool.
 */
int vmcu_guard_stage(struct vmcu_context *ctx, uint16_t number);

#else

static inline void vmcu_guard_init(struct vmcu_context *ctx, unsigned int pool, size_t size)
{
	(void)ctx;
	(void)pool;
	(void)size;
}

static inline int vmcu_guard_begin(struct vmcu_context *ctx)
{
	(void)ctx;
	return 0;
}

static inline int vmcu_guard_stage(struct vmcu_context *ctx, uint16_t number)
{
	(void)ctx;
	(void)number;
	return 0;
}

#endif /* VMCU_POOL_GUARD */

#endif /* VMCU_HOOKS_H_ */
