/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief One pool for models that take turns: CONFIG_VMCU_SHARED_POOL.
 */

#ifndef VMCU_SHARED_POOL_H_
#define VMCU_SHARED_POOL_H_

#include <stddef.h>

#include <zephyr/kernel.h>

#include <vmcu/vmcu.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_shared_pool A pool for several models
 * @{
 */

/** A pool and the mutex that guards it. The mutex lends its holder the waiters' priority. */
struct vmcu_shared_pool {
	/** @cond INTERNAL_HIDDEN */
	struct k_mutex mutex;
	void *pool;
	size_t size;
	struct vmcu_context *holder;
	/** @endcond */
};

/**
 * @brief Prepares a pool.
 *
 * @param shared Is set up.
 * @param pool   As large as the largest model's, see VMCU_POOL_DEFINE().
 * @param size   Bytes at @a pool.
 *
 * @retval 0       Ready.
 * @retval -EINVAL A pointer is NULL or the pool is misaligned.
 */
int vmcu_shared_pool_init(struct vmcu_shared_pool *shared, void *pool, size_t size);

/**
 * @brief Waits for the pool, then binds a model to it, as vmcu_init() does.
 *
 * Not from an interrupt. Whatever another model left in the pool is lost.
 *
 * @param shared  What vmcu_shared_pool_init() has prepared.
 * @param ctx     Is set up; the thread may use it until vmcu_shared_pool_release().
 * @param model   Tables from `vmcu build`.
 * @param timeout How long to wait.
 *
 * @retval 0        The pool is the thread's.
 * @retval -EINVAL  A pointer is NULL.
 * @retval -ENOMEM  The model needs a larger pool.
 * @retval -EAGAIN  Another thread kept the pool all the time.
 * @retval -EDEADLK This thread has the pool already.
 */
int vmcu_shared_pool_acquire(struct vmcu_shared_pool *shared, struct vmcu_context *ctx,
			     const struct vmcu_model *model, k_timeout_t timeout);

/**
 * @brief Gives the pool to the next thread.
 *
 * Read the outputs first. The context is bound to nothing afterwards: calls with it fail.
 *
 * @retval 0       Released.
 * @retval -EINVAL @a shared is NULL.
 * @retval -EPERM  This thread does not have the pool.
 */
int vmcu_shared_pool_release(struct vmcu_shared_pool *shared);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_SHARED_POOL_H_ */
