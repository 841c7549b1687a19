/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief One pool that several models use in turn: CONFIG_VMCU_SHARED_POOL.
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

/** A pool and its mutex, which inherits the priority of waiting threads. The caller owns it. */
struct vmcu_shared_pool {
	/** @cond INTERNAL_HIDDEN */
	struct k_mutex mutex;
	void *pool;
	size_t size;
	struct vmcu_context *holder;
	/** @endcond */
};

/**
 * @brief Sets up a shared pool.
 *
 * @param shared Shared pool to set up.
 * @param pool   At least as large as the largest model's pool, see VMCU_POOL_DEFINE().
 * @param size   Bytes at @a pool.
 *
 * @retval 0       Ready.
 * @retval -EINVAL A pointer is NULL or the pool is misaligned.
 */
int vmcu_shared_pool_init(struct vmcu_shared_pool *shared, void *pool, size_t size);

/**
 * @brief Waits for the pool, then binds a model to it, as vmcu_init() does.
 *
 * Do not call it from an interrupt. The model overwrites the data of other models in the pool.
 *
 * @param shared  Shared pool that vmcu_shared_pool_init() has set up.
 * @param ctx     Context to set up. The thread can use it until vmcu_shared_pool_release().
 * @param model   Tables from `vmcu build`.
 * @param timeout Longest time to wait.
 *
 * @retval 0        The thread owns the pool.
 * @retval -EINVAL  A pointer is NULL.
 * @retval -ENOMEM  The model needs a larger pool.
 * @retval -EAGAIN  Another thread owned the pool until the timeout.
 * @retval -EDEADLK This thread owns the pool already.
 */
int vmcu_shared_pool_acquire(struct vmcu_shared_pool *shared, struct vmcu_context *ctx,
			     const struct vmcu_model *model, k_timeout_t timeout);

/**
 * @brief Releases the pool for the next thread.
 *
 * Read the outputs before this call. After it, calls with the context fail.
 *
 * @retval 0       Released.
 * @retval -EINVAL @a shared is NULL.
 * @retval -EPERM  This thread does not own the pool.
 */
int vmcu_shared_pool_release(struct vmcu_shared_pool *shared);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_SHARED_POOL_H_ */
