/*
 * SPDX-License-Identifier: Apache-2.0
 */

/**
 * @file
 * @brief Inference on a work queue: CONFIG_VMCU_ASYNC.
 */

#ifndef VMCU_ASYNC_H_
#define VMCU_ASYNC_H_

#include <stdbool.h>

#include <zephyr/kernel.h>

#include <vmcu/vmcu.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @defgroup vmcu_async Inference on a work queue
 * @{
 */

/** An inference that a work queue computes. The caller owns it; one at a time per context. */
struct vmcu_async {
	/** @cond INTERNAL_HIDDEN */
	struct k_work work;
	struct k_spinlock lock;
	struct vmcu_context *ctx;
	struct k_poll_signal *done;
	bool busy;
	/** @endcond */
};

/**
 * @brief Prepares an inference; once, before the first vmcu_invoke_async().
 *
 * @param job Is set up. Must not be in use.
 * @param ctx What vmcu_init() has set up, or will have by the time of vmcu_invoke_async().
 *
 * @retval 0       Ready.
 * @retval -EINVAL A pointer is NULL.
 */
int vmcu_async_init(struct vmcu_async *job, struct vmcu_context *ctx);

/**
 * @brief Starts an inference and returns at once.
 *
 * The inputs are there already, see vmcu_input(). Until @a done is raised the context and its pool
 * belong to the queue. May be called from an interrupt. As with any work of Zephyr's, a job that is
 * submitted again before its queue's thread has gone on from raising the signal stays with that
 * queue.
 *
 * @param job   What vmcu_async_init() has prepared.
 * @param queue Whose thread computes it, with a stack of CONFIG_VMCU_THREAD_STACK_SIZE bytes or
 *              more; NULL for the system's.
 * @param done  Is reset, and raised at the end with what vmcu_invoke() returns.
 *
 * @retval 0        Submitted.
 * @retval -EINVAL  A pointer is NULL or the context was not set up.
 * @retval -ENOTSUP The model was built with --stream-input.
 * @retval -EBUSY   The job has not ended yet, or the queue takes no more work.
 * @retval -ENODEV  The queue was not started.
 */
int vmcu_invoke_async(struct vmcu_async *job, struct k_work_q *queue, struct k_poll_signal *done);

/**
 * @brief Stops an inference at its next row; its signal is raised with -ECANCELED.
 *
 * From any thread or interrupt. One that waits in its queue ends when the queue comes to it. One
 * that has computed its last row raises what it has.
 *
 * @retval 0         The request was noted.
 * @retval -EINVAL   @a job is NULL.
 * @retval -EALREADY Nothing is to be cancelled.
 */
int vmcu_async_cancel(struct vmcu_async *job);

/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VMCU_ASYNC_H_ */
