/*
 * SPDX-License-Identifier: Apache-2.0
 */

#include <errno.h>

#include <vmcu/shared_pool.h>

int vmcu_shared_pool_init(struct vmcu_shared_pool *shared, void *pool, size_t size)
{
	if (shared == NULL || pool == NULL || (uintptr_t)pool % VMCU_POOL_ALIGN != 0U) {
		return -EINVAL;
	}
	*shared = (struct vmcu_shared_pool){.pool = pool, .size = size};
	return k_mutex_init(&shared->mutex);
}

int vmcu_shared_pool_acquire(struct vmcu_shared_pool *shared, struct vmcu_context *ctx,
			     const struct vmcu_model *model, k_timeout_t timeout)
{
	int err;

	if (shared == NULL || ctx == NULL || model == NULL) {
		return -EINVAL;
	}
	/* Zephyr says -EBUSY where nobody was to wait. */
	if (k_mutex_lock(&shared->mutex, timeout) != 0) {
		return -EAGAIN;
	}
	/* Zephyr's mutexes may be locked again by their owner, a pool may not. */
	err = (shared->holder != NULL) ? -EDEADLK
				       : vmcu_init(ctx, model, shared->pool, shared->size);
	if (err != 0) {
		(void)k_mutex_unlock(&shared->mutex);
		return err;
	}
	shared->holder = ctx;
	return 0;
}

int vmcu_shared_pool_release(struct vmcu_shared_pool *shared)
{
	if (shared == NULL) {
		return -EINVAL;
	}
	if (shared->mutex.owner != k_current_get()) {
		return -EPERM;
	}
	shared->holder->model = NULL;
	shared->holder = NULL;
	return k_mutex_unlock(&shared->mutex);
}
